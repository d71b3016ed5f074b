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
from tui.display.text import sanitize, sanitize_line
from tui.i18n import _

RISKS = {"low": _("low"), "medium": _("medium"), "high": _("high")}
_ABOUT_THE_ACTION = frozenset({"thought", "confirmation_state", "security_risk"})


@dataclass(frozen=True, slots=True)
class Question:
    """An action that waits for a yes. All texts are clean."""

    action_id: int
    title: str
    body: str
    risk: str
    """One of RISKS in words, or empty where nobody knows."""


def ask_about(envelope: Envelope) -> Question:
    """Put an action into words."""
    event = envelope.event
    match event:
        case CmdRunAction(command=command, is_input=True):
            title, body = _("Send input to the running command?"), command
        case CmdRunAction(command=command):
            title, body = _("Run this command?"), command
        case IPythonRunCellAction(code=code):
            title, body = _("Run this Python?"), code
        case FileWriteAction(path=path, content=content):
            title, body = _("Write this file?"), f"{path}\n{_diff('', content)}"
        case FileEditAction(command="create", path=path, file_text=text):
            title, body = _("Create this file?"), f"{path}\n{_diff('', text or '')}"
        case FileEditAction(command=command, path=path) if command:
            title = _("Edit this file?")
            head = f"{command} {path}"
            if (line := event.insert_line) is not None:
                head = _("{command} {path} after line {line}").format(command=command, path=path, line=line)
            body = f"{head}\n{_diff(event.old_str or '', event.new_str or '')}"
        case FileEditAction(path=path, content=content):
            head = _("{path} from line {first} to {last}").format(path=path, first=event.start, last=event.end)
            title, body = _("Edit this file?"), f"{head}\n{content}"
        case AgentDelegateAction(agent=agent, inputs={"task": str(task)}) if len(event.inputs) == 1:
            title, body = _("Give this task to {agent}?").format(agent=sanitize_line(agent, 60)), task
        case BrowseURLAction(url=url):
            title, body = _("Open this page?"), url
        case BrowseInteractiveAction(browser_actions=code):
            title, body = _("Do this in the browser?"), code
        case MCPAction(name=name, arguments=arguments):
            title, body = _("Call the tool {name}?").format(name=sanitize_line(name, 60)), _json(arguments)
        case _:
            title = _("Carry out “{kind}”?").format(kind=sanitize(type(event).kind))
            arguments = event_to_dict(event).get("args", {})
            body = _json({name: value for name, value in arguments.items() if name not in _ABOUT_THE_ACTION})
    risk = getattr(event, "security_risk", None)
    name = risk.name.lower() if isinstance(event, Action) and risk is not None else ""
    return Question(envelope.id, title, sanitize(body).strip("\n"), RISKS.get(name, ""))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _diff(old: str, new: str) -> str:
    """Every changed line with its sign; nothing is folded, for a fold could hide something."""
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return "\n".join(line for line in lines if not line.startswith("?"))
