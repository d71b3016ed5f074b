"""The plan in the log, and when the user may approve it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.controller.state import State
from core.errors import UsageError
from core.events import Envelope, Event, EventSource, PlanAction, TaskTrackingObservation
from core.planning.planning_mode import PlanningMode
from tests.streams import opened_stream


async def test_tasks_come_from_the_newest_plan(tmp_path: Path) -> None:
    async with opened_stream(tmp_path) as stream:

        async def add(event: Event) -> Envelope:
            return await stream.append(event, EventSource.USER)

        planning = PlanningMode(stream, State, add)
        assert await planning.tasks() == []
        for title in ("first", "second"):
            await stream.append(TaskTrackingObservation(task_list=[{"title": title}]), EventSource.AGENT)
        assert await planning.tasks() == [{"title": "second"}]
        with pytest.raises(UsageError, match="There is no plan to approve"):
            await planning.approve([{"title": "second"}])
        with pytest.raises(UsageError, match="Only the agent Planner"):
            await planning.again()
        assert len(await stream.read()) == 2


@pytest.mark.parametrize(
    ("plans", "waits", "stored"),
    [
        (((0, True),), True, PlanAction(task_list=[{"title": "a"}])),
        (((0, True), (3, False)), False, PlanAction(approved=False)),
    ],
)
async def test_plan_is_approved_while_it_waits_and_replanned_afterwards(
    tmp_path: Path, plans: tuple[tuple[int, bool], ...], waits: bool, stored: PlanAction
) -> None:
    async with opened_stream(tmp_path) as stream:

        async def add(event: Event) -> Envelope:
            return await stream.append(event, EventSource.USER)

        state = State(plans=plans)
        planning = PlanningMode(stream, lambda: state, add)
        if waits:
            with pytest.raises(UsageError, match="Only the agent Planner"):
                await planning.again()
            await planning.approve(({"title": "a"},))
        else:
            with pytest.raises(UsageError, match="There is no plan to approve"):
                await planning.approve([])
            await planning.again()
        assert [envelope.event for envelope in await stream.read()] == [stored]
