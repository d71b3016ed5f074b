"""`handloom batch attach DIR` without a screen: the progress of a batch that another process runs, until that ends.

Only reads. A line is printed when a task changes, at most one a second.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

from core.batch.ledger import DATABASE, LOCK, TaskRow, TaskState, read_rows
from core.batch.progress import is_alive
from core.errors import ExitStatus, StoreError, UsageError
from core.store.database import sqlite3
from tui.cli.output import notice
from tui.cli.run import interrupts
from tui.file_watcher import RUNG, watch

AT_LEAST_S = 1.0
LOOK_S = 5.0
"""Where nothing tells of changes, and for the end of the other process, which changes no file."""


async def attach(folder: Path | None) -> int:
    """Print progress until the batch ends or the user interrupts. Raises UsageError, StoreError."""
    if folder is None or not (folder / DATABASE).is_file():
        raise UsageError("Name the folder of a batch: handloom batch attach DIR")
    changed, interrupted, shown = asyncio.Event(), interrupts(), ""
    watching = watch(folder / LOCK, changed.set, RUNG)
    try:
        while True:
            changed.clear()
            is_running = await asyncio.to_thread(is_alive, folder)
            rows = await asyncio.to_thread(_read, folder)
            if (line := progress_line(rows)) != shown:
                notice(shown := line)
            if not is_running:
                return _status(rows)
            if await _first_of(changed, interrupted):
                return ExitStatus.INTERRUPTED
            await asyncio.sleep(AT_LEAST_S)
    finally:
        if watching is not None:
            watching.close()


def progress_line(rows: list[TaskRow]) -> str:
    """How many tasks are in each state, what their newest attempts cost, and what runs."""
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{counts[state]} {state.value}" for state in TaskState if counts[state])
    cost = sum(row.ended.cost or 0.0 for row in rows if row.ended is not None)
    running = [row.task.id for row in rows if row.state is TaskState.RUNNING]
    more = f" and {len(running) - 5} more" if len(running) > 5 else ""
    now = f": {', '.join(running[:5])}{more}" if running else ""
    return f"{len(rows)} tasks, {states}, ${cost:,.2f}{now}"


async def _first_of(changed: asyncio.Event, interrupted: asyncio.Event) -> bool:
    """Wait for a change. Returns whether the user has interrupted."""
    waits = [asyncio.create_task(changed.wait()), asyncio.create_task(interrupted.wait())]
    await asyncio.wait(waits, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return interrupted.is_set()


def _read(folder: Path) -> list[TaskRow]:
    try:
        database = sqlite3.connect(f"file:{folder / DATABASE}?mode=ro", uri=True)
        try:
            return read_rows(database, time.time())
        finally:
            database.close()
    except sqlite3.Error as error:
        raise StoreError(f"The batch in {folder} cannot be read: {error}.") from error


def _status(rows: list[TaskRow]) -> ExitStatus:
    counts = Counter(row.state for row in rows)
    if counts[TaskState.WAITING] or counts[TaskState.RUNNING]:
        return ExitStatus.LIMIT
    return ExitStatus.ERROR if counts[TaskState.FAILED] else ExitStatus.FINISHED
