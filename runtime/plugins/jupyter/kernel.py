"""One kernel: a cell from its request to its end, whatever ends it.

A cell ends by itself, by its kernel's death, by its time, or because nobody waits for it any more. In the last two the
kernel is interrupted, and killed where it does not obey: then `has_ended` says so, and whoever uses it takes another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.cancellation import run_to_completion
from runtime.plugins.jupyter.cell_output import Cell, Message
from runtime.plugins.jupyter.kernel_process import START_TIMEOUT_S, KernelError, KernelProcess
from runtime.server.action_executor import Emit

if TYPE_CHECKING:
    from runtime.plugins.jupyter.channels import Channels

ALONE_OBEYS_WITHIN_S = 0.5
"""An interrupt is for the kernel at first, so that what cells before have left running goes on."""
OBEYS_WITHIN_S = 2.0
"""In all. A program that the kernel waits for in C gets the interrupt too, after the time above."""
BEGINS_WITHIN_S = 0.5
"""What is asked of the kernel before that cannot be interrupted, for the kernel has not begun with it."""
REST_WITHIN_S = 0.2
"""What a kernel said before its death is read by then."""
QUIET_TIMEOUT_S = 30.0
"""Of what is asked of a kernel behind the back of its user."""


class End(Enum):
    """What ended a cell."""

    DONE = "done"
    DEATH = "death"
    TIMEOUT = "timeout"


class Kernel:
    """A kernel that listens. Made by `start`; one request at a time."""

    def __init__(self, process: KernelProcess, channels: Channels) -> None:
        self._process = process
        self._channels = channels
        self._disobeyed = False
        self.entered = ""
        """The folder that it was sent to last."""
        self.prepared_with = ""
        """The user's code that it ran for its preparation."""

    @classmethod
    async def start(cls, folder: Path, *, cwd: str, environ: Mapping[str, str], umask: int) -> Kernel:
        """Start one and wait until it listens. Cancelling ends it. Raises KernelError, OSError."""
        process = KernelProcess(folder, cwd=cwd, environ=environ, umask=umask)
        channels: Channels | None = None
        try:
            await asyncio.to_thread(import_module, "runtime.plugins.jupyter.channels")
            await process.listens()
            from runtime.plugins.jupyter.channels import Channels

            channels = Channels(process.connection)
            subscribed = asyncio.create_task(channels.subscribed(), name="subscription to the kernel")
            try:
                await asyncio.wait(
                    {subscribed, process.ended}, timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not subscribed.done():
                    raise KernelError(process.ended.result() if process.has_ended else "it does not answer")
            finally:
                subscribed.cancel()
        except BaseException:
            if channels is not None:
                channels.close()
            await run_to_completion(process.end())
            raise
        kernel = cls(process, channels)
        kernel.entered = cwd
        return kernel

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.has_ended or self._disobeyed

    @property
    def how_it_ended(self) -> str:
        """For the model; only once it has ended."""
        return "it did not obey an interrupt, and was killed" if self._disobeyed else self._process.ended.result()

    async def ended(self) -> None:
        """Wait for the end of its process."""
        await asyncio.wait({self._process.ended})

    @property
    def cwd(self) -> str:
        """Where it is; empty where that cannot be known."""
        return self._process.cwd

    @property
    def dropped(self) -> int:
        """Messages that came to us and were not signed by it."""
        return self._channels.dropped

    async def run(self, code: str, cell: Cell, emit: Emit, timeout_s: float) -> End:
        """Have a cell executed; live bytes go to `emit`.

        Cancelling, and an `emit` that raises, interrupt the cell.
        """
        ends_at = asyncio.get_running_loop().time() + timeout_s
        running = asyncio.create_task(self._channels.execute(code, cell.take), name="cell")
        is_over = False
        try:
            end = await self._follow(running, cell, emit, ends_at)
            is_over = end is not End.TIMEOUT
            return end
        finally:
            cell.stop_listening()
            if not is_over:
                await run_to_completion(self._interrupt(running, cell))
            running.cancel()
            await asyncio.wait([running])

    async def ask(self, code: str, cell: Cell | None = None) -> str:
        """Have code executed whose output nobody shall notice; what went wrong, or an empty text.

        What cells before have printed late goes to `cell`.
        """

        async def take(message: Message, is_mine: bool) -> None:
            if cell is not None and not is_mine:
                cell.keep(message, is_mine)

        running = asyncio.create_task(self._channels.execute(code, take, silent=True), name="request")
        try:
            await asyncio.wait(
                {running, self._process.ended}, timeout=QUIET_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not running.done() and self._process.has_ended:
                return self._process.ended.result()
            if not running.done():
                await run_to_completion(self._interrupt(running, None))
                return "it took too long"
            reply = running.result()
            return "" if reply["status"] == "ok" else f"{reply.get('ename')}: {reply.get('evalue')}"
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def end(self) -> None:
        """End it and what it started. May be called twice."""
        self._channels.close()
        await self._process.end()

    async def _follow(self, running: asyncio.Task[Message], cell: Cell, emit: Emit, ends_at: float) -> End:
        """Hand the live bytes on until the cell is over or has had its time."""
        loop = asyncio.get_running_loop()
        while True:
            if (frame := cell.take_live()) is not None:
                await emit(frame)
            elif running.done():
                running.result()
                return End.DONE
            elif self._process.has_ended:
                await asyncio.wait({running}, timeout=REST_WITHIN_S)
                if (rest := cell.take_live()) is not None:
                    await emit(rest)
                return End.DONE if running.done() and not running.exception() else End.DEATH
            elif loop.time() >= ends_at:
                return End.TIMEOUT
            else:
                printed = asyncio.create_task(cell.printed.wait())
                try:
                    await asyncio.wait(
                        {running, self._process.ended, printed},
                        timeout=ends_at - loop.time(),
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                finally:
                    printed.cancel()

    async def _interrupt(self, running: asyncio.Task[Message], cell: Cell | None) -> None:
        """Make it stop, and kill it where it does not within OBEYS_WITHIN_S."""
        if cell is not None:
            cell.stop_listening()
            await self._until(running, asyncio.create_task(cell.begun.wait()), BEGINS_WITHIN_S)
        for with_all, within_s in ((False, ALONE_OBEYS_WITHIN_S), (True, OBEYS_WITHIN_S - ALONE_OBEYS_WITHIN_S)):
            if running.done() or self._process.has_ended:
                return
            self._process.interrupt(with_all=with_all)
            await self._until(running, None, within_s)
        if not running.done() and not self._process.has_ended:
            self._disobeyed = True
            await self.end()

    async def _until(self, running: asyncio.Task[Message], other: asyncio.Task[bool] | None, within_s: float) -> None:
        waited = {running, self._process.ended} | ({other} if other is not None else set())
        try:
            await asyncio.wait(waited, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if other is not None:
                other.cancel()
