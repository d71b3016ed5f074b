"""The question whether an action may be carried out, and what an answer to it means. Pure."""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import Any

from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ToolCallProgress,
)
from pydantic import ValidationError

from core.events import Envelope
from tui.acp.actions import Paths, asked, call_id
from tui.i18n import _

log = logging.getLogger(__name__)

OTHERWISE = "The user does not want this. Find another way, or ask."
"""For the agent."""


class Answer(Enum):
    """What the user says."""

    ALLOW = auto()
    ALLOW_ALL = auto()
    STOP = auto()
    """Not this, and wait for what the user says next."""
    OTHERWISE = auto()
    """Not this; go on without it."""
    CANCEL = auto()
    """The editor says that the prompt was cancelled."""
    NONE = auto()
    """Nothing that can be understood; the action waits."""


_OPTIONS = {
    "allow": (Answer.ALLOW, "allow_once", _("Allow")),
    "allow_all": (Answer.ALLOW_ALL, "allow_always", _("Allow this and everything after it in this session")),
    "reject": (Answer.STOP, "reject_once", _("Reject and wait for me")),
    "reject_and_go_on": (Answer.OTHERWISE, "reject_once", _("Reject and let the agent find another way")),
}


def request(session_id: str, envelope: Envelope, paths: Paths, prefix: str = "") -> RequestPermissionRequest:
    """The question about an action that waits."""
    return RequestPermissionRequest(
        session_id=session_id,
        tool_call=asked(envelope, paths, prefix),
        options=[
            PermissionOption(option_id=id, kind=kind, name=name) for id, (_answer, kind, name) in _OPTIONS.items()
        ],
    )


def answer(result: Any) -> Answer:
    """What the editor's answer means. Only a clear yes is one."""
    try:
        outcome = RequestPermissionResponse.model_validate(result).outcome
    except ValidationError as error:
        log.warning("the answer to a question was none: %s", error.errors(include_input=False)[0]["msg"])
        return Answer.NONE
    match outcome:
        case DeniedOutcome():
            return Answer.CANCEL
        case AllowedOutcome(option_id=id) if id in _OPTIONS:
            return _OPTIONS[id][0]
    log.warning("the answer to a question was none of its options")
    return Answer.NONE


def settled(prefix: str, action_id: int, answer: Answer) -> ToolCallProgress:
    """The end of the tool call that stood for a delegate's question: its work is told by the delegate's result."""
    is_allowed = answer in (Answer.ALLOW, Answer.ALLOW_ALL)
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=prefix + call_id(action_id),
        status="completed" if is_allowed else "failed",
    )
