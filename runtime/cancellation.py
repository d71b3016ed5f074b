"""Wait for work that must not be left half done when its task is cancelled, such as starting a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_to_completion(work: Coroutine[Any, Any, T], on_cancel: Callable[[], object] | None = None) -> T:
    """Run a coroutine to its end even if the calling task is cancelled, and return its result.

    On cancellation, `on_cancel` is called each time; CancelledError is raised once the work has ended.
    """
    task = asyncio.create_task(work)
    await wait_until_done(task, on_cancel)
    return task.result()


async def wait_until_done(task: asyncio.Task[T], on_cancel: Callable[[], object] | None = None) -> None:
    """Wait until a task has ended, whatever its result. Cancellation works as in `run_to_completion`."""
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
