"""The tasks of one conversation.

As in a task group, no task outlives its conversation. Unlike in asyncio's, a task that fails cancels no other: the user
sees a notice, the log has the traceback, and the conversation goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from core.events import Status
from core.pub_sub import Frames

log = logging.getLogger(__name__)

TASK_STATUS = "STATUS$ERROR"


class SessionTasks:
    """The tasks of one conversation; `aclose` it after the last one was started."""

    def __init__(self, conversation_id: str, frames: Frames) -> None:
        self._id = conversation_id
        self._frames = frames
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task. It may be cancelled. Raises RuntimeError after the end."""
        if self._is_closed:
            work.close()
            raise RuntimeError("the conversation is closed")
        task = asyncio.create_task(self._isolated(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # one that is cancelled before its first step never awaited it
        return task

    async def _isolated(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # the boundary between the tasks of a conversation: a bug of one ends that one
            log.exception("a task of conversation %s failed", self._id)
            what = f"Internal error ({type(error).__name__}: {error}). Stored events are safe. "
            self._frames.publish(Status("error", TASK_STATUS, what + "Interrupt, then send a message to go on."))

    async def aclose(self, within_s: float) -> None:
        """Wait until all tasks have ended, and cancel those that take longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
