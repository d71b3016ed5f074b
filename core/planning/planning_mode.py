"""The plan of an agent that plans first, and the user's approval."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pydantic import JsonValue

from core.controller.state import State
from core.errors import UsageError
from core.events import Envelope, Event, PlanAction, TaskTrackingObservation
from core.store.reader import EventFilter
from core.stream import EventStream


class PlanningMode:
    """The plan of one conversation. `add` stores an event of the user that may give the agent work."""

    def __init__(
        self, stream: EventStream, state: Callable[[], State], add: Callable[[Event], Awaitable[Envelope]]
    ) -> None:
        self._stream = stream
        self._state = state
        self._add = add

    async def tasks(self) -> list[dict[str, JsonValue]]:
        """The tasks of the newest plan in the log; none if there is no plan. Raises StoreError."""
        plans = EventFilter(kinds=frozenset({"observation:task_tracking"}))
        for envelope in await self._stream.page(limit=1, where=plans):
            if isinstance(envelope.event, TaskTrackingObservation):
                return envelope.event.task_list
        return []

    async def approve(self, task_list: Sequence[dict[str, JsonValue]]) -> None:
        """Approve the plan with these tasks.

        Raises UsageError if there is no plan, and as `AgentSession.send`.
        """
        if not self._state().planning:
            raise UsageError("There is no plan to approve. The agent Planner makes one: handloom --agent Planner")
        await self._add(PlanAction(task_list=list(task_list)))

    async def again(self) -> None:
        """Let the agent change nothing more before another plan is approved. Raises as `approve`."""
        state = self._state()
        if not state.plans or state.planning:
            raise UsageError("Only the agent Planner plans, and it can plan again only after its plan was approved.")
        await self._add(PlanAction(approved=False))
