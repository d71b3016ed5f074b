"""The state of a conversation in one glyph and one word, the same on tabs, in lists and in the footer.

Standard library only: the first frame needs it.
"""

from __future__ import annotations

from enum import Enum


class Mark(Enum):
    """How a conversation stands, for one who looks at it from outside. Values: glyph, word, theme variable."""

    RUNNING = ("▶", "running", "$text-primary")
    ASKING = ("?", "asks you", "$text-warning")
    WAITING = ("◆", "waits for you", "$text-accent")
    ERROR = ("✕", "error", "$text-error")
    PAUSED = ("‖", "paused", "$text-accent")
    DONE = ("✓", "finished", "$text-success")
    ASLEEP = ("z", "asleep", "$text-muted")
    IDLE = ("•", "idle", "$text-muted")

    @property
    def glyph(self) -> str:
        """One cell."""
        return self.value[0]

    @property
    def word(self) -> str:
        """For people."""
        return self.value[1]

    @property
    def colour(self) -> str:
        """A theme variable; never the only sign."""
        return self.value[2]


_BY_STATE = {
    "loading": (Mark.IDLE, "starting"),
    "running": (Mark.RUNNING, "running"),
    "user_confirmed": (Mark.RUNNING, "running"),
    "user_rejected": (Mark.RUNNING, "running"),
    "rate_limited": (Mark.RUNNING, "rate limited, waits"),
    "awaiting_user_input": (Mark.WAITING, "waits for you"),
    "awaiting_user_confirmation": (Mark.ASKING, "asks you"),
    "paused": (Mark.PAUSED, "paused"),
    "stopped": (Mark.IDLE, "stopped"),
    "finished": (Mark.DONE, "finished"),
    "rejected": (Mark.IDLE, "declined the task"),
    "error": (Mark.ERROR, "error"),
}


_BY_HALT = {
    "limit": (Mark.ASKING, "reached a limit"),
    "model": (Mark.ERROR, "the model failed"),
    "sandbox": (Mark.ERROR, "the sandbox is gone"),
    "stuck": (Mark.ASKING, "goes round in a circle"),
}


def mark_of(agent_state: str, halt: str | None, asleep: bool = False) -> tuple[Mark, str]:
    """The mark and the words for a controller's state; what stands in its way, where something does.

    What somebody has to look at is told even of a conversation that sleeps.
    """
    found = _BY_HALT.get(halt or "") or _BY_STATE.get(agent_state, (Mark.IDLE, agent_state))
    return (Mark.ASLEEP, "asleep") if asleep and found[0] not in URGENT else found


URGENT = (Mark.ASKING, Mark.ERROR)
"""Marks of conversations that do not go on by themselves, the most urgent first."""
