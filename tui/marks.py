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
    "paused": (Mark.WAITING, "paused"),
    "stopped": (Mark.IDLE, "stopped"),
    "finished": (Mark.IDLE, "finished"),
    "rejected": (Mark.IDLE, "declined the task"),
    "error": (Mark.ERROR, "error"),
}


_BY_HALT = {
    "limit": (Mark.ASKING, "reached a limit"),
    "model": (Mark.ERROR, "the model failed"),
    "sandbox": (Mark.ERROR, "the sandbox is gone"),
    "stuck": (Mark.ASKING, "goes round in a circle"),
}


def mark_of(agent_state: str, halt: str | None) -> tuple[Mark, str]:
    """The mark and the words for a controller's state; what stands in its way, where something does."""
    if halt in _BY_HALT:
        return _BY_HALT[halt]
    return _BY_STATE.get(agent_state, (Mark.IDLE, agent_state))
