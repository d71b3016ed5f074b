"""An event as documents tell it: who, what, the text, how it ended. One place for Markdown and for the page.

`Entry` has plain data only; whoever writes it out makes it safe for the format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.events import (
    Action,
    AgentDelegateAction,
    AgentFinishAction,
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
from core.events.unknown import stored_kind
from core.store.blobs import pictures_of

Role = Literal["user", "agent", "action", "result", "error", "quiet"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a reader sees of one event."""

    role: Role
    """`quiet` is what nobody follows: states, recalled knowledge, the system's message."""
    title: str
    """One line, not cleaned."""
    text: str = ""
    """The body: prose where `is_prose`, else output or code."""
    language: str = ""
    is_prose: bool = False
    prose: str = ""
    """What the agent said beside an action."""
    failed: bool = False
    pictures: tuple[str, ...] = ()
    """References to blobs, or the URLs that the event has."""


def entry(envelope: Envelope) -> Entry:
    """The event in words."""
    event = envelope.event
    match event:
        case UnknownAction() | UnknownObservation():
            return Entry("result", f"unknown event {stored_kind(event)}", json.dumps(event.raw, indent=2), "json")
        case MessageAction(content=text):
            role: Role = "user" if envelope.source is EventSource.USER else "agent"
            return Entry(role, "", text, is_prose=True, pictures=tuple(pictures_of(event)))
        case AgentFinishAction():
            return Entry("agent", "Finished", event.final_thought or event.thought, is_prose=True)
        case AgentThinkAction(thought=text):
            return Entry("agent", "Thought", text, is_prose=True)
        case SystemMessageAction(content=text):
            return Entry("quiet", "What the agent was told to be", text)
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
    """The body of an action, and the language that it is in."""
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
    pictures = tuple(pictures_of(event))
    match event:
        case ErrorObservation():
            return Entry("error", "Error", event.content, failed=True)
        case CmdOutputObservation(hidden=True):
            return Entry("quiet", event.message, event.content)
        case CmdOutputObservation():
            return Entry("result", f"exit code {event.exit_code}", event.content, failed=failed)
        case BrowserOutputObservation():
            shown = pictures[:1]  # the others show the same page with marks, and the task's own pictures
            return Entry("result", event.url, event.content, failed=failed, pictures=shown)
        case FileEditObservation(diff=str(diff)) if diff:
            return Entry("result", event.message, diff, "diff", failed=failed)
        case AgentStateChangedObservation():
            state = f"The agent is {event.agent_state.value.replace('_', ' ')}"
            return Entry("quiet", f"{state}: {event.reason}" if event.reason else state)
        case RecallObservation() | FileEditObservation():
            return Entry("quiet" if isinstance(event, RecallObservation) else "result", event.message, event.content)
    return Entry("result" if event.content or pictures else "quiet", event.message, event.content, pictures=pictures)


def _rest(event: Event) -> str:
    """Everything that an event holds, for kinds that have no words of their own here."""
    data = event_to_dict(event, derived=False)
    fields = data.get("args") or data.get("extras") or {}
    return to_json(fields) if isinstance(fields, dict) and fields else ""


def turn_begins(envelope: Envelope) -> bool:
    """Whether the user says something: what one steps by."""
    return isinstance(envelope.event, MessageAction) and envelope.source is EventSource.USER
