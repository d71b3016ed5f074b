"""A conversation's events and frames as updates of the protocol, in order. No IO.

Text that was streamed is not repeated by its event. Answers are streamed for one event at a time, so only the newest is
kept here. Events that only programs need are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    SessionInfoUpdate,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)

from core.controller.exit_reasons import LIMIT_PREFIX, MODEL_PREFIX
from core.events import (
    CONVERSATION_TITLE,
    Action,
    ActionConfirmationStatus,
    AgentFinishAction,
    AgentRejectAction,
    AgentState,
    AgentStateChangedObservation,
    AgentThinkAction,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    MessageAction,
    Observation,
    SecretMaskedObservation,
    Status,
    TaskTrackingAction,
    TerminalOutput,
    TokenDelta,
    UndoObservation,
)
from core.events.actions import reasoning_of
from core.events.output import plain_text
from tui.acp.tool_calls import Paths, begun, ended, printed
from tui.i18n import _, in_words
from tui.terminal_io.sanitizer import sanitize, sanitize_line

Update = (
    AgentMessageChunk
    | AgentThoughtChunk
    | UserMessageChunk
    | ToolCallStart
    | ToolCallProgress
    | AgentPlanUpdate
    | SessionInfoUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | UsageUpdate
)

TAIL_BYTES = 16 * 1024
"""Of what a command prints, shown while it runs; its observation has it whole."""
TITLE_CELLS = 200
MAX_TASKS = 200
_STATUS: dict[object, PlanEntryStatus] = {"done": "completed", "in_progress": "in_progress"}
_PRIORITY: PlanEntryPriority = "medium"
"""Our plans know no other."""


class Teller:
    """Of one conversation. `event` and `frame` are given everything in order."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._answering: int | None = None
        """The event to which the answer is that is streamed."""
        self._streamed = ""
        self._calls: dict[int, Action] = {}
        """The actions that have been told and have no observation yet."""
        self._printed: dict[int, bytearray] = {}
        self._noticed: dict[str, str] = {}

    # -- frames ------------------------------------------------------------------------------------------------------

    def frame(self, frame: object) -> Sequence[Update]:
        """What a live frame says; what commands print is told by `prints`."""
        match frame:
            case TokenDelta(text=text, channel="reasoning", cause=cause):
                return [thought(text, cause)]
            case TokenDelta(text=text, cause=cause):
                if cause != self._answering:
                    self._answering, self._streamed = cause, ""
                self._streamed += text
                return [message(text, cause)]
            case TerminalOutput(cause=cause, data=data, is_echo=False) if cause in self._calls:
                tail = self._printed.setdefault(cause, bytearray())
                tail += data
                del tail[:-TAIL_BYTES]
            case Status(id=id, message=text) if id == CONVERSATION_TITLE:
                return [SessionInfoUpdate(session_update="session_info_update", title=sanitize_line(text, TITLE_CELLS))]
            case Status(id=id, message=text) if text and self._noticed.get(id) != text:
                is_first = id not in self._noticed
                self._noticed[id] = text
                return [thought(f"{sanitize(in_words(text))}\n\n")] if is_first or frame.level == "error" else []
            case Status(id=id, message=""):
                self._noticed.pop(id, None)
        return []

    def prints(self) -> Sequence[Update]:
        """What the commands that run have printed since the last time, as it stands."""
        updates = [printed(id, plain_text(bytes(tail))) for id, tail in self._printed.items() if id in self._calls]
        self._printed = {}
        return updates

    # -- events ------------------------------------------------------------------------------------------------------

    def event(self, envelope: Envelope, *, again: bool = False) -> Sequence[Update]:
        """What an event says. `again` is for those of an earlier time: then the user's own words are told, too."""
        thoughts = reasoning_of(envelope.event) if again else ""
        told = self._told(envelope, again=again)
        return [thought(f"{sanitize(thoughts)}\n\n", envelope.id), *told] if thoughts.strip() else told

    def _told(self, envelope: Envelope, *, again: bool) -> Sequence[Update]:
        event = envelope.event
        match event:
            case MessageAction(queued=True):
                return []
            case MessageAction(content=text) if envelope.source is EventSource.USER:
                return [user_message(text, envelope.id)] if again else []
            case MessageAction(content=text):
                return self._said(text, envelope)
            case AgentFinishAction(final_thought=text):
                return [*self._said(event.thought, envelope), *self._said(text, envelope)]
            case AgentRejectAction():
                return [*self._said(event.thought, envelope), *self._said(event.message, envelope)]
            case AgentThinkAction(thought=text):
                return [thought(f"{text}\n\n", envelope.id)] if text.strip() else []
            case CmdRunAction(hidden=True):
                return []
            case TaskTrackingAction(command=command, task_list=tasks):
                return [*self._said(event.thought, envelope), *([plan(tasks)] if command == "plan" else [])]
            case Action() if event.acts:
                self._calls[envelope.id] = event
                waits = getattr(event, "confirmation_state", None) is ActionConfirmationStatus.AWAITING_CONFIRMATION
                return [*self._said(event.thought_text, envelope), begun(envelope, self.paths, waits=waits)]
            case Observation():
                return self._observed(envelope, event)
        return []

    def _observed(self, envelope: Envelope, observation: Observation) -> Sequence[Update]:
        action = self._calls.pop(envelope.cause, None) if envelope.cause is not None else None
        if action is not None and envelope.cause is not None:
            self._printed.pop(envelope.cause, None)
            return [ended(envelope.cause, action, observation, self.paths)]
        match observation:
            case AgentStateChangedObservation(agent_state=state, reason=reason) if reason:
                return [] if state is AgentState.RUNNING else self._said(reason, envelope)
            case ErrorObservation(error_id=id) if id.startswith((MODEL_PREFIX, LIMIT_PREFIX)):
                return []  # the change of state that follows says the same
            case ErrorObservation(content=text):
                return self._said(text, envelope)
            case SecretMaskedObservation(content=text):
                return [thought(f"{sanitize(text)}\n\n", envelope.id)]
            case UndoObservation():
                return self._said(observation.message, envelope)
        return []

    def begins(self, envelope: Envelope) -> Sequence[Update]:
        """Say that an action which waited for a yes is carried out."""
        if envelope.id not in self._calls:
            return []
        return [
            ToolCallProgress(
                session_update="tool_call_update", tool_call_id=f"action-{envelope.id}", status="in_progress"
            )
        ]

    def _said(self, text: str, envelope: Envelope) -> Sequence[Update]:
        """A text of the agent's, unless it was streamed."""
        if not text.strip():
            return []
        if envelope.cause is not None and envelope.cause == self._answering and text.strip() in self._streamed:
            return []
        return [message(sanitize(text.rstrip("\n")) + "\n\n", f"event-{envelope.id}")]


def message(text: str, id: object = None) -> AgentMessageChunk:
    """Something that the agent, or Handloom, says."""
    return AgentMessageChunk(session_update="agent_message_chunk", content=_text(text), message_id=_id(id))


def thought(text: str, id: object = None) -> AgentThoughtChunk:
    """Something beside what is said."""
    return AgentThoughtChunk(session_update="agent_thought_chunk", content=_text(text), message_id=_id(id))


def user_message(text: str, id: object = None) -> UserMessageChunk:
    """Something that the user said."""
    return UserMessageChunk(session_update="user_message_chunk", content=_text(text), message_id=_id(id))


def plan(tasks: Sequence[dict[str, Any]]) -> AgentPlanUpdate:
    """The agent's plan as it stands."""
    entries = [
        PlanEntry(
            content=sanitize_line(str(task.get("title", "")), TITLE_CELLS) or _("(no title)"),
            priority=_PRIORITY,
            status=_STATUS.get(task.get("status"), "pending"),
        )
        for task in tasks[:MAX_TASKS]
    ]
    return AgentPlanUpdate(session_update="plan", entries=entries)


def _text(text: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=text)


def _id(id: object) -> str | None:
    return None if id is None else str(id)
