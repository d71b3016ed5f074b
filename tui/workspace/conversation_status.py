"""The status of a conversation, the same on tabs, in lists, in the footer and in notifications.

`Mark` is the state in one glyph and one word, `Wait` what the conversation waits for the user to do, and `Attention`
decides which changes a user who looks elsewhere is notified of. Pure, and standard library only, because the first
frame needs it. All but a waiting terminal follows from the log, so it is the same after a restart.
"""

from __future__ import annotations

from enum import Enum

from tui.i18n import _


class Wait(Enum):
    """Something that only the user can do. Values: the words."""

    APPROVAL = _("needs approval")
    INPUT = _("a command waits for input")
    PLAN = _("a plan waits for approval")
    KEY = _("the model needs a key")
    MODEL = _("the model failed")
    SANDBOX = _("the sandbox has stopped")
    LIMIT = _("reached a limit")
    STUCK = _("seems stuck in a loop")
    ERROR = _("error")
    RESTART = _("interrupted by a restart")
    QUESTION = _("waiting for you")


_BY_HALT = {"limit": Wait.LIMIT, "model": Wait.MODEL, "sandbox": Wait.SANDBOX, "stuck": Wait.STUCK}
_WAITS_BY_STATE = {
    "awaiting_user_confirmation": Wait.APPROVAL,
    "awaiting_user_input": Wait.QUESTION,
    "error": Wait.ERROR,
}
NEEDS_KEY = "authentication"
"""The kind of a model's error that an API key fixes."""


def wait_of(
    agent_state: str,
    halt: str = "",
    what: str = "",
    *,
    has_message: bool = True,
    reads_terminal: bool = False,
    has_plan: bool = False,
    was_interrupted: bool = False,
) -> Wait | None:
    """What the conversation waits for; None if nothing.

    `halt` and `what` are the kind and the cause of what stopped the agent. Without a message (`has_message`) the agent
    does not ask anything. `was_interrupted` means that the agent was working when its process ended.
    """
    if halt:
        return Wait.KEY if (halt, what) == ("model", NEEDS_KEY) else _BY_HALT.get(halt, Wait.ERROR)
    if reads_terminal:
        return Wait.INPUT
    if has_plan:
        return Wait.PLAN
    if agent_state == "stopped" and was_interrupted:
        return Wait.RESTART
    found = _WAITS_BY_STATE.get(agent_state)
    return None if found is Wait.QUESTION and not has_message else found


class Mark(Enum):
    """The state of a conversation, as the tab bar and the footer show it. Values: glyph, word, theme variable."""

    RUNNING = ("▶", _("running"), "$text-primary")
    WAITING = ("◆", _("waiting for you"), "$text-accent")
    PAUSED = ("‖", _("paused"), "$text-accent")
    DONE = ("✓", _("finished"), "$text-success")
    SUSPENDED = ("z", _("suspended"), "$text-muted")
    REPLAY = ("↺", _("replay"), "$text-secondary")
    IDLE = ("•", _("idle"), "$text-muted")

    def __init__(self, glyph: str, word: str, colour: str) -> None:
        self.glyph, self.word, self.colour = glyph, word, colour


_BY_STATE = {
    "loading": (Mark.IDLE, _("starting")),
    "running": (Mark.RUNNING, _("running")),
    "user_confirmed": (Mark.RUNNING, _("running")),
    "user_rejected": (Mark.RUNNING, _("running")),
    "rate_limited": (Mark.RUNNING, _("rate limited, waiting")),
    "awaiting_user_input": (Mark.WAITING, _("waiting for you")),
    "paused": (Mark.PAUSED, _("paused")),
    "stopped": (Mark.IDLE, _("stopped")),
    "finished": (Mark.DONE, _("finished")),
    "rejected": (Mark.IDLE, _("declined the task")),
}


def mark_of(agent_state: str, wait: Wait | None = None, is_suspended: bool = False) -> tuple[Mark, str]:
    """The mark and the words for a controller's state.

    Everything that waits for the user has the same mark, also in a suspended conversation.
    """
    if wait is not None:
        return Mark.WAITING, wait.value
    return (Mark.SUSPENDED, _("suspended")) if is_suspended else _BY_STATE.get(agent_state, (Mark.IDLE, agent_state))


def mark_of_stored(agent_state: str) -> tuple[Mark, str]:
    """As `mark_of`, if only the last stored state is known."""
    return mark_of(agent_state, wait_of(agent_state))


LONG_S = 20.0
"""The user is not notified of the end of shorter work."""
ENDS = frozenset({Mark.DONE, Mark.IDLE})
"""Work has ended. What the user paused and what was suspended is no news."""


class Attention:
    """The last known states of the conversations, to find the changes that are worth a notification."""

    def __init__(self) -> None:
        self._states: dict[str, Mark | Wait] = {}
        self._working_since: dict[str, float] = {}

    def is_news(self, conversation_id: str, state: Mark | Wait, now: float) -> bool:
        """Note the wait, else the mark, at a time in seconds. Returns whether the user should be notified."""
        before = self._states.get(conversation_id)
        self._states[conversation_id] = state
        if state is Mark.RUNNING:
            if before is not Mark.RUNNING:
                self._working_since[conversation_id] = now
            return False
        since = self._working_since.pop(conversation_id, None)
        if before is None or before is state:
            return False
        if state in ENDS:
            return since is not None and now - since > LONG_S
        return isinstance(state, Wait)
