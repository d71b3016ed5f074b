"""`handloom batch attach DIR` without a screen: the progress of a batch that another process runs, until that ends.

Only reads. A line is printed when a task changes, at most one a second.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.batch.ledger import DATABASE, LOCK, TaskState
from core.batch.progress import Progress, ProgressReader
from core.errors import ExitStatus, UsageError
from tui.cli.output import notice
from tui.cli.run import interrupts
from tui.file_watcher import RUNG, watch

AT_LEAST_S = 1.0
LOOK_S = 5.0
"""Where nothing tells of changes."""
NAMED = 5
"""Running tasks that a line names."""


async def attach(folder: Path | None) -> int:
    """Print progress until the batch ends or the user interrupts. Raises UsageError, StoreError."""
    if folder is None or not (folder / DATABASE).is_file():
        raise UsageError("Name the folder of a batch: handloom batch attach DIR")
    changed, interrupted, shown = asyncio.Event(), interrupts(), ""
    reader = await asyncio.to_thread(ProgressReader, folder)
    watching = watch(folder / LOCK, changed.set, RUNG)
    try:
        while True:
            changed.clear()
            progress = await asyncio.to_thread(reader.read)
            if (line := progress_line(progress)) != shown:
                notice(shown := line)
            if not progress.is_alive:
                return progress.status
            if await _first_of(changed, interrupted):
                return ExitStatus.INTERRUPTED
            await asyncio.sleep(AT_LEAST_S)
    finally:
        if watching is not None:
            watching.close()
        await asyncio.to_thread(reader.close)


def progress_line(progress: Progress) -> str:
    """How many tasks are in each state, what all attempts cost, and what runs."""
    counts = progress.counts
    states = ", ".join(f"{counts[state]} {state.value}" for state in TaskState if counts[state])
    running = [task.id for task in progress.tasks if task.state == TaskState.RUNNING]
    more = f" and {len(running) - NAMED} more" if len(running) > NAMED else ""
    now = f": {', '.join(running[:NAMED])}{more}" if running else ""
    return f"{len(progress.tasks)} tasks, {states}, ${progress.spent:,.2f}{now}"


async def _first_of(changed: asyncio.Event, interrupted: asyncio.Event) -> bool:
    """Wait for a change. Returns whether the user has interrupted."""
    waits = [asyncio.create_task(changed.wait()), asyncio.create_task(interrupted.wait())]
    await asyncio.wait(waits, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return interrupted.is_set()
