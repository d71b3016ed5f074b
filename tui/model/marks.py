"""The state of a conversation in one glyph and one word, the same on tabs, in lists and in the footer.

Standard library only: the first frame needs it.
"""

from __future__ import annotations

from enum import Enum

from tui.i18n import _
from tui.model.waits import Wait, wait_of


class Mark(Enum):
    """How a conversation stands, for one who looks at it from outside. Values: glyph, word, theme variable."""

    RUNNING = ("▶", _("running"), "$text-primary")
    WAITING = ("◆", _("waits for you"), "$text-accent")
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
    "paused": (Mark.PAUSED, _("paused")),
    "stopped": (Mark.IDLE, _("stopped")),
    "finished": (Mark.DONE, _("finished")),
    "rejected": (Mark.IDLE, _("declined the task")),
}


def mark_of(agent_state: str, wait: Wait | None = None, asleep: bool = False) -> tuple[Mark, str]:
    """The mark and the words for a controller's state, and for what the user is waited for.

    What is waited for has one look whatever it is, and is told even of a conversation that sleeps.
    """
    if wait is not None:
        return Mark.WAITING, wait.value
    return (Mark.ASLEEP, _("asleep")) if asleep else _BY_STATE.get(agent_state, (Mark.IDLE, agent_state))


def mark_of_stored(agent_state: str) -> tuple[Mark, str]:
    """As `mark_of`, of a conversation of which only its last state is known."""
    return mark_of(agent_state, wait_of(agent_state))


URGENT = (Mark.WAITING,)
"""Marks of conversations that do not go on by themselves, the most urgent first."""
