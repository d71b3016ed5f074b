"""The question whether an action is allowed, and the meaning of the editor's answer. Pure.

The protocol has four kinds of options, and any number of each with their own names, so each scope of the workspace is
one. An option that covers more than this action names its pattern, and is offered only if the pattern covers the action
and a permission can change the decision.
"""

from __future__ import annotations

import logging
from collections.abc import Container
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
from core.security.permissions import Scope
from tui.acp.tool_calls import Paths, asked, call_id, said
from tui.approval.question import Question
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

log = logging.getLogger(__name__)

PATTERN_CELLS = 120


class Answer(Enum):
    """What the user says."""

    ALLOW = auto()
    ALLOW_HERE = auto()
    """This, and what its pattern covers, in this conversation."""
    ALLOW_PROJECT = auto()
    ALLOW_EVERYWHERE = auto()
    NEVER = auto()
    """Not this, nor what its pattern covers in this project."""
    STOP = auto()
    """Not this, and wait for what the user says next."""
    OTHERWISE = auto()
    """Not this; go on without it."""
    CANCEL = auto()
    """The editor says that the prompt was cancelled."""
    NONE = auto()
    """Nothing that can be understood; the action waits."""


SCOPES = {
    Answer.ALLOW_HERE: Scope.CONVERSATION,
    Answer.ALLOW_PROJECT: Scope.PROJECT,
    Answer.ALLOW_EVERYWHERE: Scope.EVERYWHERE,
    Answer.NEVER: Scope.PROJECT,
}
"""How far the answers reach that are kept."""
YES = frozenset({Answer.ALLOW, Answer.ALLOW_HERE, Answer.ALLOW_PROJECT, Answer.ALLOW_EVERYWHERE})
_OPTIONS = {
    "allow": (Answer.ALLOW, "allow_once", _("Allow once")),
    "allow_here": (Answer.ALLOW_HERE, "allow_always", _("Allow in this conversation: {pattern}")),
    "allow_project": (Answer.ALLOW_PROJECT, "allow_always", _("Allow in this project: {pattern}")),
    "allow_everywhere": (Answer.ALLOW_EVERYWHERE, "allow_always", _("Allow everywhere: {pattern}")),
    "reject": (Answer.STOP, "reject_once", _("Reject and wait for me")),
    "reject_and_go_on": (Answer.OTHERWISE, "reject_once", _("Reject and let the agent find another way")),
    "never": (Answer.NEVER, "reject_always", _("Never in this project: {pattern}")),
}


def request(
    session_id: str, envelope: Envelope, question: Question, paths: Paths, prefix: str = ""
) -> RequestPermissionRequest:
    """The question about an action that waits, with the rule that asks. Follows links on the disk."""
    reach = question.look(question.pattern) if question.look is not None and question.pattern else None
    covers = reach is not None and reach.is_usable
    pattern = sanitize_line(question.pattern, PATTERN_CELLS)
    call = asked(envelope, paths, prefix)
    if why := _why(question):
        call.content = [*(call.content or ()), said(why)]
    return RequestPermissionRequest(
        session_id=session_id,
        tool_call=call,
        options=[
            PermissionOption(option_id=id, kind=kind, name=name.format(pattern=pattern))
            for id, (answer, kind, name) in _OPTIONS.items()
            if answer not in SCOPES or (covers and (answer is Answer.NEVER or not question.stays))
        ],
    )


def _why(question: Question) -> str:
    asks = _("Reason: {rule}").format(rule=question.rule) if question.rule else ""
    stays = _("This rule always asks, even about allowed actions.") if question.stays else ""
    return " · ".join(filter(None, (asks, *question.reasons, stays)))


def answer(result: Any, offered: Container[str] = frozenset(_OPTIONS)) -> Answer:
    """What the editor's answer means. Only a clear yes to what was offered is one."""
    try:
        outcome = RequestPermissionResponse.model_validate(result).outcome
    except ValidationError as error:
        log.warning("the answer to a question was none: %s", error.errors(include_input=False)[0]["msg"])
        return Answer.NONE
    match outcome:
        case DeniedOutcome():
            return Answer.CANCEL
        case AllowedOutcome(option_id=id) if id in _OPTIONS and id in offered:
            return _OPTIONS[id][0]
    log.warning("the answer to a question was none of its options")
    return Answer.NONE


def settled(prefix: str, action_id: int, answer: Answer) -> ToolCallProgress:
    """The end of the tool call that stood for a delegate's question: its work is told by the delegate's result."""
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=prefix + call_id(action_id),
        status="completed" if answer in YES else "failed",
    )
