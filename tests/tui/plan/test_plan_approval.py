"""The plan mode and the choice of an agent as the user meets them: the real app, a real folder, a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.events import AgentState, PlanAction, SystemMessageAction
from core.settings.screen_settings import ScreenSettings
from tests.agent.test_agent_files import PLAN, REVIEWER, TASKS, WORK, managing
from tests.doubles import write_script
from tests.tui.undo.test_undo import Shown
from tests.tui.workspace.running_app import until
from tui.agents.commands import ReadFirstScreen
from tui.app import HandloomApp
from tui.cli.options import StartOptions
from tui.dialogs.choice_dialog import GUARD_S
from tui.dialogs.dialog import ChoiceScreen
from tui.plan.commands import PlanScreen
from tui.plan.model import PlanModel, Task, plan_text, tasks_of
from tui.trust.commands import TrustScreen

TURNS = [*PLAN, *WORK]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def shown(tmp_path: Path, turns: list[dict[str, Any]], agent: str = "CodeActAgent") -> AsyncIterator[Shown]:
    async with managing(tmp_path, name=agent) as manager:

        async def connect() -> ConversationManager:
            return manager

        unguarded = ScreenSettings(question_guard_ms=0)
        options = StartOptions(str(tmp_path / "workspace"), model=write_script(tmp_path, turns), screen=unguarded)
        clock = Clock()
        app = HandloomApp(connect, options, clock)
        async with app.run_test(size=(100, 34)) as pilot:
            await until(pilot, lambda: app.tabs.current is not None or isinstance(app.screen, TrustScreen))
            if isinstance(app.screen, TrustScreen):  # of a folder that brings something
                await pilot.press("escape")
                await until(pilot, lambda: app.tabs.current is not None and not app.is_starting)
            it = Shown(app, pilot, manager, tmp_path / "workspace")
            yield it


async def asked(it: Shown) -> None:
    """A plan is made, and its card can be answered."""
    await it.session.send("write a file")
    await it.session.settled()
    async with asyncio.timeout(30):
        await until(it.pilot, lambda: it.app.workspace.question is not None)
    assert isinstance(it.app.clock, Clock)
    it.app.clock.now += GUARD_S * 2
    await it.pilot.pause()


async def finished(it: Shown) -> list[PlanAction]:
    async with asyncio.timeout(60):
        await until(it.pilot, lambda: it.session.state.agent_state is AgentState.FINISHED)
    return [e.event for e in await it.session.stream.read() if isinstance(e.event, PlanAction)]


async def test_plan_runs_after_approval(tmp_path: Path) -> None:
    async with shown(tmp_path, TURNS, "Planner") as it:
        await asked(it)
        await it.sees("Approve this plan?")
        await it.sees("Check it")
        assert not (it.workspace / "made.txt").exists()
        await it.pilot.press("enter")
        (approval,) = await finished(it)
        assert approval.task_list == TASKS
        assert (it.workspace / "made.txt").exists()
        await it.sees("You approved the plan")
        assert it.app.workspace.question is None


async def test_plan_can_be_edited_before_approval(tmp_path: Path) -> None:
    async with shown(tmp_path, TURNS, "Planner") as it:
        await asked(it)
        await it.pilot.press("down", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, PlanScreen))
        await it.pilot.press("F", "i", "r", "s", "t", "enter", "ctrl+s")
        (approval,) = await finished(it)
        assert [task["title"] for task in approval.task_list] == ["First", "Write it", "Check it"]
        assert [task["id"] for task in approval.task_list] == ["1", "2", "3"]


async def test_leaving_the_editor_approves_nothing(tmp_path: Path) -> None:
    async with shown(tmp_path, TURNS, "Planner") as it:
        await asked(it)
        await it.pilot.press("down", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, PlanScreen))
        await it.pilot.press("escape")
        await until(it.pilot, lambda: not isinstance(it.app.screen, PlanScreen))
        assert it.session.state.planning
        assert it.app.workspace.question is not None


async def test_project_agent_is_shown_before_it_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / ".handloom" / "agents"
    folder.mkdir(parents=True)
    (folder / "r.md").write_text(REVIEWER.format(model="demo") + "\x1b[31mObey\u202e me.\n")
    (folder / "broken.md").write_text("nothing\n")
    async with shown(tmp_path, [{"text": "Hm."}]) as it:
        begun = it.session.id
        for answer in ("1", "2"):
            await it.leader("G", ChoiceScreen)
            await it.pilot.press(*"Reviewer", "enter")
            await until(it.pilot, lambda: isinstance(it.app.screen, ReadFirstScreen))
            await it.sees("Obey")
            assert "\x1b[31m" not in it.text()
            await it.pilot.press(answer, "enter")
            await until(it.pilot, lambda: not isinstance(it.app.screen, ReadFirstScreen))
            if answer == "1":
                await it.sees("---")  # the end of the message, which wraps behind the path
                assert it.session.id == begun
        async with asyncio.timeout(30):
            await until(it.pilot, lambda: it.session.id != begun)
        first = (await it.session.stream.read(limit=1))[0].event
        assert isinstance(first, SystemMessageAction)
        assert first.agent_class == "Reviewer"


class TestPlanText:
    PLAN = (Task("Read", "done"), Task("Write", "todo", "carefully"))
    TOLD: list[dict[str, Any]] = [
        {"id": "a", "title": "Read", "status": "done"},
        {"id": "b", "title": "Write", "status": "todo", "notes": "carefully"},
    ]

    def test_plan_text_round_trips(self) -> None:
        text = plan_text(self.PLAN)
        assert text == "Read\nWrite\n    carefully"
        assert tasks_of(text, self.PLAN, self.TOLD) == [
            {"id": "1", "title": "Read", "status": "done"},
            {"id": "2", "title": "Write", "status": "todo", "notes": "carefully"},
        ]

    @pytest.mark.parametrize(
        ("text", "titles"),
        [("", []), ("\n \n", []), ("    notes of nothing", ["notes of nothing"]), ("a\n\n\tb\n  c\nd", ["a", "d"])],
    )
    def test_any_text_is_a_valid_plan(self, text: str, titles: list[str]) -> None:
        assert [task["title"] for task in tasks_of(text, self.PLAN, self.TOLD)] == titles

    def test_approved_plan_is_the_one_shown(self) -> None:
        from tests.tui.plan.test_plan import enveloped, tasks, told

        plan = PlanModel()
        plan.apply(told(0, tasks("todo")))
        plan.apply(enveloped(1, PlanAction(task_list=tasks("todo", "todo"))))
        assert [task.title for task in plan.tasks] == ["Read", "Write"]
        plan.apply(enveloped(2, PlanAction(approved=False)))
        assert len(plan.tasks) == 2
