"""What a conversation waits for the user for: the one place that says so, for tabs, title, notices, lists and `next`.

Pure, and standard library only: the first frame needs it. Everything here follows from the log but what the terminal
tells, so that it is still there after a restart.
"""

from __future__ import annotations

from enum import Enum

from tui.i18n import _


class Wait(Enum):
    """One thing that only the user can do. Values: the words."""

    APPROVAL = _("asks you")
    INPUT = _("a command waits for input")
    PLAN = _("a plan waits for your yes")
    KEY = _("the model needs a key")
    MODEL = _("the model failed")
    SANDBOX = _("the sandbox is gone")
    LIMIT = _("reached a limit")
    STUCK = _("goes round in a circle")
    ERROR = _("error")
    RESTART = _("interrupted by a restart")
    QUESTION = _("waits for you")


_BY_HALT = {"limit": Wait.LIMIT, "model": Wait.MODEL, "sandbox": Wait.SANDBOX, "stuck": Wait.STUCK}
_BY_STATE = {
    "awaiting_user_confirmation": Wait.APPROVAL,
    "awaiting_user_input": Wait.QUESTION,
    "error": Wait.ERROR,
}
NEEDS_KEY = "authentication"
"""The kind of a model's error that a key mends."""


def wait_of(
    agent_state: str,
    halt: str = "",
    what: str = "",
    *,
    said: bool = True,
    reads_terminal: bool = False,
    has_plan: bool = False,
    was_interrupted: bool = False,
) -> Wait | None:
    """What is waited for, None where nothing is.

    `halt` and `what` are the kind and the cause of what stands in the agent's way. A conversation in which nothing was
    `said` rests, it does not ask. `was_interrupted` tells that a stopped one was at work when its process ended.
    """
    if halt:
        return Wait.KEY if (halt, what) == ("model", NEEDS_KEY) else _BY_HALT.get(halt, Wait.ERROR)
    if reads_terminal:
        return Wait.INPUT
    if has_plan:
        return Wait.PLAN
    if agent_state == "stopped" and was_interrupted:
        return Wait.RESTART
    found = _BY_STATE.get(agent_state)
    return None if found is Wait.QUESTION and not said else found
