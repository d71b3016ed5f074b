"""Events as text for the Markdown and HTML exports. Pure.

`describe` says what a reader sees of an event; the writers make that safe for their format. `readable` makes untrusted
text visible: control characters become glyphs, invisible characters and those that change the reading direction become
their code points, colour sequences are removed. `code_lines` finds fenced code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from core.events import (
    Action,
    AgentDelegateAction,
    AgentFinishAction,
    AgentState,
    AgentStateChangedObservation,
    AgentThinkAction,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    BrowseURLAction,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    MCPAction,
    MessageAction,
    Observation,
    RecallObservation,
    SystemMessageAction,
    UnknownAction,
    UnknownObservation,
    event_to_dict,
    to_json,
)
from core.events.actions import said_and_thought
from core.events.base import stored_kind
from core.import_export.agents.names import is_agent_record
from core.store.blobs import picture_urls

Role = Literal["user", "agent", "action", "result", "error", "quiet"]
STILL_RUNNING = "still running"
"""The title of a command that has neither ended nor failed."""
_STATES = {
    AgentState.AWAITING_USER_INPUT: "waiting for you",
    AgentState.AWAITING_USER_CONFIRMATION: "waiting for your approval",
}
"""What the states are called on the screen, where that differs from their names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a reader sees of one event. Plain data, not escaped."""

    role: Role
    """`quiet` events are details: state changes, recalled knowledge, the system message."""
    title: str
    """One line."""
    text: str = ""
    """The body: prose if `is_prose`, else output or code."""
    language: str = ""
    is_prose: bool = False
    prose: str = ""
    """What the agent said with an action."""
    failed: bool = False
    pictures: tuple[str, ...] = ()
    """References to blobs, or the URLs that the event has."""


def describe(envelope: Envelope) -> Entry:
    """What a reader sees of the event."""
    event = envelope.event
    match event:
        case UnknownObservation() if is_agent_record(stored_kind(event)):
            return Entry("quiet", stored_kind(event), json.dumps(event.raw, indent=2), "json")
        case UnknownAction() | UnknownObservation():
            return Entry("result", f"unknown event {stored_kind(event)}", json.dumps(event.raw, indent=2), "json")
        case MessageAction(content=text):
            role: Role = "user" if envelope.source is EventSource.USER else "agent"
            return Entry(role, "", text, is_prose=True, pictures=tuple(picture_urls(event)))
        case AgentFinishAction():
            parts = dict.fromkeys(filter(None, (event.thought_text, event.final_thought)))
            return Entry("agent", "Finished", "\n\n".join(parts), is_prose=True)
        case AgentThinkAction():
            said, text = said_and_thought(event)
            return Entry("agent", "Thought", f"{said}\n\n{text}" if said else text, is_prose=True)
        case SystemMessageAction(content=text):
            return Entry("quiet", "System prompt", text)
        case Action() if event.acts:
            hidden = getattr(event, "hidden", False)
            text, language = _code(event)
            title = _title(event)
            return Entry("quiet" if hidden else "action", title, text, language, prose=event.thought_text)
        case Action():
            return Entry("quiet", event.message or event.kind, _rest(event))
        case Observation():
            return _result(event)
    return Entry("quiet", type(event).__name__, _rest(event))


_TITLES: Mapping[type[Action], str] = {
    IPythonRunCellAction: "Python",
    FileReadAction: "Read {0.path}",
    FileWriteAction: "Write {0.path}",
    BrowseURLAction: "Open {0.url}",
    BrowseInteractiveAction: "Browser",
    MCPAction: "Tool {0.name}",
    AgentDelegateAction: "Delegate to {0.agent}",
}


def _title(action: Action) -> str:
    match action:
        case CmdRunAction(command=command, is_input=True):
            return f"Typed {command}"
        case CmdRunAction(command=command):
            return f"$ {command}"
        case FileEditAction(path=path):
            return f"{action.command.replace('_', ' ').capitalize() or 'Edit'} {path}"
    words = _TITLES.get(type(action))
    return words.format(action) if words else action.message or action.kind


def _code(action: Action) -> tuple[str, str]:
    """The body of an action, and its language."""
    match action:
        case CmdRunAction(command=command):
            return (command, "sh") if "\n" in command or len(command) > 100 else ("", "")
        case IPythonRunCellAction(code=code):
            return code, "python"
        case FileWriteAction(content=content):
            return content, ""
        case FileEditAction(old_str=old, new_str=new) if old is not None or new is not None:
            before = "".join(f"-{line}\n" for line in (old or "").splitlines())
            return before + "".join(f"+{line}\n" for line in (new or "").splitlines()), "diff"
        case FileEditAction():
            return action.file_text or action.content, ""
        case BrowseInteractiveAction(browser_actions=code):
            return code, "python"
        case FileReadAction() | BrowseURLAction():
            return "", ""
    return _rest(action), "json"


def _result(event: Observation) -> Entry:
    failed = event.success is False
    pictures = tuple(picture_urls(event))
    match event:
        case ErrorObservation():
            return Entry("error", "Error", event.content, prose=event.thought, failed=True)
        case CmdOutputObservation(hidden=True):
            return Entry("quiet", event.message, event.content)
        case CmdOutputObservation(exit_code=-1):
            return Entry("result", STILL_RUNNING, event.content)
        case CmdOutputObservation():
            return Entry("result", f"exit code {event.exit_code}", event.content, failed=failed)
        case BrowserOutputObservation():
            shown = pictures[:1]  # the others are the same page with marks, and the pictures of the task
            return Entry("result", event.url, event.content, failed=failed, pictures=shown)
        case FileEditObservation(diff=str(diff)) if diff:
            return Entry("result", event.message, diff, "diff", failed=failed)
        case AgentStateChangedObservation():
            state = f"The agent is {_STATES.get(event.agent_state) or event.agent_state.value.replace('_', ' ')}"
            return Entry("quiet", f"{state}: {event.reason}" if event.reason else state)
        case RecallObservation() | FileEditObservation():
            return Entry("quiet" if isinstance(event, RecallObservation) else "result", event.message, event.content)
        case IPythonRunCellObservation():
            return Entry("result", event.exception or event.message, event.output, failed=failed, pictures=pictures)
    return Entry("result" if event.content or pictures else "quiet", event.message, event.content, pictures=pictures)


def _rest(event: Event) -> str:
    """All fields of an event as JSON, for kinds without a description here."""
    data = event_to_dict(event, derived=False)
    fields = data.get("args") or data.get("extras") or {}
    return to_json(fields) if isinstance(fields, dict) and fields else ""


def begins_turn(envelope: Envelope) -> bool:
    return isinstance(envelope.event, MessageAction) and envelope.source is EventSource.USER


_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_HIDDEN = re.compile(
    "[\x80-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0"
    "\ufff0-\ufffb\U000e0000-\U000e0fff]"
)


def readable(text: str) -> str:
    """The text with invisible and control characters made visible; the same object if there are none."""
    if text.isascii() and text.isprintable():
        return text
    text = _COLOURS.sub("", text).replace("\r\n", "\n") if "\x1b" in text or "\r" in text else text
    return _HIDDEN.sub(_code_point, _CONTROL.sub(_glyph, text))


def mark_hidden_characters(text: str) -> str:
    """Terminal text, whose escape sequences are kept: only hidden and direction-changing characters are replaced."""
    return _HIDDEN.sub(_code_point, text)


def one_line(text: str, limit: int = 200) -> str:
    """The beginning of a text as one line of at most `limit` characters."""
    line = " ".join(readable(text[: limit * 4]).split())
    return line if len(line) <= limit and len(text) <= limit * 4 else f"{line[: limit - 1]}…"


def clock(at: datetime) -> str:
    """A time in UTC, to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def dollars(cost: float | None) -> str:
    """A cost; small amounts keep four decimals."""
    if cost is None:
        return "cost unknown"
    return f"${cost:.2f}" if cost >= 0.1 or not cost else f"${cost:.4f}"


def _glyph(control: re.Match[str]) -> str:
    code = ord(control[0])
    return "␡" if code == 0x7F else chr(0x2400 + code)


def _code_point(hidden: re.Match[str]) -> str:
    return f"⟦U+{ord(hidden[0]):04X}⟧"


_FENCE = re.compile(r"(`{3,}|~{3,})([^`]*)")


def code_lines(lines: list[str]) -> tuple[list[bool], str]:
    """For each line, whether it belongs to a fence that begins at the margin; and the unclosed fence, if any.

    All Markdown readers agree about fences at the margin.
    """
    fence, marks = "", []
    for line in lines:
        opening = None if fence else _FENCE.fullmatch(line)
        marks.append(bool(fence or opening))
        if opening is not None:
            fence = opening[1]
        elif fence and _closes(line, fence):
            fence = ""
    return marks, fence


def _closes(line: str, fence: str) -> bool:
    mark = line.strip(" ")
    is_indented = line.startswith("    ")
    return not is_indented and len(mark) >= len(fence) and set(mark) == {fence[0]}
