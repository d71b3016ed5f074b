"""What must not be left half done when its task is cancelled: a process half started, a command half interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def seen_through(work: Coroutine[Any, Any, T], on_cancel: Callable[[], object] | None = None) -> T:
    """Do it whole; what it gives.

    Cancelling, however often, calls `on_cancel`, waits for its end, and is raised then.
    """
    task = asyncio.create_task(work)
    await ended(task, on_cancel)
    return task.result()


async def ended(task: asyncio.Task[T], on_cancel: Callable[[], object] | None = None) -> None:
    """Return at the end of a task, however it ended. Cancelling is as in `seen_through`."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
            if on_cancel is not None:
                on_cancel()
    if cancelled:
        raise asyncio.CancelledError from (None if task.cancelled() else task.exception())
