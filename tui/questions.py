"""What a person has to see before saying yes: the whole of an action, nothing hidden.

Pure, from the event to clean text; loaded with the first conversation.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass

from core.events import (
    Action,
    AgentDelegateAction,
    BrowseInteractiveAction,
    BrowseURLAction,
    CmdRunAction,
    Envelope,
    FileEditAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    event_to_dict,
)
from tui.text import sanitize, sanitize_line

_ABOUT_THE_ACTION = frozenset({"thought", "confirmation_state", "security_risk"})


@dataclass(frozen=True, slots=True)
class Question:
    """An action that waits for a yes. All texts are clean."""

    action_id: int
    title: str
    body: str
    risk: str
    """`low`, `medium`, `high`, or empty where nobody knows."""


def ask_about(envelope: Envelope) -> Question:
    """Put an action into words."""
    event = envelope.event
    match event:
        case CmdRunAction(command=command, is_input=True):
            title, body = "Send input to the running command?", command
        case CmdRunAction(command=command):
            title, body = "Run this command?", command
        case IPythonRunCellAction(code=code):
            title, body = "Run this Python?", code
        case FileWriteAction(path=path, content=content):
            title, body = "Write this file?", f"{path}\n{_diff('', content)}"
        case FileEditAction(command="create", path=path, file_text=text):
            title, body = "Create this file?", f"{path}\n{_diff('', text or '')}"
        case FileEditAction(command=command, path=path) if command:
            title = "Edit this file?"
            place = f" after line {event.insert_line}" if event.insert_line is not None else ""
            body = f"{command} {path}{place}\n{_diff(event.old_str or '', event.new_str or '')}"
        case FileEditAction(path=path, content=content):
            title, body = "Edit this file?", f"{path} from line {event.start} to {event.end}\n{content}"
        case AgentDelegateAction(agent=agent, inputs={"task": str(task)}) if len(event.inputs) == 1:
            title, body = f"Give this task to {sanitize_line(agent, 60)}?", task
        case BrowseURLAction(url=url):
            title, body = "Open this page?", url
        case BrowseInteractiveAction(browser_actions=code):
            title, body = "Do this in the browser?", code
        case MCPAction(name=name, arguments=arguments):
            title, body = f"Call the tool {sanitize_line(name, 60)}?", _json(arguments)
        case _:
            title = f"Carry out “{sanitize(type(event).kind)}”?"
            arguments = event_to_dict(event).get("args", {})
            body = _json({name: value for name, value in arguments.items() if name not in _ABOUT_THE_ACTION})
    risk = getattr(event, "security_risk", None)
    name = risk.name.lower() if isinstance(event, Action) and risk is not None else ""
    return Question(envelope.id, title, sanitize(body).strip("\n"), "" if name == "unknown" else name)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _diff(old: str, new: str) -> str:
    """Every changed line with its sign; nothing is folded, for a fold could hide something."""
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return "\n".join(line for line in lines if not line.startswith("?"))
