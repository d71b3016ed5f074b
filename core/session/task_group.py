"""Tasks: everything that runs for one conversation, under one roof.

A task group, so that nothing outlives its conversation; but unlike in a plain one, a task that fails takes nothing else
along: the failure is told by a notice, the traceback is in the log, and the conversation goes on. Used by AgentSession.
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
        """Tasks can be started from now on."""
        opened = asyncio.Event()
        self._life = asyncio.create_task(self._live(opened), name=f"session {self._id}")
        await opened.wait()

    async def _live(self, opened: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            opened.set()
            await self._closing.wait()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do some work beside the rest; it may be cancelled."""
        assert self._group is not None
        isolated = self._isolated(work)
        try:
            task = self._group.create_task(isolated)
        except RuntimeError:  # the last one has ended: nothing begins any more
            isolated.close()
            work.close()
            raise
        task.add_done_callback(lambda _: work.close())  # one that is cancelled before its first step leaves it unbegun
        return task

    async def _isolated(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # the boundary between the tasks of a conversation: a bug of one ends that one
            log.exception("a task of conversation %s failed", self._id)
            what = f"Handloom made a mistake ({type(error).__name__}: {error}). What was stored is safe; "
            self._frames.publish(Status("error", TASK_STATUS, what + "interrupt, then send a message to go on."))

    async def aclose(self, within_s: float) -> None:
        """Wait until all of them have ended; those that take longer are cancelled. Also where there were none."""
        self._closing.set()
        if self._life is not None:
            _, late = await asyncio.wait([self._life], timeout=within_s)
            for task in late:
                task.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
