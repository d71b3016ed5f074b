"""The screen of a batch: what it shows of the ledger, and what it asks of the driver."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.batch.ledger import LOCK, AttemptState, Ended, Ledger, TaskState
from core.batch.requests import DriverState
from core.batch.tasks import BatchTask
from tests.tui.batch.screen import NOW, TASKS, showing
from tests.tui.workspace.running_app import running, until
from tui.batch.screen import BatchScreen, Costs
from tui.dialogs.dialog import SureScreen


async def test_progress_and_tasks_are_shown(tmp_path: Path) -> None:
    async with showing(tmp_path / "out", (160, 30)) as shown:
        text = await shown.until("tests")
        assert "50% 3 of 6" in text
        assert "✓ 1 done · ✕ 2 failed · ▶ 2 running · ○ 1 waiting" in text
        assert "$1.75 of $5.00 · about 8m left · 2 workers · 1.4M tokens" in text
        row = next(line for line in text.splitlines() if " cli " in line)
        assert " ".join(row.split()) == "│ ✕ failed cli The check failed: make test 1 $1.50 1.3M 1m30s local │"
        row = next(line for line in text.splitlines() if " web " in line)
        assert "cancelled" in row


async def test_costs_of_running_attempts_are_shown_as_they_grow(tmp_path: Path) -> None:
    spent = {"c4": 0.5, "other": 9.0}

    async def read(ids: Sequence[str]) -> Mapping[str, float]:
        return {id: spent[id] for id in ids}

    bells = tmp_path / "locks"
    bells.mkdir()
    async with showing(tmp_path / "out", (160, 30), costs=Costs(bells, read)) as shown:
        text = await shown.until("$2.25 of $5.00")
        assert "$0.5000" in next(line for line in text.splitlines() if " docs " in line)
        spent["c4"] = 1.25
        (bells / "1.lock").touch()
        await shown.until("$3.00 of $5.00")


async def test_cursor_is_visible(tmp_path: Path) -> None:
    async with showing(tmp_path / "out") as shown:
        await shown.press("down")
        grounds = [
            {segment.style.bgcolor for segment in shown.screen.rows.render_line(y) if segment.style} for y in (0, 1)
        ]
        assert not grounds[0] & grounds[1]


async def test_changes_of_the_ledger_appear(tmp_path: Path) -> None:
    async with showing(tmp_path / "out", (160, 30)) as shown:
        hostile = "\x1b]0;x\x07\x1b[31mred\nand [bold]more[/bold]"
        await asyncio.to_thread(
            shown.ledger.end, "docs", 2, Ended(AttemptState.ERROR, "c4", 0.5, reason=hostile), TaskState.FAILED
        )
        text = await shown.until("and [bold]more[/bold]")
        assert "\x1b" not in text
        assert "$2.25 of $5.00" in text
        await asyncio.to_thread(shown.ledger.note_driver, DriverState(7, 2, is_paused=True))
        await shown.until("Paused: what runs goes on")


async def test_table_is_filtered_by_typing(tmp_path: Path) -> None:
    async with showing(tmp_path / "out") as shown:
        await shown.press("slash", *"failed")
        await until(shown.it.pilot, lambda: shown.ids == ["cli", "web"])
        await shown.press("space", *"CHECK")
        await until(shown.it.pilot, lambda: shown.ids == ["cli"])
        await shown.press(*"x")
        await shown.until("No task matches.")
        await shown.press("escape")
        await until(shown.it.pilot, lambda: len(shown.ids) == 6)
        await shown.press("slash", *"10.0.0.7")
        await until(shown.it.pilot, lambda: shown.ids == ["lint"])
        await shown.press("down", "escape")
        await until(shown.it.pilot, lambda: len(shown.ids) == 6)
        assert shown.screen.state.task == "lint", "the cursor stays on its task"


@pytest.mark.parametrize(
    ("presses", "ids"),
    [
        (1, ["docs", "lint", "cli", "web", "tests", "api"]),
        (2, ["api", "cli", "docs", "lint", "tests", "web"]),
        (3, ["docs", "api", "cli", "lint", "web", "tests"]),
        (4, ["cli", "api", "docs", "lint", "tests", "web"]),
        (6, ["api", "cli", "docs", "lint", "tests", "web"]),
        (7, [task.id for task in TASKS]),
    ],
)
async def test_table_is_sorted_by_keys(tmp_path: Path, presses: int, ids: list[str]) -> None:
    async with showing(tmp_path / "out") as shown:
        await shown.press(*["o"] * presses)
        await until(shown.it.pilot, lambda: shown.ids == ids)
        await shown.press("O")
        await until(shown.it.pilot, lambda: shown.ids == ids[::-1])


async def test_keys_ask_the_driver(tmp_path: Path) -> None:
    async with showing(tmp_path / "out") as shown:
        await shown.press("p", "plus")
        asked = [(request.kind, request.argument) for request in await shown.requests(2)]
        assert sorted(asked) == [("pause", ""), ("workers", "3")]
        await shown.press("x")
        await shown.until("api has ended already.")
        await shown.press("r")
        await shown.until("Only failed tasks can be tried again.")
        await shown.press("down", "r", "down", "x")
        await shown.until("… cancelling")
        asked = [(request.kind, request.argument) for request in await shown.requests(2)]
        assert sorted(asked) == [("cancel", "docs"), ("retry", "cli")]
        await asyncio.to_thread(shown.ledger.note_driver, DriverState(7, 3, is_paused=True))
        await shown.until("Paused")
        await shown.press("minus", "space")
        asked = [(request.kind, request.argument) for request in await shown.requests(2)]
        assert sorted(asked) == [("resume", ""), ("workers", "2")]


async def test_quick_presses_for_workers_add_up(tmp_path: Path) -> None:
    async with showing(tmp_path / "out") as shown:
        await shown.press("plus", "plus", "plus", "minus", "plus")
        assert [(request.kind, request.argument) for request in await shown.requests(1)] == [("workers", "5")]


async def test_interrupting_asks_first(tmp_path: Path) -> None:
    async with showing(tmp_path / "out") as shown:
        await shown.press("I")
        await until(shown.it.pilot, lambda: isinstance(shown.it.app.screen, SureScreen))
        await shown.press("escape")
        await until(shown.it.pilot, lambda: isinstance(shown.it.app.screen, BatchScreen))
        await shown.press("I")
        await until(shown.it.pilot, lambda: isinstance(shown.it.app.screen, SureScreen))
        await shown.press("down", "enter")
        assert [request.kind for request in await shown.requests(1)] == ["interrupt"]


def all_waiting(ledger: Ledger, now: Callable[[float], None]) -> None:
    ledger.begin(TASKS)


@pytest.mark.parametrize(("presses", "kind"), [(2, "resume"), (3, "pause")])
async def test_quick_presses_of_pause_take_turns(tmp_path: Path, presses: int, kind: str) -> None:
    async with showing(tmp_path / "out") as shown:
        await shown.press(*["p"] * presses)
        assert [request.kind for request in await shown.requests(1)] == [kind]


async def test_task_without_a_conversation_is_not_opened(tmp_path: Path) -> None:
    async with showing(tmp_path / "out", fill=all_waiting) as shown:
        await shown.press("enter")
        await shown.until("api has no conversation yet.")


async def test_killed_driver_is_reported_with_how_to_go_on(tmp_path: Path) -> None:
    async with showing(tmp_path / "out", (160, 30)) as shown:
        shown.ledger._database.close()
        os.close(shown.ledger._lock)  # as when the process is killed
        shown.ledger._lock = -1
        await shown.until("ended unexpectedly. To go on, run: handloom batch TASKS --out")
        await shown.press("p")
        await shown.until("This batch is not running, so nothing was changed.")


@pytest.mark.parametrize(
    ("status", "text"), [(130, "Interrupted. To go on"), (4, "The budget is spent."), (None, "ended unexpectedly")]
)
async def test_end_of_the_driver_is_explained(tmp_path: Path, status: int | None, text: str) -> None:
    async with showing(tmp_path / "out") as shown:
        await asyncio.to_thread(shown.ledger.note_driver, DriverState(7, 2, status=status))
        await asyncio.to_thread(shown.ledger.close)
        await shown.until(text)


def all_failed(ledger: Ledger, now: Callable[[float], None]) -> None:
    ledger.begin(TASKS[:1])
    ledger.start("w")
    ledger.end("api", 1, Ended(AttemptState.FAILED, "c"), TaskState.FAILED)


async def test_finished_batch_says_how_to_try_again(tmp_path: Path) -> None:
    async with showing(tmp_path / "out", (160, 30), fill=all_failed) as shown:
        driver = DriverState(7, 2, tasks="/t/my list.jsonl", options="--workers 3")
        await asyncio.to_thread(shown.ledger.note_driver, driver)
        await asyncio.to_thread(shown.ledger.close)
        await shown.until("again, run: handloom batch '/t/my list.jsonl' --out")
        await shown.until("--workers 3")


def made(folder: Path) -> None:
    with Ledger(folder) as ledger:
        ledger.begin(TASKS)


async def test_command_opens_a_batch_and_returns_to_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await asyncio.to_thread(made, out)
    async with running((100, 30), workspace=str(tmp_path)) as it:
        await it.press(*"/batch nothing", "enter")
        await until(it.pilot, lambda: "There is no batch in" in it.screen_text())
        await it.pilot.press(*"/batch out", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, BatchScreen))
        await until(it.pilot, lambda: "0 of 6" in it.screen_text())
        await it.pilot.press("down", "down", "o", "escape")
        await until(it.pilot, lambda: it.shows_the_workspace)
        await it.pilot.press("ctrl+x", "B")
        await until(it.pilot, lambda: isinstance(it.app.screen, BatchScreen))
        screen = it.app.screen
        assert isinstance(screen, BatchScreen)
        await until(it.pilot, lambda: screen.progress is not None)
        assert (screen.state.order, screen.state.task) == (1, "api")
        it.app.options = replace(it.app.options, batch=out)  # as if the program was started for it
        await it.pilot.press("q")
        await until(it.pilot, lambda: "ctrl+x B returns to the batch, ctrl+q quits." in it.screen_text())


async def test_ten_thousand_tasks_are_drawn_by_the_screenful(tmp_path: Path) -> None:
    def fill(ledger: Ledger, now: Callable[[float], None]) -> None:
        now(NOW)
        ledger.begin([BatchTask(f"task-{number:05}", "x") for number in range(10_000)])

    async with showing(tmp_path / "out", fill=fill) as shown:
        drawn: list[int] = []
        lines = shown.screen._table.lines
        shown.screen._table.lines = lambda row, width: drawn.append(row) or lines(row, width)  # type: ignore[func-returns-value, method-assign]
        await shown.press("end")
        await shown.until("task-09999")
        await shown.press("up")
        assert len(drawn) < 200
        await shown.press("slash", *"0123")
        await until(shown.it.pilot, lambda: len(shown.ids) == 11)  # 00123 and 01230 to 01239


async def test_idle_screen_reads_nothing(tmp_path: Path) -> None:
    async with showing(tmp_path / "out", fill=all_waiting) as shown:
        before = shown.screen.progress
        await shown.press("down", "up", "o")
        assert shown.screen.progress is before
        os.utime(tmp_path / "out" / LOCK)
        await until(shown.it.pilot, lambda: shown.screen.progress is not before)
