"""Snapshots of every screen and pane, and of the workspace at every size. HANDLOOM_SNAPSHOTS=write updates them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.controller.exit_reasons import Halt, HaltKind
from core.events import AgentState, BrowserOutputObservation, BrowseURLAction, EventSource, TaskTrackingAction
from core.events import TaskTrackingObservation as Plan
from tests.tui.batch.screen import showing
from tests.tui.snapshots.comparing import compare
from tests.tui.snapshots.scenes import conversation
from tests.tui.workspace.running_app import Running, running
from tui.shortcuts.leader import WhichKey

pytestmark = pytest.mark.every_frame

SIZES = ((160, 48), (100, 30), (80, 24), (20, 5))
SCREENS: dict[str, tuple[str, ...]] = {
    "palette": ("ctrl+p",),
    "help": ("f1",),
    "settings": ("ctrl+x", "comma"),
    "models": ("ctrl+x", "m"),
    "themes": ("ctrl+x", "t"),
    "sessions": ("ctrl+s",),
    "jump": ("ctrl+x", "g"),
    "statistics": ("ctrl+x", "dollar_sign"),
    "mcp": ("ctrl+x", "M"),
    "sandbox": ("ctrl+x", "s"),
    "jobs": ("ctrl+x", "j"),
    "rename": ("ctrl+x", "r"),
    "copy-mode": ("ctrl+x", "k"),
    "plan": ("ctrl+t",),
    "find": ("ctrl+f", *"three"),
    "events": ("f3", "f3"),
    "event": ("f3", "up", "enter"),
    "filter": ("f3", "slash", *"exit!=0", "enter"),
    "terminal": ("f4", "f4"),
    "browser": ("f5", "f5"),
    "commands": ("slash",),
}


async def everything(it: Running) -> None:
    """The conversation, with a plan and a page as well."""
    await conversation(it, asks=False)
    stream = it.session.stream
    tasks = [{"title": "find it", "status": "done"}, {"title": "mend it", "status": "in_progress"}]
    planned = await stream.append_by_agent(TaskTrackingAction(command="plan", task_list=tasks))
    await stream.append(Plan(command="plan", task_list=tasks), EventSource.ENVIRONMENT, planned.id)
    opened = await stream.append_by_agent(BrowseURLAction(url="http://localhost:8000/"))
    page = BrowserOutputObservation(url="http://localhost:8000/", trigger_by_action="browse", content="Hello")
    await stream.append(page, EventSource.ENVIRONMENT, opened.id)
    await it.settle()


@pytest.mark.parametrize("name", SCREENS)
async def test_screen_matches_its_snapshot(name: str) -> None:
    async with running(size=(100, 30)) as it:
        await everything(it)
        await it.press(*SCREENS[name])
        await it.settle()
        compare(f"screen-{name}", it.app)


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_workspace_matches_its_snapshot(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        await everything(it)
        compare(f"workspace-{size[0]}x{size[1]}", it.app)


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_question_matches_its_snapshot(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        await conversation(it)
        compare(f"question-{size[0]}x{size[1]}", it.app)


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (40, 12)], ids=str)
async def test_batch_matches_its_snapshot(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with showing(tmp_path / "results", size) as shown:
        await shown.press("down")
        compare(f"batch-{size[0]}x{size[1]}", shown.it.app)


async def test_halt_matches_its_snapshot() -> None:
    async with running(size=(100, 30)) as it:
        await conversation(it, asks=False)
        halt = Halt(HaltKind.LIMIT)
        await it.session.become(agent_state=AgentState.PAUSED, halt=halt, reason="100 answers were the limit.")
        await it.settle()
        compare("halt", it.app)


async def test_leader_panel_matches_its_snapshot() -> None:
    async with running(size=(100, 30)) as it:
        await conversation(it, asks=False)
        await it.press("ctrl+x")
        it.app.workspace.query_one(WhichKey).reveal()
        await it.pilot.pause()
        compare("screen-leader", it.app)


async def test_split_matches_its_snapshot() -> None:
    async with running(size=(160, 48)) as it:
        await conversation(it, asks=False)
        await it.press("ctrl+n")
        await it.session.say("Another one.")
        await it.press("ctrl+x", "v")
        await it.settle()
        compare("split", it.app)


async def test_first_start_matches_its_snapshot() -> None:
    async with running(size=(100, 30), model=None) as it:
        await it.settle()
        compare("screen-start", it.app)
