"""What a person has to see before saying yes: the whole of an action, nothing hidden.

Pure, from the event to clean text; loaded with the first conversation.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass

from core.events import (
    Action,
    CmdRunAction,
    Envelope,
    FileEditAction,
    FileWriteAction,
    IPythonRunCellAction,
    event_to_dict,
)
from tui.text import sanitize


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
        case _:
            title = f"Carry out “{sanitize(type(event).kind)}”?"
            body = json.dumps(event_to_dict(event).get("args", {}), indent=2, ensure_ascii=False, default=str)
    risk = getattr(event, "security_risk", None)
    name = risk.name.lower() if isinstance(event, Action) and risk is not None else ""
    return Question(envelope.id, title, sanitize(body).strip("\n"), "" if name == "unknown" else name)


def _diff(old: str, new: str) -> str:
    """Every changed line with its sign; nothing is folded, for a fold could hide something."""
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return "\n".join(line for line in lines if not line.startswith("?"))
