"""The plan: the latest task list in the log, beside the chat or in one line, separate for each conversation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from core.events import (
    AgentState,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    TaskTrackingAction,
    TaskTrackingObservation,
    UndoAction,
    UndoObservation,
)
from core.replay.timeline import PAGE, PLANS_BACK, Timeline
from core.store.reader import EventReader
from tests.tapes import SANDBOX, USER, Tape
from tests.tui.doubles import ManagerDouble, SessionDouble
from tests.tui.workspace.running_app import running
from tui.plan.model import MAX_TASKS, PlanModel
from tui.plan.view import EMPTY, folded, heading, panel

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TITLES = ("Read", "Write", "Tell")


def told(number: int, tasks: list[Any], seconds: int = 0) -> Envelope:
    event = TaskTrackingObservation(content="ok", command="plan", task_list=tasks)
    return enveloped(number, event, seconds)


def enveloped(number: int, event: Event, seconds: int = 0) -> Envelope:
    at = AT + timedelta(seconds=seconds)
    return Envelope(
        conversation_id="c", id=number, timestamp=at, source=EventSource.ENVIRONMENT, cause=None, event=event
    )


def tasks(*states: str) -> list[dict[str, Any]]:
    return [{"id": str(n), "title": TITLES[n], "status": state} for n, state in enumerate(states)]


def plan_of(*lists: list[dict[str, Any]], step_s: int = 60) -> PlanModel:
    plan = PlanModel()
    for number, listed in enumerate(lists):
        plan.apply(told(number, listed, number * step_s))
    return plan


def test_latest_task_list_counts_with_times_of_events() -> None:
    plan = plan_of(tasks("in_progress", "todo", "todo"), tasks("done", "in_progress", "todo"))
    assert [task.state for task in plan.tasks] == ["done", "in_progress", "todo"]
    assert plan.done == 1
    assert plan.current == plan.tasks[1]
    assert plan.tasks[0].since == AT + timedelta(seconds=60)
    assert plan.tasks[0].began == AT
    assert plan.ended is None
    assert heading(plan, AT + timedelta(seconds=90)) == "Plan 1/3, 1m30s"


def test_finished_plan_shows_its_duration() -> None:
    plan = plan_of(tasks("in_progress"), tasks("done"))
    assert heading(plan, AT + timedelta(days=1)) == "Plan 1/1, 1m00s"
    assert folded(plan, None, 60).plain.startswith("Plan 1/1, 1m00s  ✓ all done")


def test_every_state_has_a_word_and_a_glyph() -> None:
    lines = panel(plan_of(tasks("done", "in_progress", "todo")), None, 40).plain.splitlines()
    assert [line.split() for line in lines] == [
        ["✓", "Read", "done"], ["→", "Write", "doing"], ["○", "Tell", "to", "do"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "listed",
    [
        [{"title": "\x1b]0;evil\x07 Read", "status": "\x1b[2J"}],
        [{"status": 5}, "no task", None, {"title": None, "notes": ["x"]}],
        [{"title": "x" * 5000, "notes": "y\n\x9b1m" * 400}],
        [],
    ],
)
@pytest.mark.parametrize("width", [8, 20, 60])
def test_hostile_plan_is_drawn_sanitized_within_its_width(listed: list[Any], width: int) -> None:
    plan = PlanModel()
    plan.apply(told(0, [task for task in listed if isinstance(task, dict)]))
    for text in (panel(plan, AT, width), folded(plan, AT, width)):
        assert not any(ord(character) < 32 and character != "\n" for character in text.plain)
        if plan.tasks:
            assert all(cell_len(line) <= max(width, 12) for line in panel(plan, AT, width).plain.splitlines())


def test_long_plan_is_truncated_with_a_note() -> None:
    plan = PlanModel()
    plan.apply(told(0, [{"title": f"task {n}"} for n in range(MAX_TASKS + 5)]))
    assert (len(plan.tasks), plan.left_out) == (MAX_TASKS, 5)
    assert panel(plan, None, 40).plain.endswith("… and 5 more")


def test_older_page_gives_the_plan_only_without_a_newer_one() -> None:
    old, new = told(3, tasks("in_progress", "todo")), told(9, tasks("done", "done"))
    plan = PlanModel()
    plan.prepend([told(1, tasks("todo")), old])
    assert [task.state for task in plan.tasks] == ["in_progress", "todo"]
    plan.apply(new)
    plan.prepend([told(0, tasks("todo"))])
    assert plan.done == 2


def said(number: int) -> Envelope:
    return replace(enveloped(number, MessageAction(content="go")), source=EventSource.USER)


def undo(number: int, first: int, *, redoes: int | None = None, chat: bool = True, done: bool = True) -> list[Envelope]:
    """An undo as event `number`, and what became of it as the next one."""
    asked = enveloped(number, UndoAction(first=first, chat=chat, redoes=redoes))
    result = enveloped(number + 1, UndoObservation(content="", done=done))
    return [asked, replace(result, cause=number)]


TWO_TURNS = [
    said(0), told(1, tasks("todo")), told(2, tasks("in_progress")),
    said(3), told(4, tasks("done"), 60), told(5, tasks("done", "todo"), 70),
]  # fmt: skip
UNDONE = undo(6, 3)
REDONE = undo(8, 3, redoes=6)


def states(plan: PlanModel) -> list[str]:
    return [task.state for task in plan.tasks]


def fed(*envelopes: Envelope) -> PlanModel:
    plan = PlanModel()
    for envelope in envelopes:
        plan.apply(envelope)
    return plan


def test_undone_plan_is_replaced_by_the_earlier_one_until_redo() -> None:
    whole = fed(*TWO_TURNS)
    plan = fed(*TWO_TURNS, *UNDONE)
    assert states(plan) == ["in_progress"]
    assert plan.version > whole.version
    assert plan.tasks[0].since == AT
    for envelope in REDONE:
        plan.apply(envelope)
    assert plan.tasks == whole.tasks
    assert not fed(*TWO_TURNS, *undo(6, 0)).is_known
    assert states(fed(*TWO_TURNS, *UNDONE, said(8), told(9, tasks("done")))) == ["done"]


def test_undo_of_files_or_failed_undo_keeps_the_plan() -> None:
    for kept in (undo(6, 3, chat=False), undo(6, 3, done=False), UNDONE[:1]):
        assert states(fed(*TWO_TURNS, *kept)) == ["done", "todo"]


@pytest.mark.parametrize("later", [[], UNDONE, [*UNDONE, *REDONE]], ids=["whole", "undone", "redone"])
def test_plan_does_not_depend_on_the_paging_of_the_log(later: list[Envelope]) -> None:
    log = [*TWO_TURNS, *later]
    expected = fed(*log).tasks
    for first in range(len(log) + 1):
        for second in range(first + 1):
            plan = fed(*log[first:])
            plan.prepend(log[second:first])
            plan.prepend(log[:second])
            assert [(task.title, task.state) for task in plan.tasks] == [(task.title, task.state) for task in expected]


def test_task_tracking_request_is_no_plan() -> None:
    plan = PlanModel()
    action = TaskTrackingAction(command="plan", task_list=tasks("todo"))
    plan.apply(enveloped(0, action))
    assert not plan.is_known


async def tell(session: SessionDouble, *states: str) -> None:
    event = TaskTrackingObservation(content="ok", command="plan", task_list=tasks(*states))
    await session.stream.append(event, EventSource.ENVIRONMENT)


async def test_panel_follows_the_plan_and_can_be_hidden() -> None:
    async with running(size=(160, 48)) as it:
        await it.press("ctrl+t")
        assert "The agent's plan appears here" in it.screen_text()
        await tell(it.session, "in_progress", "todo", "todo")
        await it.settle()
        assert "Plan 0/3" in it.screen_text()
        await it.session.become(agent_state=AgentState.RUNNING)
        await tell(it.session, "done", "in_progress", "todo")
        await it.settle()
        assert "Plan 1/3" in it.screen_text()
        await it.press("ctrl+t")
        assert "Plan 1/3" not in it.screen_text()


async def test_each_conversation_has_its_own_plan_panel() -> None:
    async with running(size=(160, 48)) as it:
        await tell(it.session, "done")
        await it.press("ctrl+t", "ctrl+n")
        assert "Plan 1/1" not in it.screen_text()
        await it.press("ctrl+x", "1")
        assert "Plan 1/1" in it.screen_text()


@pytest.mark.parametrize(("size", "beside"), [((160, 48), True), ((100, 30), True), ((80, 24), False)])
async def test_narrow_screen_shows_the_plan_in_one_line(size: tuple[int, int], beside: bool) -> None:
    async with running(size) as it:
        await tell(it.session, "done", "in_progress", "todo")
        await it.press("ctrl+t")
        assert it.app.workspace.query_one("#plan").display is beside
        assert it.app.workspace.query_one("#plan-line").display is not beside
        assert "Plan 1/3" in it.screen_text()
        assert "Write" in it.screen_text()


async def test_smallest_screen_keeps_the_prompt_visible() -> None:
    async with running((20, 5)) as it:
        await it.press("ctrl+t", *"hi")
        assert "hi" in it.screen_text()


async def test_plan_before_the_loaded_events_is_found() -> None:
    manager = ManagerDouble()
    session = manager.add()
    session.stream.store(TaskTrackingObservation(content="ok", task_list=tasks("done", "todo")))
    for n in range(700):
        session.stream.store(MessageAction(content=f"line {n}"))
    async with running((160, 48), manager) as it:
        await it.press("ctrl+t")
        assert "Plan 1/2" in it.screen_text()


def test_empty_plan_panel_has_a_placeholder() -> None:
    assert panel(None, None, 40).plain == EMPTY
    assert panel(PlanModel(), None, 40).plain == EMPTY
    assert folded(None, None, 20).plain.endswith("…")


async def test_replay_shows_the_plan_of_that_moment(tmp_path: Path) -> None:
    tape = Tape()

    def planned(*planned_states: str) -> None:
        tape.add(TaskTrackingObservation(content="", command="plan", task_list=tasks(*planned_states)), SANDBOX)

    tape.say("First.")
    planned("in_progress")
    second = tape.say("Second.")
    for _ in range(PLANS_BACK + 5):
        planned("done", "todo")
    action = tape.add(UndoAction(first=second), USER)
    for _ in range(PAGE + 5):
        tape.say("And then?")
    tape.add(UndoObservation(content=""), SANDBOX, action)
    undone = len(tape.events)
    for _ in range(PAGE + 5):
        tape.say("And then?")
    redo = tape.add(UndoAction(first=second, redoes=action), USER)
    tape.add(UndoObservation(content=""), SANDBOX, redo)
    await tape.keep(tmp_path)
    async with EventReader(tmp_path) as reader:
        timeline = Timeline(reader, tape.id)
        await timeline.open()
        for target, expected in (
            (undone - 2, ["done", "todo"]),
            (undone, ["in_progress"]),
            (redo, ["in_progress"]),
            (redo + 1, ["done", "todo"]),
        ):
            scene = await timeline.state_at(target)
            assert states(fed(*(e for e in (*scene.earlier, *scene.page) if isinstance(e, Envelope)))) == expected
