"""An action as a tool call of the protocol, its observation as the result, and the question whether it is allowed.

Everything that the user has to see before approving is in the call's content, complete; results are bounded.

The protocol has four kinds of permission options, and any number of each with their own names, so each scope of the
workspace is one. An option that covers more than this action names its pattern, and is offered only if the pattern
covers the action and a permission can change the decision. Only a clear yes to what was offered is one.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from acp.schema import (
    AllowedOutcome,
    ContentToolCallContent,
    DeniedOutcome,
    FileEditToolCallContent,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
)
from pydantic import ValidationError

from core.events import (
    Action,
    AgentDelegateAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    Observation,
    UserRejectObservation,
)
from core.security.permissions import Scope
from tui.approval.question import Question, ask_about
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line, without_colours

log = logging.getLogger(__name__)

Content = ContentToolCallContent | FileEditToolCallContent

TITLE_CELLS = 200
PATTERN_CELLS = 120
TEXT_CHARS = 60_000
"""Of one output: twice what the model sees of it."""
DIFF_CHARS = 400_000
"""Of both sides of an edit; the whole text of a larger file is not sent twice."""
_FENCE = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the sandbox's paths are on the user's machine."""

    folder: str
    """The workspace as the user knows it."""
    inside: str
    """The same folder as the sandbox sees it."""

    def on_host(self, path: str) -> str:
        """The absolute path for the editor."""
        path = os.path.normpath(os.path.join(self.inside, path))
        if path == self.inside or path.startswith(self.inside.rstrip("/") + "/"):
            return self.folder + path[len(self.inside.rstrip("/")) :]
        return path


def call_id(action_id: int) -> str:
    """The ID of an action's tool call."""
    return f"action-{action_id}"


def start_call(envelope: Envelope, paths: Paths, *, is_waiting: bool) -> ToolCallStart:
    """The tool call of an action that begins, or that waits for approval."""
    return ToolCallStart(
        session_update="tool_call",
        tool_call_id=call_id(envelope.id),
        status="pending" if is_waiting else "in_progress",
        **_call_fields(envelope, paths),
    )


def _call_fields(envelope: Envelope, paths: Paths) -> dict[str, Any]:
    action = envelope.event
    assert isinstance(action, Action)
    return {
        "title": title_of(action),
        "kind": kind_of(action),
        "content": [*_request_content(envelope, paths)] or None,
        "locations": _locations(action, paths) or None,
        "raw_input": _arguments(action),
    }


def finish_call(action_id: int, action: Action, observation: Observation, paths: Paths) -> ToolCallProgress:
    """The result of an action."""
    failed = observation.success is False or isinstance(observation, UserRejectObservation)
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call_id(action_id),
        status="failed" if failed else "completed",
        content=list(_result_content(action, observation, paths)),
        raw_output={"exit_code": observation.exit_code} if isinstance(observation, CmdOutputObservation) else None,
    )


def output_update(action_id: int, text: str) -> ToolCallProgress:
    """The output of a command so far."""
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call_id(action_id),
        status="in_progress",
        content=[text_content(fenced(text))],
    )


def kind_of(action: Action) -> ToolKind:
    match action:
        case CmdRunAction() | IPythonRunCellAction():
            return "execute"
        case FileReadAction() | FileEditAction(command="view"):
            return "read"
        case FileEditAction() | FileWriteAction():
            return "edit"
        case BrowseURLAction() | BrowseInteractiveAction():
            return "fetch"
    return "other"


def title_of(action: Action) -> str:
    """One line without control characters."""
    match action:
        case CmdRunAction(command=command, is_input=True):
            text = _("Input: {text}").format(text=command)
        case CmdRunAction(command=text):
            pass
        case IPythonRunCellAction(code=code):
            text = _("Python: {code}").format(code=code)
        case FileReadAction(path=path) | FileEditAction(command="view", path=path):
            text = _("Read {path}").format(path=path)
        case FileEditAction(path=path):
            text = _("Edit {path}").format(path=path)
        case FileWriteAction(path=path):
            text = _("Write {path}").format(path=path)
        case BrowseURLAction(url=url):
            text = _("Open {url}").format(url=url)
        case BrowseInteractiveAction(browser_actions=code):
            text = _("Browser: {code}").format(code=code)
        case MCPAction(name=name):
            text = _("Tool {name}").format(name=name)
        case AgentDelegateAction(agent=agent):
            text = _("Delegate to {agent}").format(agent=agent)
        case _:
            text = action.message
    return sanitize_line(text, TITLE_CELLS) or action.kind


def text_content(text: str) -> ContentToolCallContent:
    """Text as the content of a tool call."""
    return ContentToolCallContent(type="content", content=TextContentBlock(type="text", text=text))


def fenced(text: str) -> str:
    """Output as a block of code; the middle of a long one is left out."""
    return _code_block(sanitize(without_colours(_shortened(text, TEXT_CHARS))).strip("\n"))


def _code_block(text: str) -> str:
    """A block of code that nothing in the text can end."""
    fence = "`" * (max((len(run) for run in _FENCE.findall(text)), default=2) + 1)
    return f"{fence}\n{text}\n{fence}"


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    left_out = _("[… {count} characters are left out here …]").format(count=len(text) - limit)
    return f"{text[: limit // 2]}\n{left_out}\n{text[-limit // 2 :]}"


def _request_content(envelope: Envelope, paths: Paths) -> Sequence[Content]:
    """What an action is about to do, as much of it as the title does not show."""
    diff: Sequence[Content] = []
    match envelope.event:
        case CmdRunAction(command=command) if sanitize_line(command, TITLE_CELLS) == command:
            return []
        case FileReadAction() | FileEditAction(command="view") | BrowseURLAction():
            return []
        case FileEditAction(command="create", path=path, file_text=text) if text is not None:
            diff = _diff(paths.on_host(path), None, text)
        case FileEditAction(command="str_replace", path=path, old_str=old, new_str=new):
            diff = _diff(paths.on_host(path), old or "", new or "")
        case FileWriteAction(path=path, content=text, start=0, end=-1):
            diff = _diff(paths.on_host(path), None, text)
    if diff:
        return diff
    body = ask_about(envelope).body
    return [text_content(_code_block(body))] if body else []


def _result_content(action: Action, observation: Observation, paths: Paths) -> Sequence[Content]:
    match observation:
        case CmdOutputObservation(content=text, metadata=metadata):
            output = text if metadata.exit_code == 0 else f"{text}{metadata.suffix}"
            blocks = [*_multiline_command(action), *([fenced(output)] if output.strip() else [])]
            return [text_content("\n\n".join(blocks))] if blocks else []
        case FileEditObservation(path=path, old_content=old, new_content=new) if new is not None:
            if diff := _diff(paths.on_host(path), old if observation.prev_exist else None, new):
                return diff
    if isinstance(observation, FileEditObservation) and observation.diff:
        return [text_content(fenced(observation.diff))]
    return [text_content(fenced(observation.content))] if observation.content.strip() else []


def _multiline_command(action: Action) -> list[str]:
    """A command of which the title shows only the first line."""
    if isinstance(action, CmdRunAction) and "\n" in action.command.strip():
        return [fenced(action.command)]
    return []


def _diff(path: str, old: str | None, new: str) -> Sequence[Content]:
    if len(old or "") + len(new) > DIFF_CHARS:
        return []
    return [FileEditToolCallContent(type="diff", path=path, old_text=old, new_text=new)]


def _locations(action: Action, paths: Paths) -> list[ToolCallLocation]:
    """The file that an action is about, and the line."""
    path = getattr(action, "path", "")
    if not isinstance(path, str) or not path:
        return []
    view, insert = getattr(action, "view_range", None), getattr(action, "insert_line", None)
    line = view[0] if view else insert
    return [ToolCallLocation(path=paths.on_host(path), line=line if line and line > 0 else None)]


def _arguments(action: Action) -> dict[str, Any] | None:
    """What the call was given, for editors that show it; long texts are in the content."""
    match action:
        case CmdRunAction(command=command):
            return {"command": _shortened(command, TEXT_CHARS)}
        case MCPAction(arguments=arguments):
            return dict(arguments)
        case BrowseURLAction(url=url):
            return {"url": url}
    return None


class Answer(Enum):
    """The user's answer to a permission request."""

    ALLOW = auto()
    ALLOW_HERE = auto()
    """Allow the action, and what its pattern covers, in this conversation."""
    ALLOW_PROJECT = auto()
    ALLOW_EVERYWHERE = auto()
    NEVER = auto()
    """Deny the action, and what its pattern covers in this project."""
    REJECT = auto()
    """Deny it, and wait for the user's next message."""
    REJECT_AND_GO_ON = auto()
    CANCEL = auto()
    """The prompt was cancelled."""
    NONE = auto()
    """No valid answer; the action waits."""


SCOPES = {
    Answer.ALLOW_HERE: Scope.CONVERSATION,
    Answer.ALLOW_PROJECT: Scope.PROJECT,
    Answer.ALLOW_EVERYWHERE: Scope.EVERYWHERE,
    Answer.NEVER: Scope.PROJECT,
}
"""The scope of the answers that are stored as permissions."""
APPROVALS = frozenset({Answer.ALLOW, Answer.ALLOW_HERE, Answer.ALLOW_PROJECT, Answer.ALLOW_EVERYWHERE})
_OPTIONS = {
    "allow": (Answer.ALLOW, "allow_once", _("Allow once")),
    "allow_here": (Answer.ALLOW_HERE, "allow_always", _("Allow in this conversation: {pattern}")),
    "allow_project": (Answer.ALLOW_PROJECT, "allow_always", _("Allow in this project: {pattern}")),
    "allow_everywhere": (Answer.ALLOW_EVERYWHERE, "allow_always", _("Allow everywhere: {pattern}")),
    "reject": (Answer.REJECT, "reject_once", _("Reject and wait for me")),
    "reject_and_go_on": (Answer.REJECT_AND_GO_ON, "reject_once", _("Reject and let the agent find another way")),
    "never": (Answer.NEVER, "reject_always", _("Never in this project: {pattern}")),
}


def permission_request(
    session_id: str, envelope: Envelope, question: Question, paths: Paths, prefix: str = ""
) -> RequestPermissionRequest:
    """The question about an action that waits, with the rule that asks. Follows links on the disk.

    `prefix` distinguishes the calls of a delegate.
    """
    reach = question.look(question.pattern) if question.look is not None and question.pattern else None
    covers = reach is not None and reach.is_usable
    pattern = sanitize_line(question.pattern, PATTERN_CELLS)
    call = ToolCallUpdate(tool_call_id=prefix + call_id(envelope.id), status="pending", **_call_fields(envelope, paths))
    if reasons := _reasons(question):
        call.content = [*(call.content or ()), text_content(reasons)]
    return RequestPermissionRequest(
        session_id=session_id,
        tool_call=call,
        options=[
            PermissionOption(option_id=id, kind=kind, name=name.format(pattern=pattern))
            for id, (answer, kind, name) in _OPTIONS.items()
            if answer not in SCOPES or (covers and (answer is Answer.NEVER or not question.stays))
        ],
    )


def _reasons(question: Question) -> str:
    rule = _("Reason: {rule}").format(rule=question.rule) if question.rule else ""
    stays = _("This rule always asks, even about allowed actions.") if question.stays else ""
    return " · ".join(filter(None, (rule, *question.reasons, stays)))


def parse_answer(result: Any, offered: Container[str] = frozenset(_OPTIONS)) -> Answer:
    """Parse the editor's response."""
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


def settle_call(prefix: str, action_id: int, answer: Answer) -> ToolCallProgress:
    """The end of the tool call for a delegate's question. The delegate's result reports its work."""
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=prefix + call_id(action_id),
        status="completed" if answer in APPROVALS else "failed",
    )
