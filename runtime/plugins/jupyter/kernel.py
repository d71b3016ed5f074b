"""One kernel: runs cells, and lends it secrets while a cell runs.

A cell ends normally, by the death of its kernel, by its timeout, or by cancellation. In the last two cases the kernel
is interrupted, and killed if that does not help; then `has_ended` is true.

Secrets are passed through a pipe (`runtime.server.secret_handover`), so their values are in no code that the kernel
runs, keeps or traces. A variable that the kernel already has stays as it is. Processes that the cell started keep
their copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from core.secrets.command_secrets import lent
from runtime.cancellation import run_to_completion
from runtime.plugins.jupyter.cell_output import Cell, Message
from runtime.plugins.jupyter.kernel_process import START_TIMEOUT_S, KernelError, KernelProcess
from runtime.server.action_executor import Emit
from runtime.server.secret_handover import SecretHandover

if TYPE_CHECKING:
    from runtime.plugins.jupyter.channels import Channels

ALONE_OBEYS_WITHIN_S = 0.5
"""The first interrupt is for the kernel alone, so that background processes of earlier cells go on."""
OBEYS_WITHIN_S = 2.0
"""In total. After the time above, programs for which the kernel waits in C are interrupted too."""
BEGINS_WITHIN_S = 0.5
"""How long to wait until the kernel has begun the cell; before that it cannot be interrupted."""
REST_WITHIN_S = 0.2
"""Time for reading the last messages of a dead kernel."""
QUIET_TIMEOUT_S = 30.0
"""Timeout for code that the server runs for its own purposes."""


class End(Enum):
    """How a cell ended."""

    DONE = "done"
    DEATH = "death"
    TIMEOUT = "timeout"


class Kernel:
    """A running kernel, created by `start`. Takes one request at a time."""

    def __init__(self, process: KernelProcess, channels: Channels) -> None:
        self._process = process
        self._channels = channels
        self._disobeyed = False
        self.entered = ""
        """The folder that it was last told to enter."""
        self.prepared_with = ""
        """The init code that it has run."""

    @classmethod
    async def start(cls, folder: Path, *, cwd: str, environ: Mapping[str, str], umask: int) -> Kernel:
        """Start a kernel and wait until it is ready. Cancelling ends it. Raises KernelError, OSError."""
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
        """Describes the end for the model. Only available once it has ended."""
        return "it did not obey an interrupt, and was killed" if self._disobeyed else self._process.ended.result()

    async def ended(self) -> None:
        """Wait for the end of its process."""
        await asyncio.wait({self._process.ended})

    @property
    def cwd(self) -> str:
        """The kernel's current folder; empty if unknown."""
        return self._process.cwd

    @property
    def dropped(self) -> int:
        """How many messages were not signed by the kernel."""
        return self._channels.dropped

    async def run(self, code: str, cell: Cell, emit: Emit, timeout_s: float) -> End:
        """Execute a cell; live bytes go to `emit`. Cancelling, or an exception of `emit`, interrupts the cell."""
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
        """Execute code without showing its output. Returns the error, or an empty string.

        Late output of earlier cells goes to `cell`.
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
        """End the kernel and its child processes. May be called twice."""
        self._channels.close()
        await self._process.end()

    async def _follow(self, running: asyncio.Task[Message], cell: Cell, emit: Emit, ends_at: float) -> End:
        """Forward live bytes until the cell has ended or its time is over."""
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
        """Interrupt the request, and kill the kernel if it does not stop within OBEYS_WITHIN_S."""
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


_TAKE = """
import os, sys
names, left = {names!r}, b""
pipe = os.open({path!r}, os.O_RDONLY)
while left.count(b"\\0") < len(names):
    left += os.read(pipe, 65536)
os.close(pipe)
sys._handloom_lent = [name for name in names if name not in os.environ]
for name, value in zip(names, left.split(b"\\0")):
    if name in sys._handloom_lent:
        os.environ[name] = os.fsdecode(value)
"""
_TAKE_BACK = """
import os, sys
for name in sys.__dict__.pop("_handloom_lent", ()):
    os.environ.pop(name, None)
"""


@asynccontextmanager
async def secrets_in_environment(kernel: Kernel, cell: Cell) -> AsyncIterator[None]:
    """Put the secrets lent to this task into the kernel's environment, and always remove them again."""
    if not (values := lent()):
        yield
        return
    handover = SecretHandover(values)
    try:
        await kernel.ask(_in_namespace(_TAKE.format(names=handover.names, path=handover.path)), cell)
        handover.close()
        yield
    finally:
        handover.close()
        if not kernel.has_ended:
            await kernel.ask(_in_namespace(_TAKE_BACK), cell)


def _in_namespace(code: str) -> str:
    """Wrap code so that it runs in a namespace of its own."""
    return f"exec({code!r}, {{}})"
