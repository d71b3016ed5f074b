"""An action as a tool call of the protocol, and its observation as the result. Pure.

Everything that the user has to see before approving is in the call's content, complete; results are bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
)

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
from tui.approval.question import ask_about
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line, without_colours

Content = ContentToolCallContent | FileEditToolCallContent

TITLE_CELLS = 200
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

    def outside(self, path: str) -> str:
        """The absolute path for the editor."""
        path = os.path.normpath(os.path.join(self.inside, path))
        if path == self.inside or path.startswith(self.inside.rstrip("/") + "/"):
            return self.folder + path[len(self.inside.rstrip("/")) :]
        return path


def call_id(action_id: int) -> str:
    """The tool call that stands for an action."""
    return f"action-{action_id}"


def begun(envelope: Envelope, paths: Paths, *, waits: bool) -> ToolCallStart:
    """The tool call of an action that begins, or that waits for a yes."""
    action = envelope.event
    assert isinstance(action, Action)
    return ToolCallStart(
        session_update="tool_call",
        tool_call_id=call_id(envelope.id),
        title=title_of(action),
        kind=kind_of(action),
        status="pending" if waits else "in_progress",
        content=list(_wanted(envelope, paths)) or None,
        locations=_locations(action, paths) or None,
        raw_input=_arguments(action),
    )


def asked(envelope: Envelope, paths: Paths, prefix: str = "") -> ToolCallUpdate:
    """The same tool call as the question whether it may be. `prefix` says for whom, where it is for a delegate."""
    action = envelope.event
    assert isinstance(action, Action)
    return ToolCallUpdate(
        tool_call_id=prefix + call_id(envelope.id),
        title=title_of(action),
        kind=kind_of(action),
        status="pending",
        content=[*_wanted(envelope, paths)] or None,
        locations=_locations(action, paths) or None,
        raw_input=_arguments(action),
    )


def ended(action_id: int, action: Action, observation: Observation, paths: Paths) -> ToolCallProgress:
    """What came of an action."""
    failed = observation.success is False or isinstance(observation, UserRejectObservation)
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call_id(action_id),
        status="failed" if failed else "completed",
        content=list(_came(action, observation, paths)),
        raw_output={"exit_code": observation.exit_code} if isinstance(observation, CmdOutputObservation) else None,
    )


def printed(action_id: int, text: str) -> ToolCallProgress:
    """What a command has printed so far."""
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call_id(action_id),
        status="in_progress",
        content=[said(fenced(text))],
    )


def kind_of(action: Action) -> ToolKind:
    """What kind of work the editor draws."""
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
    """One clean line."""
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


def said(text: str) -> ContentToolCallContent:
    """Text as the content of a tool call."""
    return ContentToolCallContent(type="content", content=TextContentBlock(type="text", text=text))


def fenced(text: str) -> str:
    """Program text as a block of code that nothing in it can end; its middle is left out where it is too long."""
    text = sanitize(without_colours(_shortened(text, TEXT_CHARS)))
    longest = max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.strip(chr(10))}\n{fence}"


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    left_out = _("[… {count} characters are left out here …]").format(count=len(text) - limit)
    return f"{text[: limit // 2]}\n{left_out}\n{text[-limit // 2 :]}"


def _wanted(envelope: Envelope, paths: Paths) -> Sequence[Content]:
    """What an action is about to do, as much of it as the title does not show."""
    diff: Sequence[Content] = []
    match envelope.event:
        case CmdRunAction(command=command) if sanitize_line(command, TITLE_CELLS) == command:
            return []
        case FileReadAction() | FileEditAction(command="view") | BrowseURLAction():
            return []
        case FileEditAction(command="create", path=path, file_text=text) if text is not None:
            diff = _diff(paths.outside(path), None, text)
        case FileEditAction(command="str_replace", path=path, old_str=old, new_str=new):
            diff = _diff(paths.outside(path), old or "", new or "")
        case FileWriteAction(path=path, content=text, start=0, end=-1):
            diff = _diff(paths.outside(path), None, text)
    if diff:
        return diff
    body = ask_about(envelope).body
    return [said(_whole(body))] if body else []


def _whole(text: str) -> str:
    """A question's text as a block of code, with nothing left out."""
    fence = "`" * (max((len(run) for run in _FENCE.findall(text)), default=2) + 1)
    return f"{fence}\n{text}\n{fence}"


def _came(action: Action, observation: Observation, paths: Paths) -> Sequence[Content]:
    match observation:
        case CmdOutputObservation(content=text, metadata=metadata):
            output = text if metadata.exit_code == 0 else f"{text}{metadata.suffix}"
            shown = [*_multiline(action), *([fenced(output)] if output.strip() else [])]
            return [said("\n\n".join(shown))] if shown else []
        case FileEditObservation(path=path, old_content=old, new_content=new) if new is not None:
            if diff := _diff(paths.outside(path), old if observation.prev_exist else None, new):
                return diff
    if isinstance(observation, FileEditObservation) and observation.diff:
        return [said(fenced(observation.diff))]
    return [said(fenced(observation.content))] if observation.content.strip() else []


def _multiline(action: Action) -> list[str]:
    """A command that its title does not show whole."""
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
    return [ToolCallLocation(path=paths.outside(path), line=line if line and line > 0 else None)]


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
