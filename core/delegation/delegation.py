"""Delegates: conversations that an agent starts for a task, each with its own log, agent, model and sandbox.

A delegate answers the AgentDelegateAction of its parent with exactly one observation, whether it finished, failed,
refused, or was interrupted with its parent. Its costs are in that observation, and so in the sums of its parent; its
limits are a share of what its parent has left. Follows `start_delegate` of OpenHands V0's controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from core.controller.state import Limits, State
from core.errors import HandloomError
from core.events import (
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentFinishAction,
    AgentState,
    ErrorObservation,
    EventSource,
    MessageAction,
    Observation,
    Status,
)
from core.stream import EventStream, Frames

MAX_DEPTH = 3
"""How deep delegates may delegate; the conversation of the user is level 0."""
DELEGATES_STATUS = "STATUS$DELEGATES"
"""Id of the frame that says that delegates have begun or ended."""
DELEGATE_FAILED = "AGENT_ERROR$DELEGATE"
_END_STATES = frozenset({AgentState.FINISHED, AgentState.REJECTED, AgentState.STOPPED, AgentState.AWAITING_USER_INPUT})
"""States in which a delegate has ended. In the other resting states it asks something."""


class Child(Protocol):
    """What a delegation needs of the session of a delegate."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> State: ...
    @property
    def stream(self) -> EventStream: ...
    async def send(self, text: str) -> object: ...
    async def interrupt(self) -> None: ...
    async def settled(self) -> None: ...
    async def changed(self) -> None: ...


MakeChild = Callable[[AgentDelegateAction, int, Limits], Awaitable[Child]]
CloseChild = Callable[[str], Awaitable[None]]


class Delegation:
    """The delegates of one conversation that are at work. `attended` says whether somebody answers their questions."""

    def __init__(self, make: MakeChild, close: CloseChild, frames: Frames, state: Callable[[], State]) -> None:
        self.attended = False
        self.children: dict[int, Child] = {}
        """By the id of the action that started each."""
        self._make = make
        self._close = close
        self._frames = frames
        self._state = state

    async def run(self, action: AgentDelegateAction, action_id: int) -> Observation:
        """Start a delegate and wait for its end. Cancelled, it interrupts the delegate, and still returns an
        observation."""
        try:
            child = await self._make(action, action_id, delegate_limits(self._state()))
        except HandloomError as error:
            return ErrorObservation(content=f"{action.agent} could not be started: {error}", error_id=DELEGATE_FAILED)
        self.children[action_id] = child
        self._publish_change()
        try:
            await child.send(_task(action))
            await self._wait_for_end(child)
        except asyncio.CancelledError:
            with suppress(HandloomError):
                await child.interrupt()
                await child.settled()
        except HandloomError as error:
            return ErrorObservation(content=f"{action.agent} failed: {error}", error_id=DELEGATE_FAILED)
        finally:
            del self.children[action_id]
            self._publish_change()
        observation = await _result(action.agent, child)
        await self._close(child.id)
        return observation

    def _publish_change(self) -> None:
        self._frames.publish(Status("info", DELEGATES_STATUS, ""))

    async def _wait_for_end(self, child: Child) -> None:
        while True:
            await child.settled()
            if child.state.agent_state in _END_STATES and not child.state.queued:
                return
            if not self.attended:
                return
            await child.changed()


def delegate_limits(state: State) -> Limits:
    """The limits of a delegate that starts now: its share of what is left."""
    parts = max(1, sum(isinstance(pending.action, AgentDelegateAction) for pending in state.queue))
    allowed, spent = state.allowed, state.metrics.accumulated_cost
    left_s = None if allowed.max_seconds is None else max(allowed.max_seconds - state.worked_s, 1.0)
    return Limits(
        max_iterations=_share(allowed.max_iterations, state.iteration, parts),
        max_budget=None
        if allowed.max_budget is None or spent is None
        else max(allowed.max_budget - spent, 0.0) / parts,
        max_tokens=_share(allowed.max_tokens, state.tokens, parts),
        max_seconds=left_s,
        context=allowed.context,
    )


def _share(allowed: int | None, used: int, parts: int) -> int | None:
    return None if allowed is None else max((allowed - used) // parts, 1)


def _task(action: AgentDelegateAction) -> str:
    """The first message of a delegate, in the words of V0."""
    task = action.inputs.get("task")
    return f"TASK: {task}" if task else f"TASK: {action.inputs}"


async def _result(name: str, child: Child) -> Observation:
    """The result, in the words of V0, with its costs."""
    state = child.state
    outputs = {"conversation": child.id, "iterations": state.iteration}
    if state.agent_state in (AgentState.FINISHED, AgentState.AWAITING_USER_INPUT):
        answer = await _last_answer(child)
        content = f"Delegated agent finished with result:\n\n{name} finishes task with {answer}"
    elif state.agent_state is AgentState.REJECTED:
        content = f"{name} rejected the task. {state.reason}".strip()
    elif state.agent_state is AgentState.STOPPED:
        content = f"{name} was stopped before it was done. {state.reason}".strip()
    else:
        content = f"{name} encountered an error during execution. {state.reason}".strip()
    return AgentDelegateObservation(content=content, outputs=outputs, llm_metrics=state.metrics)


async def _last_answer(child: Child) -> str:
    for envelope in reversed(await child.stream.page(limit=20)):
        event = envelope.event
        if isinstance(event, AgentFinishAction):
            return str({**event.outputs, "result": event.final_thought} if event.outputs else event.final_thought)
        if isinstance(event, MessageAction) and envelope.source is EventSource.AGENT:
            return event.content
    return ""
