"""Events as lines to be read aloud: each begins with who or what it is from. Nothing depends on place, colour or glyph.

Pure functions from events and states to clean text. Outputs of more than MAX_LINES are cut in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from core.events import (
    Action,
    AgentFinishAction,
    AgentRejectAction,
    AgentThinkAction,
    AgentThinkObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
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
    PlanAction,
    RecallObservation,
    SecretMaskedObservation,
    SystemMessageAction,
    TaskTrackingAction,
)
from core.events.actions import said_and_thought
from tui.approval.answers import WAYS
from tui.i18n import _, in_words
from tui.memory.memory_text import condensed
from tui.terminal_io.sanitizer import sanitize, sanitize_line, without_colours
from tui.workspace.conversation_status import mark_of_stored

if TYPE_CHECKING:
    from core.controller.exit_reasons import Halt, HaltOption
    from core.controller.state import State

PLANNED_CELLS = 200
MAX_LINES = 40


def event_lines(envelope: Envelope) -> list[str]:
    """Return the lines for an event; none if users need not know of it."""
    event = envelope.event
    refusals = event.refusals if isinstance(event, Observation) and not getattr(event, "hidden", False) else []
    refused = [line for one in refusals for line in _labelled(_("Sandbox"), in_words(one.text))]
    return [*_lines_of(envelope), *refused]


def _lines_of(envelope: Envelope) -> list[str]:
    event = envelope.event
    thought = _labelled(_("Agent"), event.thought_text)
    match event:
        case MessageAction(content=text):
            return _labelled(_("You") if envelope.source is EventSource.USER else _("Agent"), text)
        case AgentThinkAction():
            said, text = said_and_thought(event)
            return [*_labelled(_("Agent"), said), *_labelled(_("Agent, thinking"), text)]
        case AgentFinishAction(final_thought=text):
            return _labelled(_("Agent, finished"), text or event.thought_text)
        case AgentRejectAction():
            return _labelled(_("Agent, declined"), event.message)
        case CmdRunAction(hidden=True) | CmdOutputObservation(hidden=True) | SystemMessageAction() | NullAction():
            return []
        case CmdRunAction(command=text):
            return [*thought, *_labelled(_("Command"), text)]
        case CmdOutputObservation(content=text, metadata=metadata):
            return [*_labelled(_("Output"), without_colours(text)), _("Exit {code}").format(code=metadata.exit_code)]
        case IPythonRunCellAction(code=text):
            return [*thought, *_labelled(_("Python"), text)]
        case FileReadAction(path=path):
            return [*thought, *_labelled(_("Read"), path)]
        case FileEditAction(path=path):
            return [*thought, *_labelled(_("Edit"), path)]
        case FileEditObservation(diff=diff) if diff:
            return _labelled(_("Changed"), diff)
        case MCPAction(name=name):
            return [*thought, *_labelled(_("Tool"), name)]
        case PlanAction(approved=True):
            return [_("You approved the plan")]
        case PlanAction():
            return [_("You asked for another plan. The agent changes nothing until you approve it.")]
        case TaskTrackingAction():
            return [*thought, *_labelled(_("Plan"), event.message)]
        case SecretMaskedObservation(content=text):
            return _labelled(_("Status"), text)
        case CondensationAction():
            return [condensed(event)]
        case CondensationRequestAction():
            return []
        case ErrorObservation(content=text):
            return [*thought, *_labelled(_("Error"), text)]
        case AgentThinkObservation() | RecallObservation() | NullObservation():
            return []
        case Action() if event.acts:
            return [*thought, *_labelled(_("Action"), event.message)]
        case Observation(content=text) if envelope.source is not EventSource.USER and envelope.cause is not None:
            return _labelled(_("Result"), without_colours(text))
    return []


def plan_lines(tasks: Sequence[Mapping[str, object]]) -> list[str]:
    lines = [
        sanitize_line(f"{n}. {task.get('title', '')}", PLANNED_CELLS) for n, task in enumerate(tasks[:MAX_LINES], 1)
    ]
    return [*lines, _("Answer yes to carry out this plan, or say what to change.")]


def _labelled(label: str, text: str) -> list[str]:
    """Put a label before a text, and clean it."""
    lines = sanitize(text).strip("\n").split("\n")
    if not any(line.strip() for line in lines):
        return []
    if (omitted := len(lines) - MAX_LINES) > 0:
        note = _("{count} lines are omitted.").format(count=omitted)
        lines = [*lines[: MAX_LINES // 2], note, *lines[-MAX_LINES // 2 :]]
    return [f"{label}: {lines[0]}", *lines[1:]]


def halt_options(halt: Halt) -> list[HaltOption]:
    """Return the options that can be chosen here; another model is chosen on the command line."""
    return [option for option in halt.options if option != "switch_model"]


def halt_lines(halt: Halt, reason: str) -> list[str]:
    """Return why the agent stopped, and the numbered ways to continue."""
    options = [f"{n}. {WAYS[option]}." for n, option in enumerate(halt_options(halt), 1)]
    return [*_labelled(_("Halted"), reason), _("Question: How should the agent continue?"), *options]


def status_line(state: State) -> str:
    words = mark_of_stored(state.agent_state)[1]
    return _("Status: {state}, after {count} model calls.").format(state=words, count=state.iteration)
