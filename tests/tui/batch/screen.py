"""The batch's screen as its tests open it: the real app, on the real ledger of a batch whose driver is the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.batch.ledger import CANCELLED, AttemptState, Ended, Ledger, TaskState
from core.batch.requests import DriverState, Request
from core.batch.tasks import BatchTask
from tests.tui.workspace.running_app import Running, running, until
from tui.batch.screen import BatchScreen, BatchState, Costs

NOW = 1_000.0
TASKS = [BatchTask(id, "x") for id in ("api", "cli", "docs", "lint", "tests", "web")]


def fill(ledger: Ledger, began: Callable[[float], None] = lambda now: None) -> None:
    """One task in each state, and every kind of text. `began` sets the ledger's clock."""
    ledger.begin(TASKS)
    ledger.note_driver(DriverState(7, 2, budget=5.0, began=NOW - 600))
    results = (
        ("api", Ended(AttemptState.FINISHED, "c1", 0.25, 90_000, 4_000), TaskState.DONE),
        (
            "cli",
            Ended(AttemptState.FAILED, "c2", 1.5, 1_250_000, 9_000, "The check failed: make test"),
            TaskState.FAILED,
        ),
        (
            "docs",
            Ended(AttemptState.ERROR, "c3", None, reason="\x1b[31mred\x1b[0m\nand [bold]more[/bold]"),
            TaskState.WAITING,
        ),
    )
    for number, (id, ended, then) in enumerate(results):
        began(NOW - 500 + 100 * number)
        ledger.start("local")
        began(NOW - 400 + 90 * number)
        ledger.end(id, 1, ended, then)
    began(NOW - 75)
    ledger.start("local")
    ledger.note_began("docs", 2, "c4", "local")
    ledger.start("10.0.0.7")
    began(NOW)
    ledger._database.execute("UPDATE tasks SET state = 'failed', attempt = 1 WHERE id = 'web'")
    ledger._database.execute(
        "INSERT INTO attempts (task, number, state, worker, began, ended, cost, reason) "
        "VALUES ('web', 1, 'interrupted', '', ?, ?, 0.0, ?)",
        (NOW - 60, NOW - 60, CANCELLED),
    )


@dataclass
class Shown:
    """The screen, and the ledger that it shows."""

    it: Running
    ledger: Ledger
    folder: Path

    @property
    def screen(self) -> BatchScreen:
        screen = self.it.app.screen
        assert isinstance(screen, BatchScreen)
        return screen

    @property
    def ids(self) -> list[str]:
        """The tasks of the table, in its order."""
        return [task.id for task in self.screen._table.tasks]

    async def press(self, *keys: str) -> None:
        await self.it.pilot.press(*keys)
        await self.it.pilot.pause()

    async def until(self, text: str) -> str:
        """Wait until a text is on the screen."""
        await until(self.it.pilot, lambda: text in self.it.screen_text())
        return self.it.screen_text()

    async def requests(self, count: int) -> list[Request]:
        """Wait until so many requests have been made, and do them as the driver would."""
        found: list[Request] = []
        for _ in range(400):
            found = await asyncio.to_thread(self.ledger.requests)
            if len(found) >= count:
                break
            await self.it.pilot.pause(0.02)
        await asyncio.to_thread(self.ledger.answered, [request.id for request in found])
        return found


@asynccontextmanager
async def showing(
    folder: Path,
    size: tuple[int, int] = (100, 30),
    fill: Callable[[Ledger, Callable[[float], None]], None] = fill,
    costs: Costs | None = None,
    **options: Any,
) -> AsyncIterator[Shown]:
    """Open the screen on a batch whose driver seems to run."""
    now = [NOW]
    ledger = await asyncio.to_thread(Ledger, folder, clock=lambda: now[0])
    await asyncio.to_thread(fill, ledger, lambda at: now.__setitem__(0, at))
    try:
        async with running(size, **options) as it:
            shown = Shown(it, ledger, folder)
            it.app.push_screen(BatchScreen(BatchState(folder), costs, lambda: NOW))
            await until(it.pilot, lambda: isinstance(it.app.screen, BatchScreen) and it.app.screen.progress is not None)
            await it.pilot.pause()
            yield shown
    finally:
        await asyncio.to_thread(ledger.close)
