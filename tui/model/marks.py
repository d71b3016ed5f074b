"""The state of a conversation in one glyph and one word, the same on tabs, in lists and in the footer.

Standard library only: the first frame needs it.
"""

from __future__ import annotations

from enum import Enum

from tui.i18n import _


class Mark(Enum):
    """How a conversation stands, for one who looks at it from outside. Values: glyph, word, theme variable."""

    RUNNING = ("▶", _("running"), "$text-primary")
    ASKING = ("?", _("asks you"), "$text-warning")
    WAITING = ("◆", _("waits for you"), "$text-accent")
    ERROR = ("✕", _("error"), "$text-error")
    PAUSED = ("‖", _("paused"), "$text-accent")
    DONE = ("✓", _("finished"), "$text-success")
    ASLEEP = ("z", _("asleep"), "$text-muted")
    REPLAY = ("↺", _("replay"), "$text-secondary")
    IDLE = ("•", _("idle"), "$text-muted")

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
    "loading": (Mark.IDLE, _("starting")),
    "running": (Mark.RUNNING, _("running")),
    "user_confirmed": (Mark.RUNNING, _("running")),
    "user_rejected": (Mark.RUNNING, _("running")),
    "rate_limited": (Mark.RUNNING, _("rate limited, waits")),
    "awaiting_user_input": (Mark.WAITING, _("waits for you")),
    "awaiting_user_confirmation": (Mark.ASKING, _("asks you")),
    "paused": (Mark.PAUSED, _("paused")),
    "stopped": (Mark.IDLE, _("stopped")),
    "finished": (Mark.DONE, _("finished")),
    "rejected": (Mark.IDLE, _("declined the task")),
    "error": (Mark.ERROR, _("error")),
}


_BY_HALT = {
    "limit": (Mark.ASKING, _("reached a limit")),
    "model": (Mark.ERROR, _("the model failed")),
    "sandbox": (Mark.ERROR, _("the sandbox is gone")),
    "stuck": (Mark.ASKING, _("goes round in a circle")),
}


def mark_of(agent_state: str, halt: str | None, asleep: bool = False) -> tuple[Mark, str]:
    """The mark and the words for a controller's state; what stands in its way, where something does.

    What somebody has to look at is told even of a conversation that sleeps.
    """
    found = _BY_HALT.get(halt or "") or _BY_STATE.get(agent_state, (Mark.IDLE, agent_state))
    return (Mark.ASLEEP, _("asleep")) if asleep and found[0] not in URGENT else found


URGENT = (Mark.ASKING, Mark.ERROR)
"""Marks of conversations that do not go on by themselves, the most urgent first."""
