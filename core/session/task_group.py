"""The tasks of one conversation.

A task group, so that no task outlives its conversation. Unlike in a plain one, a task that fails cancels no other: the
user sees a notice, the log has the traceback, and the conversation goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from core.events import Status
from core.pub_sub import Frames

log = logging.getLogger(__name__)

TASK_STATUS = "STATUS$ERROR"


class SessionTasks:
    """The tasks of one conversation. `open` it before the first one, `aclose` it after the last."""

    def __init__(self, conversation_id: str, frames: Frames) -> None:
        self._id = conversation_id
        self._frames = frames
        self._closing = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None

    async def open(self) -> None:
        """Open the group: tasks can be started from now on."""
        opened = asyncio.Event()
        self._life = asyncio.create_task(self._live(opened), name=f"session {self._id}")
        await opened.wait()

    async def _live(self, opened: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            opened.set()
            await self._closing.wait()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task. It may be cancelled."""
        assert self._group is not None
        isolated = self._isolated(work)
        try:
            task = self._group.create_task(isolated)
        except RuntimeError:  # the group is closed
            isolated.close()
            work.close()
            raise
        task.add_done_callback(lambda _: work.close())  # one that is cancelled before its first step never awaited it
        return task

    async def _isolated(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # the boundary between the tasks of a conversation: a bug of one ends that one
            log.exception("a task of conversation %s failed", self._id)
            what = f"Handloom made a mistake ({type(error).__name__}: {error}). What was stored is safe; "
            self._frames.publish(Status("error", TASK_STATUS, what + "interrupt, then send a message to go on."))

    async def aclose(self, within_s: float) -> None:
        """Wait until all tasks have ended, and cancel those that take longer. Also works before `open`."""
        self._closing.set()
        if self._life is not None:
            _, late = await asyncio.wait([self._life], timeout=within_s)
            for task in late:
                task.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
