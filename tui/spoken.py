"""Events as lines that can be read aloud: each begins with who or what it is from, and none is drawn with.

Pure, from events and states to clean text. Nothing is told by place, colour or glyph. Thoughts and outputs are whole up
to `LINES`; what is left out is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.events import (
    Action,
    AgentFinishAction,
    AgentRejectAction,
    AgentThinkAction,
    AgentThinkObservation,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    IPythonRunCellAction,
    MCPAction,
    MessageAction,
    NullAction,
    NullObservation,
    Observation,
    RecallObservation,
    SystemMessageAction,
    TaskTrackingAction,
)
from tui.commands import BY_ID
from tui.marks import mark_of
from tui.questions import ask_about
from tui.text import sanitize, without_colours

if TYPE_CHECKING:
    from core.controller.halts import Halt
    from core.controller.state import State

LINES = 40
"""Of one output; more is a matter for the export."""


def spoken(envelope: Envelope) -> list[str]:
    """What is said of an event; nothing of what only machines need."""
    event = envelope.event
    thought = _labelled("Agent", event.thought_text) if isinstance(event, Action) else []
    match event:
        case MessageAction(content=text):
            return _labelled("You" if envelope.source is EventSource.USER else "Agent", text)
        case AgentThinkAction(thought=text):
            return _labelled("Agent thinks", text)
        case AgentFinishAction(final_thought=text):
            return _labelled("Agent, finished", text or event.thought_text)
        case AgentRejectAction():
            return _labelled("Agent, declined", event.message)
        case CmdRunAction(hidden=True) | CmdOutputObservation(hidden=True) | SystemMessageAction() | NullAction():
            return []
        case CmdRunAction(command=text):
            return [*thought, *_labelled("Command", text)]
        case CmdOutputObservation(content=text, metadata=metadata):
            return [*_labelled("Output", without_colours(text)), f"Exit {metadata.exit_code}"]
        case IPythonRunCellAction(code=text):
            return [*thought, *_labelled("Python", text)]
        case FileReadAction(path=path):
            return [*thought, *_labelled("Read", path)]
        case FileEditAction(path=path):
            return [*thought, *_labelled("Edit", path)]
        case FileEditObservation(diff=diff) if diff:
            return _labelled("Changed", diff)
        case MCPAction(name=name):
            return [*thought, *_labelled("Tool", name)]
        case TaskTrackingAction():
            return [*thought, *_labelled("Plan", event.message)]
        case ErrorObservation(content=text):
            return _labelled("Error", text)
        case AgentThinkObservation() | RecallObservation() | NullObservation():
            return []
        case Action() if event.acts:
            return [*thought, *_labelled("Action", event.message)]
        case Observation(content=text) if envelope.source is not EventSource.USER and envelope.cause is not None:
            return _labelled("Result", without_colours(text))
    return []


def _labelled(label: str, text: str) -> list[str]:
    """The clean text behind its label, further lines below it."""
    lines = sanitize(text).strip("\n").split("\n")
    if not any(line.strip() for line in lines):
        return []
    left_out = len(lines) - LINES
    if left_out > 0:
        lines = [*lines[: LINES // 2], f"{left_out} lines are left out here.", *lines[-LINES // 2 :]]
    return [f"{label}: {lines[0]}", *lines[1:]]


def question(envelope: Envelope) -> list[str]:
    """An action that waits for a yes."""
    asked = ask_about(envelope)
    risk = f" Risk: {asked.risk}." if asked.risk else ""
    return [
        f"Question: {asked.title}{risk}",
        *asked.body.split("\n"),
        "Answer y for yes, n for no, n and a reason to say why, or a for yes to everything from here on.",
    ]


def way_out(halt: Halt, reason: str) -> list[str]:
    """What stands in the way, and the keys of the ways out."""
    commands = [BY_ID[f"halt.{way}"] for way in halt.ways]
    ways = [f"{command.keys[0]}: {command.title}." for command in commands if command.id != "halt.switch_model"]
    return [*_labelled("Halted", reason), "Question: How shall it go on?", *ways]


def status(state: State) -> str:
    """How the conversation stands, in one line."""
    words = mark_of(state.agent_state, None)[1]
    return f"Status: {words}, after {state.iteration} answers of the model."
