"""Carries out what `decide` decides.

The controller subscribes to the stream, folds each event into its State, and performs the effects: it asks the agent,
executes actions, cancels both, and appends events. Model calls and actions are tasks of the session's task group.
Invariant: each action has exactly one task, which appends exactly one observation. Errors of the runtime and of the
model are observations. A full disk pauses the work until there is space.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from core import garbage_collector
from core.controller import decide
from core.controller.exit_reasons import LIMIT_PREFIX, MODEL_PREFIX
from core.controller.limits import ReachedLimit
from core.controller.state import Limits, State
from core.errors import LeaseLostError, ModelError, StoreError
from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentState,
    ChangeAgentStateAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    Frame,
    Judged,
    LLMMetrics,
    Observation,
    Status,
    ToolCallMetadata,
)
from core.protocols import Agent, FrameSink, Spawn
from core.security.confirmation import Judgement, Verdict
from core.status_messages import is_rate_limit
from core.store.writer import Draft, Spent
from core.stream import EventStream, EventStreamSubscriber, Frames

log = logging.getLogger(__name__)

STORE_STATUS = "STATUS$ERROR_STORE"
_CONFIRMATIONS = {
    Verdict.ASK: ActionConfirmationStatus.AWAITING_CONFIRMATION,
    Verdict.DENY: ActionConfirmationStatus.REJECTED,
}
"""The state of an action that needs approval or is refused; any other is carried out."""
STORE_RETRY_S = 1.0
"""How often a failed write is tried again, so that work continues soon after there is space on the disk."""

Judge = Callable[[Action], Awaitable[Judgement]]
"""Whether an action is carried out, needs approval, or is refused."""
ExecuteAction = Callable[[Envelope], Awaitable[Observation]]
"""Carries out a stored action. Never raises; cancelling interrupts the action, and still returns its observation."""
DayLimit = Callable[[State], Awaitable[ReachedLimit | None]]
"""The daily limit that the next model call would exceed."""


PAGE = 500
"""Events read at a time: about 20 ms of work."""


class History:
    """The events of a conversation: those from `first` on are in memory, earlier ones are read when needed, once.

    A conversation that is opened again starts from a snapshot of its state, so earlier events are read when the agent
    is asked. Ids have no gaps, so an id is an index.
    """

    def __init__(self, stream: EventStream, first: int = 0) -> None:
        self._stream = stream
        self._first = first
        self._events: list[Envelope] = []
        self._reading = asyncio.Lock()

    @property
    def next_id(self) -> int:
        """The id of the next event."""
        return self._first + len(self._events)

    def append(self, envelope: Envelope) -> None:
        """Add the next event."""
        self._events.append(envelope)

    def clear(self) -> None:
        """Drop all events: the conversation is closed, and only its state is still needed."""
        self._first, self._events = self.next_id, []

    def __getitem__(self, event_id: int) -> Envelope:
        """An event that was added since this history began."""
        return self._events[event_id - self._first]

    async def until(self, next_id: int) -> Sequence[Envelope]:
        """All events before this one. Reads the missing ones. Raises StoreError."""
        async with self._reading:
            if self._first:
                older: list[Envelope] = []
                while len(older) < self._first:
                    older += await self._stream.read(after=len(older) - 1, before=self._first, limit=PAGE)
                    garbage_collector.freeze()
                self._events[:0] = older
                self._first = 0
        return tuple(self._events[:next_id])


class AgentController:
    """Drives one conversation. `spawn` starts a task in the session's task group."""

    def __init__(
        self,
        *,
        stream: EventStream,
        agent: Callable[[], Agent],
        execute: ExecuteAction,
        frames: Frames,
        limits: Limits,
        judge: Judge,
        day_limit: DayLimit,
        spawn: Spawn,
    ) -> None:
        self.stream = stream
        self._agent = agent
        """The agent as it is now; another model means another agent."""
        self.frames = frames
        self.history = History(stream)
        self.state = State.initial(limits)
        self.is_started = False
        self.judge = judge
        self._execute = execute
        self._day_limit = day_limit
        self._changed = asyncio.Event()
        """Set after every change of state; a waiting method clears it."""
        self._spawn = spawn
        self._stopped_retrying = asyncio.Event()
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def start(self, state: State, history: History) -> None:
        """Go on from this state: subscribe, and settle what the last owner of the conversation left open."""
        self.state, self.history, self.is_started = state, history, True
        self.stream.subscribe(EventStreamSubscriber.AGENT_CONTROLLER, self.on_event, "controller")
        for effect in decide.resume(self.state):
            await self._perform(effect)

    def stop_retrying(self) -> None:
        """The conversation closes: a failed write is not tried again."""
        self._stopped_retrying.set()

    async def settled(self) -> None:
        """Return when the agent rests: it finished, asks, failed or was stopped, and all of that is stored."""
        while True:
            self._changed.clear()
            await self.stream.settle()
            if self.state.is_settled:
                return
            await self._changed.wait()

    async def changed(self) -> None:
        """Return after a change of the state since the last call."""
        await self._changed.wait()
        self._changed.clear()

    async def on_event(self, envelope: Envelope) -> None:
        """Callback for every event: fold it, then perform the effects."""
        before, after = self.state, decide.evolve(self.state, envelope)
        self.history.append(envelope)
        self.state = after
        self._changed.set()
        for effect in decide.react(before, after, envelope):
            await self._perform(effect)

    async def _perform(self, effect: decide.Effect) -> None:
        match effect:
            case decide.AskAgent(cause=cause):
                self._start(cause, self._ask(cause, self.history.next_id))
            case decide.Execute(action_id=action_id):
                self._start(action_id, self._act(self.history[action_id]))
            case decide.Cancel(id=id):
                if (task := self._tasks.get(id)) is not None:
                    # not before its first step: a task that never began could not append the observation
                    asyncio.get_running_loop().call_soon(task.cancel)
            case decide.Emit(event=event, source=source, cause=cause):
                await self._append([Draft(event, source, cause)])

    def _start(self, id: int, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(work)
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._tasks.pop(id, None))

    # -- asking the agent ------------------------------------------------------------------------------------------

    async def _ask(self, cause: int, next_id: int) -> None:
        """Make one model call on the events before `next_id`; its events get `cause`. Cancelled, it appends nothing."""
        before, started_at = self.state.metrics, time.monotonic()
        try:
            if (limit := await self._day_limit(self.state)) is not None:
                await self._append([_failed_call(LIMIT_PREFIX + limit.name.upper(), limit.text, cause)])
                return
            history = await self.history.until(next_id)
            events = await self._agent().step(history, before, self._watched(cause))
            drafts = [Draft(await self._judged(event), EventSource.AGENT, cause) for event in events]
            _check_answer(events)
            drafts[0] = replace(drafts[0], spent=_spent(before, events[0], time.monotonic() - started_at))
        except ModelError as error:
            drafts = [_failed_call(MODEL_PREFIX + error.kind.upper(), str(error), cause)]
        except Exception as error:  # the boundary to the agent: its bug must not leave the conversation hanging
            log.exception("the agent failed")
            text = f"There was an unexpected error while running the agent: {type(error).__name__}: {error}."
            drafts = [_failed_call(MODEL_PREFIX + "FAILED", text, cause)]
        await self._append(drafts)

    def _watched(self, cause: int) -> FrameSink:
        """Publish the frames of a call, and append when it begins and ends to wait for the provider's rate limit."""
        state = AgentState.RUNNING

        def publish(frame: Frame) -> None:
            nonlocal state
            self.frames.publish(frame)
            waits = isinstance(frame, Status) and is_rate_limit(frame.id, frame.message)
            now = AgentState.RATE_LIMITED if waits else AgentState.RUNNING
            if now is not state:
                state = now
                change = Draft(ChangeAgentStateAction(agent_state=now), EventSource.ENVIRONMENT, cause)
                self._spawn(self._append([change]))

        return publish

    async def _judged(self, event: Event) -> Event:
        """The action, marked with its rule if it needs approval or is refused."""
        if not isinstance(event, Action) or not event.acts:
            return event
        found = await self.judge(event)
        if found.verdict not in _CONFIRMATIONS:
            return event
        judged = {**asdict(found), "reasons": list(found.reasons), "risk": found.risk.name.lower()}
        update: dict[str, object] = {"judgement": Judged.model_validate(judged)}
        if "confirmation_state" in type(event).model_fields:
            update["confirmation_state"] = _CONFIRMATIONS[found.verdict]
        return event.model_copy(update=update)

    # -- carrying out actions --------------------------------------------------------------------------------------

    async def _act(self, envelope: Envelope) -> None:
        """Carry out one action, and append the one observation that answers it."""
        action, started_at = envelope.event, time.monotonic()
        assert isinstance(action, Action)
        observation = await self._execute(envelope)
        metadata = action.tool_call_metadata
        if metadata is not None:
            observation = observation.model_copy(update={"tool_call_metadata": _without_response(metadata)})
        # what a delegate spends is recorded in its own conversation
        spent = None if action.delegated else Spent(seconds=time.monotonic() - started_at)
        await self._append([Draft(observation, EventSource.AGENT, envelope.id, spent)])

    # -- appending -------------------------------------------------------------------------------------------------

    async def _append(self, drafts: Sequence[Draft]) -> None:
        """Append; if that fails, show why and try again until it works.

        An answer of the model or the result of an action cannot be repeated, so it is kept while the process runs.
        """
        has_failed = False
        while True:
            try:
                await self.stream.append_all(drafts)
            except LeaseLostError as error:
                self.frames.publish(Status("error", STORE_STATUS, str(error)))
                return
            except StoreError as error:
                has_failed = True
                self.frames.publish(Status("error", STORE_STATUS, str(error)))
                with suppress(TimeoutError):
                    async with asyncio.timeout(STORE_RETRY_S):
                        await self._stopped_retrying.wait()
                    log.warning("given up at close: %s", error)
                    return
            else:
                if has_failed:
                    self.frames.publish(Status("info", STORE_STATUS, ""))
                return


def _failed_call(error_id: str, text: str, cause: int) -> Draft:
    """The event for a model call without an answer."""
    return Draft(ErrorObservation(content=text, error_id=error_id), EventSource.ENVIRONMENT, cause)


def _spent(before: LLMMetrics, event: Event, seconds: float) -> Spent:
    """The cost of an answer, from the sums before and after it. A condensation costs only time."""
    after = event.llm_metrics
    if after is None:
        return Spent(seconds=seconds)
    one, two = before.accumulated_token_usage, after.accumulated_token_usage
    tokens = two.prompt_tokens + two.completion_tokens - one.prompt_tokens - one.completion_tokens
    if after.accumulated_cost is None:
        return Spent(calls=1, unpriced=1, tokens=tokens, seconds=seconds)
    cost = after.accumulated_cost - (before.accumulated_cost or 0.0)
    return Spent(calls=1, cost=cost, tokens=tokens, seconds=seconds)


def _without_response(metadata: ToolCallMetadata) -> ToolCallMetadata:
    """The id of the call, without the model's answer."""
    return metadata.model_copy(update={"model_response": {"id": metadata.model_response.get("id", "")}})


def _check_answer(events: Sequence[Event]) -> None:
    """Raise if the number of events is not the announced one: the controller would wait forever."""
    metadata = events[0].tool_call_metadata if events else None
    if len(events) != (metadata.total_calls_in_response if metadata else 1):
        raise ValueError(f"the agent's answer has {len(events)} events, and its first one announces another number")
