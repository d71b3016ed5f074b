"""A conversation's events and frames as updates of the protocol, in order, and the queue from which they are sent.

Text that was streamed is not repeated by its event. Answers are streamed for one event at a time, so only the newest is
kept here. Events that only programs need are left out.

Updates are sent at the editor's speed, and the agent never waits for it. While the editor is slow, chunks of one
message are merged, and only the newest output of a command waits, so the queue grows with the conversation and not with
the number of frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
from core.events.actions import reasoning_of, said_and_thought
from core.events.output import plain_text
from core.status_messages import RETRY_STATUS
from tui.acp.tool_calls import Paths, call_id, finish_call, output_update, start_call
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

log = logging.getLogger(__name__)

TAIL_BYTES = 16 * 1024
"""The end of a command's output, shown while it runs; its observation has all of it."""
MAX_MERGED_CHARS = 32_000
TITLE_CELLS = 200
MAX_TASKS = 200
_STATUS: dict[object, PlanEntryStatus] = {"done": "completed", "in_progress": "in_progress"}
_PRIORITY: PlanEntryPriority = "medium"
"""Our plans know no other."""


class EventTranslator:
    """Translates one conversation. `event` and `frame` get everything in order."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._answering: int | None = None
        """The cause of the answer that is being streamed."""
        self._streamed = ""
        self._calls: dict[int, Action] = {}
        """Actions that were sent and have no observation yet."""
        self._output: dict[int, bytearray] = {}
        self._statuses: dict[str, str] = {}

    # -- frames ------------------------------------------------------------------------------------------------------

    def frame(self, frame: object) -> Sequence[Update]:
        """The updates for a live frame; output of commands is returned by `output`."""
        match frame:
            case TokenDelta(text=text, channel="reasoning", cause=cause):
                return [thought(text, cause)]
            case TokenDelta(text=text, cause=cause):
                if cause != self._answering:
                    self._answering, self._streamed = cause, ""
                self._streamed += text
                return [message(text, cause)]
            case TerminalOutput(cause=cause, data=data, is_echo=False) if cause in self._calls:
                tail = self._output.setdefault(cause, bytearray())
                tail += data
                del tail[:-TAIL_BYTES]
            case Status(id=id, message=text) if id == CONVERSATION_TITLE:
                return [SessionInfoUpdate(session_update="session_info_update", title=sanitize_line(text, TITLE_CELLS))]
            case Status(id=id, message=text) if text and self._statuses.get(id) != text:
                if id == RETRY_STATUS:
                    self._answering = None  # what was streamed is withdrawn
                is_first = id not in self._statuses
                self._statuses[id] = text
                return [thought(f"{sanitize(in_words(text))}\n\n")] if is_first or frame.level == "error" else []
            case Status(id=id, message=""):
                self._statuses.pop(id, None)
        return []

    def output(self) -> Sequence[Update]:
        """Updates for running commands that printed something since the last call."""
        updates = [output_update(id, plain_text(bytes(tail))) for id, tail in self._output.items() if id in self._calls]
        self._output = {}
        return updates

    # -- events ------------------------------------------------------------------------------------------------------

    def event(self, envelope: Envelope, *, is_replay: bool = False) -> Sequence[Update]:
        """The updates for an event. A replay includes the user's messages and the reasoning."""
        reasoning = reasoning_of(envelope.event) if is_replay else ""
        updates = self._event(envelope, is_replay=is_replay)
        return [thought(f"{sanitize(reasoning)}\n\n", envelope.id), *updates] if reasoning.strip() else updates

    def _event(self, envelope: Envelope, *, is_replay: bool) -> Sequence[Update]:
        event = envelope.event
        match event:
            case MessageAction(queued=True):
                return []
            case MessageAction(content=text) if envelope.source is EventSource.USER:
                return [user_message(text, envelope.id)] if is_replay else []
            case MessageAction(content=text):
                return self._message(text, envelope)
            case AgentFinishAction(final_thought=text):
                return [*self._message(event.thought, envelope), *self._message(text, envelope)]
            case AgentRejectAction():
                return [*self._message(event.thought, envelope), *self._message(event.message, envelope)]
            case AgentThinkAction():
                said, text = said_and_thought(event)
                thoughts = [thought(f"{text}\n\n", envelope.id)] if text.strip() else []
                return [*self._message(said, envelope), *thoughts]
            case CmdRunAction(hidden=True):
                return []
            case TaskTrackingAction(command=command, task_list=tasks):
                return [*self._message(event.thought, envelope), *([plan(tasks)] if command == "plan" else [])]
            case Action() if event.acts:
                self._calls[envelope.id] = event
                is_waiting = event.confirmation is ActionConfirmationStatus.AWAITING_CONFIRMATION
                call = start_call(envelope, self.paths, is_waiting=is_waiting)
                return [*self._message(event.thought_text, envelope), call]
            case Observation():
                return self._observation(envelope, event)
        return []

    def _observation(self, envelope: Envelope, observation: Observation) -> Sequence[Update]:
        action = self._calls.pop(envelope.cause, None) if envelope.cause is not None else None
        if action is not None and envelope.cause is not None:
            self._output.pop(envelope.cause, None)
            return [finish_call(envelope.cause, action, observation, self.paths)]
        match observation:
            case AgentStateChangedObservation(agent_state=state, reason=reason) if reason:
                return [] if state is AgentState.RUNNING else self._message(reason, envelope)
            case ErrorObservation(error_id=id) if id.startswith((MODEL_PREFIX, LIMIT_PREFIX)):
                return []  # the change of state that follows says the same
            case ErrorObservation(content=text, thought=said):
                return [*self._message(said, envelope), *self._message(text, envelope)]
            case SecretMaskedObservation(content=text):
                return [thought(f"{sanitize(text)}\n\n", envelope.id)]
            case UndoObservation():
                return self._message(observation.message, envelope)
        return []

    def approved(self, envelope: Envelope) -> Sequence[Update]:
        """The update for an action that waited and is now carried out."""
        if envelope.id not in self._calls:
            return []
        id = call_id(envelope.id)
        return [ToolCallProgress(session_update="tool_call_update", tool_call_id=id, status="in_progress")]

    def _message(self, text: str, envelope: Envelope) -> Sequence[Update]:
        """A text of the agent, unless it was streamed."""
        if not text.strip():
            return []
        if envelope.cause is not None and envelope.cause == self._answering and text.strip() in self._streamed:
            return []
        return [message(sanitize(text.rstrip("\n")) + "\n\n", f"event-{envelope.id}")]


def message(text: str, id: object = None) -> AgentMessageChunk:
    """A text of the agent, or of Handloom."""
    return AgentMessageChunk(session_update="agent_message_chunk", content=_text(text), message_id=_id(id))


def thought(text: str, id: object = None) -> AgentThoughtChunk:
    return AgentThoughtChunk(session_update="agent_thought_chunk", content=_text(text), message_id=_id(id))


def user_message(text: str, id: object = None) -> UserMessageChunk:
    return UserMessageChunk(session_update="user_message_chunk", content=_text(text), message_id=_id(id))


def plan(tasks: Sequence[dict[str, Any]]) -> AgentPlanUpdate:
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


_CHUNKS = (AgentMessageChunk, AgentThoughtChunk)


class Outbox:
    """The queue of updates. `send` writes one and returns when there is room for the next."""

    def __init__(self, send: Callable[[Update], Awaitable[None]]) -> None:
        self._send = send
        self._queue: deque[Update] = deque()
        self._has_items = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task = asyncio.create_task(self._run(), name="updates for an editor")

    def put(self, updates: Iterable[Update]) -> None:
        """Append updates to the queue, in this order."""
        for update in updates:
            merged = _merged(self._queue[-1], update) if self._queue else None
            if merged is not None:
                self._queue[-1] = merged
            elif not self._task.done():
                self._queue.append(update)
                self._empty.clear()
                self._has_items.set()

    async def flush(self) -> None:
        """Return when everything is sent, or the editor is gone."""
        await self._empty.wait()

    async def aclose(self) -> None:
        """Drop what has not been sent."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._queue.clear()
        self._empty.set()

    async def _run(self) -> None:
        try:
            while True:
                await self._has_items.wait()
                self._has_items.clear()
                while self._queue:
                    await self._send(self._queue.popleft())
                self._empty.set()
        except OSError as error:  # the editor is gone; the end of its input ends the program
            log.info("updates could not be sent: %s", error)
        finally:
            self._queue.clear()
            self._empty.set()


def _merged(last: Update, update: Update) -> Update | None:
    """Return both as one update, or None if they cannot be merged."""
    if isinstance(last, _CHUNKS) and isinstance(update, _CHUNKS):
        one, two = last.content, update.content
        if type(last) is not type(update) or last.message_id != update.message_id:
            return None
        if not (isinstance(one, TextContentBlock) and isinstance(two, TextContentBlock)):
            return None
        if len(one.text) + len(two.text) > MAX_MERGED_CHARS:
            return None
        return last.model_copy(update={"content": TextContentBlock(type="text", text=one.text + two.text)})
    if isinstance(last, ToolCallProgress) and isinstance(update, ToolCallProgress):
        is_same = last.tool_call_id == update.tool_call_id and last.status == "in_progress"
        return update if is_same and update.content is not None else None
    return None
