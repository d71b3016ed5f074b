"""What must not be left half done when its task is cancelled: a process half started, a command half interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def seen_through(work: Coroutine[Any, Any, None]) -> None:
    """Do it whole. Cancelling, however often, waits for its end, and is raised then."""
    task, cancelled = asyncio.create_task(work), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
