"""JupyterPlugin: runs one cell at a time and makes its observation. KernelPool: the current kernel and a warm spare.

The spare replaces a kernel that dies. It is started after the first cell, because many sessions never need a kernel,
and it costs the memory of an idle one. Every kernel runs the same preparation code before it is used.

Texts and rules are those of OpenHands V0 (`openhands/runtime/action_execution_server.py`, `run_ipython`): the kernel
follows the shell into another folder, and the lines about folder and interpreter come last. The lines about the loss of
a kernel are an addition of Handloom.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from aiohttp import web

from core.events import ErrorObservation, IPythonRunCellAction, IPythonRunCellObservation, Observation
from runtime.plugins.base import PluginContext
from runtime.plugins.jupyter.cell_output import Cell
from runtime.plugins.jupyter.kernel import End, Kernel, KernelError, secrets_in_environment
from runtime.server.action_executor import Emit, Table

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a kernel is started, because each may be killed before it is used."""


class KernelPool:
    """Provides a running kernel. Belongs to one event loop."""

    def __init__(self, context: PluginContext, preparations: Sequence[str]) -> None:
        self._context = context
        self._preparations = preparations
        self._numbers = count(1)
        self._spare: asyncio.Task[Kernel] | None = None
        self._is_closed = False
        self.current: Kernel | None = None
        """The kernel in use, which may have ended."""

    async def kernel(self) -> tuple[Kernel, str]:
        """Return a running kernel, and how the previous one ended if this is a new one.

        Cancelling does not cancel a start; the next caller gets that kernel. Raises KernelError, OSError.
        """
        why = ""
        if self.current is not None:
            if not self.current.has_ended:
                return self.current, ""
            why = self.current.end_reason
            await self.current.end()
        self.current = await self._start_or_take_spare()
        return self.current, why

    async def replace_current(self) -> None:
        """Drop the kernel in use, whose end was reported, and start another."""
        if self.current is not None:
            await self.current.end()
            self.current = None
        self.start_spare()

    def start_spare(self) -> None:
        """Start a spare kernel in the background unless there is one. Errors appear when it is needed."""
        if self._spare is None and not self._is_closed:
            self._start()

    async def spare_is_ready(self) -> None:
        """Wait until the spare is ready. Raises KernelError, OSError."""
        if self._spare is not None:
            await asyncio.shield(self._spare)

    async def aclose(self) -> None:
        """End all kernels. None is started afterwards."""
        self._is_closed = True
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.cancel()
            with suppress(asyncio.CancelledError, KernelError, OSError):
                await (await spare).end()
        if self.current is not None:
            await self.current.end()

    async def _start_or_take_spare(self) -> Kernel:
        error: KernelError | None = None
        for _ in range(ATTEMPTS):
            if self._is_closed:
                raise KernelError("the server is shutting down")
            spare = self._spare or self._start()
            try:
                kernel = await asyncio.shield(spare)
            except KernelError as failed:
                self._spare, error = None, failed
            except OSError:
                self._spare = None
                raise
            else:
                self._spare = None
                if not kernel.has_ended:
                    return kernel
                error = KernelError(kernel.end_reason)
                await kernel.end()
        assert error is not None
        raise error

    def _start(self) -> asyncio.Task[Kernel]:
        self._spare = asyncio.create_task(self._start_kernel(), name="start of a kernel")
        return self._spare

    async def _start_kernel(self) -> Kernel:
        context, folder = self._context, self._context.folder / f"k{next(self._numbers)}"
        kernel = Kernel(folder, cwd=context.cwd(), environment=context.environ, umask=context.umask)
        await kernel.start()
        try:
            for code in self._preparations:
                if error := await kernel.ask(code):
                    log.warning("a kernel could not be prepared: %s", error)
        except BaseException:
            await kernel.end()
            raise
        return kernel


DEFAULT_TIMEOUT_S = 120.0
"""V0's default for an action without a timeout."""
FRESH = "A fresh one takes its place; the variables, functions and imports of the old one are gone."
LOST_BEFORE = "[The Python kernel had ended since the cell before: {why}. " + FRESH + "]\n"
LOST = "[The Python kernel ended while this cell ran: {why}. " + FRESH + "]"
NO_KERNEL = "There is no Python kernel: {why}. Do it with a command, or try again."


class JupyterPlugin:
    """Carries out IPythonRunCellAction."""

    routes: Sequence[web.RouteDef] = ()

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._preparations: list[str] = []
        self.pool = KernelPool(context, self._preparations)
        self._lock = asyncio.Lock()

    @property
    def table(self) -> Table:
        return {IPythonRunCellAction: self.carry_out}

    def prepare(self, code: str) -> None:
        """Run this code in every kernel that is started from now on, before it is used."""
        self._preparations.append(code)

    async def start(self) -> None:
        """Start a kernel and wait until it is ready. Raises KernelError, OSError."""
        async with self._lock:
            await self.pool.kernel()

    async def aclose(self) -> None:
        await self.pool.aclose()

    async def carry_out(self, action: IPythonRunCellAction, action_id: int, emit: Emit) -> Observation:
        """Run a cell. Cancelling interrupts it, and ends the kernel if that does not help."""
        async with self._lock:
            try:
                kernel, why = await self.pool.kernel()
            except (KernelError, OSError) as error:
                return ErrorObservation(content=NO_KERNEL.format(why=error))
            lost_before = LOST_BEFORE.format(why=why) if why else ""
            await self._context.outputs.make_room()
            cell = Cell(action_id, self._context.outputs)
            try:
                notes = await self._run(kernel, cell, action, emit)
            finally:
                cell.close()
            self.pool.start_spare()
            content = lost_before + cell.content(*notes)
            if action.include_extra:
                content += f"\n[Jupyter current working directory: {kernel.cwd or self._context.cwd()}]"
                content += f"\n[Jupyter Python interpreter: {sys.executable}]"
            return IPythonRunCellObservation(
                content=content,
                code=action.code,
                image_urls=cell.image_urls or None,
                exception=cell.exception,
            )

    async def _run(self, kernel: Kernel, cell: Cell, action: IPythonRunCellAction, emit: Emit) -> list[str]:
        await self._follow_shell(kernel, cell)
        await kernel.follow_environment(cell)
        notes = await self._run_init_code(kernel, cell, action.kernel_init_code)
        timeout_s = DEFAULT_TIMEOUT_S if action.timeout is None else action.timeout
        async with secrets_in_environment(kernel, cell):
            end = await kernel.run(action.code, cell, emit, timeout_s)
        if end is End.TIMEOUT:
            notes.append(f"[Execution timed out ({timeout_s:g} seconds).]")
        if kernel.has_ended:
            notes.append(LOST.format(why=kernel.end_reason))
            await self.pool.replace_current()
        return notes

    async def _follow_shell(self, kernel: Kernel, cell: Cell) -> None:
        folder = self._context.cwd()
        if folder != kernel.shell_cwd:
            await kernel.ask(f"__import__('os').chdir({folder!r})", cell)
            kernel.shell_cwd = folder

    async def _run_init_code(self, kernel: Kernel, cell: Cell, code: str) -> list[str]:
        """Run the action's init code, once in each kernel. Returns a line for the model if it fails."""
        if not code or kernel.init_code == code:
            return []
        kernel.init_code = code
        error = await kernel.ask(code, cell)
        return [f"[The kernel's init code failed: {error}]"] if error else []
