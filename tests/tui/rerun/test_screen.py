"""A saved session is run again from the workspace: the real app, on a real manager, shell and files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from core.conversations.conversation_manager import ConversationManager
from core.rerun.comparison import Outcome
from core.security.confirmation import ConfirmMode
from core.settings.config import Settings
from tests.doubles import FINISH, bash
from tests.rerun.runs import managing, recorded
from tests.tui.workspace.running_app import until
from tui.app import HandloomApp
from tui.cli.options import StartOptions
from tui.rerun.screen import RerunScreen, ResultView

TURNS: list[dict[str, Any]] = [{"tool_calls": [bash("echo same"), bash("cat given"), bash("echo last")]}, FINISH]


@asynccontextmanager
async def workspace(
    tmp_path: Path, size: tuple[int, int] = (140, 40), turns: list[dict[str, Any]] = TURNS
) -> AsyncIterator[tuple[HandloomApp, Pilot[None], ConversationManager]]:
    """The app with a recorded session in its tab, whose input file has changed since."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "given").write_text("then\n")
    async with managing(tmp_path) as manager:
        source = await recorded(manager, tmp_path, turns)

        async def connect() -> ConversationManager:
            return manager

        app = HandloomApp(connect, StartOptions(workspace=str(folder), model="demo", resume=source.id))
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.tabs.current is not None)
            yield app, pilot, manager


async def run_again(app: HandloomApp, pilot: Pilot[None], *choose: str) -> RerunScreen:
    """By the keys of the user: the leader, then the way to run it."""
    await pilot.press("ctrl+x", "A")
    await until(pilot, lambda: app.screen is not app.workspace)
    await pilot.press(*choose, "enter")
    await until(pilot, lambda: isinstance(app.screen, RerunScreen))
    assert isinstance(app.screen, RerunScreen)
    return app.screen


def shown(app: HandloomApp) -> str:
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in lines)


def result_rows(screen: RerunScreen) -> list[str]:
    view = screen.query_one(ResultView)
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


async def test_session_is_rerun_and_compared(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (app, pilot, _):
        screen = await run_again(app, pilot)
        await until(pilot, lambda: "Finished ·" in shown(app))
        assert [pair.outcome for pair in screen.actions.pairing.pairs] == [Outcome.SAME] * 3
        assert "3 same" in shown(app)
        await pilot.press("home")
        await until(pilot, lambda: "Running command: echo same" in result_rows(screen)[0])
        assert "[exit code 0]" in result_rows(screen)[3]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.workspace)
        run = app.tabs.conversation
        assert run is not None
        assert (run.session.info.origin, len(app.tabs.all)) == ("again", 2)


async def test_screen_stops_at_the_first_difference_steps_and_continues(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "given").write_text("now\n")
    async with workspace(tmp_path) as (app, pilot, manager):
        assert app.tabs.current is not None
        from core.rerun.runner import start_rerun

        rerun = await start_rerun(manager, app.tabs.current.id, workspace=str(other), stop_at_difference=True)
        screen = RerunScreen("go", rerun.pairing, rerun, app.attempt)
        app.push_screen(screen)
        app.attempt(_play(rerun.play))
        await until(pilot, lambda: "Stopped at the first difference" in shown(app))
        assert [pair.outcome for pair in rerun.pairing.pairs] == [Outcome.SAME, Outcome.DIFFERENT, None]
        assert any("- then" in row and "+ now" in row for row in result_rows(screen))
        await pilot.press("s")
        await until(pilot, lambda: rerun.pairing.pairs[2].outcome is Outcome.SAME and rerun.control.is_waiting)
        await pilot.press("space")
        await until(pilot, lambda: "Finished ·" in shown(app))
        await pilot.press("home", "n")
        assert screen.actions.cursor == 1
        await pilot.press("end", "N")
        assert screen.actions.cursor == 1


async def _play(play: Callable[[], Any]) -> None:
    await play()


async def test_results_are_in_one_column_below_a_hundred_columns(tmp_path: Path) -> None:
    async with workspace(tmp_path, size=(80, 24)) as (app, pilot, _):
        screen = await run_again(app, pilot)
        await until(pilot, lambda: "Finished ·" in shown(app))
        await until(pilot, lambda: "  [exit code 0]" in result_rows(screen))
        assert not any("│" in row for row in result_rows(screen))
        await pilot.resize_terminal(120, 30)
        await until(pilot, lambda: any("│   [exit code 0]" in row for row in result_rows(screen)))


async def test_finished_run_is_compared_again_from_the_two_logs(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (app, pilot, _):
        await run_again(app, pilot)
        await until(pilot, lambda: "Finished ·" in shown(app))
        before = shown(app).splitlines()[5:]
        await pilot.press("escape")
        app.reruns._runs.clear()  # as after a restart
        await pilot.press("ctrl+x", "A")
        await until(pilot, lambda: isinstance(app.screen, RerunScreen))
        await until(pilot, lambda: "3 same" in shown(app))
        screen = app.screen
        assert isinstance(screen, RerunScreen)
        await pilot.press("end")
        await pilot.pause()
        assert [line for line in shown(app).splitlines() if "echo last" in line] == [
            line for line in before if "echo last" in line
        ]


async def test_approval_is_answered_on_the_screen(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (app, pilot, manager):
        settings = manager.settings
        agent = settings.agent.model_copy(update={"confirm": ConfirmMode.ALWAYS})
        manager.settings = settings.model_copy(update={"agent": agent})
        screen = await run_again(app, pilot)
        await until(pilot, lambda: "Waiting for approval" in shown(app))
        for number, keys in enumerate((("down", "enter"), ("enter",), ("enter",))):
            await until(pilot, partial(_asks, app, screen, number))
            await pilot.press("enter")
            await until(pilot, lambda: "Run the next action?" in shown(app))
            await pilot.press(*keys)
            await until(pilot, lambda: app.screen is screen)
        await until(pilot, lambda: "Finished ·" in shown(app))
        outcomes = [pair.outcome for pair in screen.actions.pairing.pairs]
        assert outcomes == [Outcome.MISSING, Outcome.SAME, Outcome.SAME]


def _asks(app: HandloomApp, screen: RerunScreen, number: int) -> bool:
    """Whether the run asks about the action of this number."""
    new = screen.actions.pairing.pairs[number].new
    return (
        new is not None and app.tabs.conversation is not None and app.tabs.conversation.session.state.awaiting == new.id
    )


async def test_another_folder_is_named_by_the_user(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "given").write_text("now\n")
    async with workspace(tmp_path) as (app, pilot, _):
        await pilot.press("ctrl+x", "A")
        await until(pilot, lambda: app.screen is not app.workspace)
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: "Folder to run in" in shown(app))
        await pilot.press(*os.fspath(other), "enter")
        await until(pilot, lambda: isinstance(app.screen, RerunScreen))
        await until(pilot, lambda: "Finished ·" in shown(app))
        assert "1 different" in shown(app)
        assert app.tabs.conversation is not None
        assert app.tabs.conversation.session.info.workspace == str(other)


async def test_closing_the_tab_ends_a_waiting_run_and_its_sandbox(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("then\n")
    turns = [{"tool_calls": [bash(f"cat {outside}"), bash("echo last")]}, FINISH]
    async with workspace(tmp_path, turns=turns) as (app, pilot, manager):
        outside.write_text("now\n")
        before = set(app.workers)
        screen = await run_again(app, pilot, "down")
        rerun = screen._rerun
        assert rerun is not None
        await until(pilot, lambda: rerun.stopped_at is not None and rerun.control.is_waiting)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.workspace)
        run = app.tabs.conversation
        assert run is not None
        assert run.session is rerun.session
        await app.tabs._close(run)
        await until(pilot, lambda: not any(worker.is_running for worker in app.workers if worker not in before))
        assert not manager.is_open(rerun.session.id)
        assert rerun.session.runtime.server_pid is None  # type: ignore[attr-defined]
        assert not Path(rerun.session.info.workspace).exists()


async def test_focus_moves_to_the_replay_when_a_waiting_run_is_closed(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (app, pilot, manager):
        await pilot.press("ctrl+x", "P")
        await until(pilot, lambda: app.tabs.current is not None and app.tabs.current.is_replay)
        manager.settings = Settings.model_validate({"agent": {"confirm": "always"}})
        await run_again(app, pilot)
        await until(pilot, lambda: "Waiting for approval" in shown(app))
        await pilot.press("enter", "enter")
        await until(pilot, lambda: "1 same" in shown(app) and "Waiting for approval" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.workspace.question is not None)
        await pilot.press("ctrl+x", "w")
        await until(pilot, lambda: app.tabs.current is not None and app.tabs.current.is_replay)
        await until(pilot, lambda: app.workspace.question is None)
        await until(pilot, lambda: app.focused is app.workspace.transport)


async def test_change_during_removal_of_the_screen_is_not_drawn(tmp_path: Path) -> None:
    async with workspace(tmp_path) as (app, pilot, _):
        screen = await run_again(app, pilot)
        removed = screen.dismiss()
        await until(pilot, lambda: not screen.query(ResultView))
        screen.sync()
        await removed
        assert app.screen is app.workspace
