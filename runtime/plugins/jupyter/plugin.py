"""JupyterPlugin: runs one cell at a time and makes its observation.

Texts and rules are those of OpenHands V0 (`openhands/runtime/action_execution_server.py`, `run_ipython`): the kernel
follows the shell into another folder, and the lines about folder and interpreter come last. The lines about the loss of
a kernel are an addition of Handloom.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from aiohttp import web

from core.events import ErrorObservation, IPythonRunCellAction, IPythonRunCellObservation, Observation
from runtime.plugins.base import PluginContext
from runtime.plugins.jupyter.cell_output import Cell
from runtime.plugins.jupyter.kernel import End, Kernel, secrets_in_environment
from runtime.plugins.jupyter.kernel_pool import KernelPool
from runtime.plugins.jupyter.kernel_process import KernelError
from runtime.server.action_executor import Emit, Table

DEFAULT_TIMEOUT_S = 120.0
"""V0's default for an action without a timeout."""
FRESH = "A fresh one takes its place; the variables, functions and imports of the old one are gone."
LOST_BEFORE = "[The Python kernel had ended since the cell before: {why}. " + FRESH + "]\n"
LOST = "[The Python kernel ended while this cell ran: {why}. " + FRESH + "]"
NONE_TO_HAVE = "There is no Python kernel: {why}. Do it with a command, or try again."


class JupyterPlugin:
    """Carries out IPythonRunCellAction."""

    routes: Sequence[web.RouteDef] = ()

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._preparations: list[str] = []
        self._pool = KernelPool(context, self._preparations)
        self._turn = asyncio.Lock()

    @property
    def table(self) -> Table:
        return {IPythonRunCellAction: self.carry_out}

    @property
    def kernel(self) -> Kernel | None:
        """The kernel in use, which may have ended."""
        return self._pool.current

    async def spare_is_ready(self) -> None:
        """Wait until the spare kernel is ready, which exists after the first cell. Raises KernelError, OSError."""
        await self._pool.spare_is_ready()

    def prepare(self, code: str) -> None:
        """Run this code in every kernel that is started from now on, before it is used."""
        self._preparations.append(code)

    async def start(self) -> None:
        """Start a kernel and wait until it is ready. Raises KernelError, OSError."""
        async with self._turn:
            await self._pool.kernel()

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def carry_out(self, action: IPythonRunCellAction, action_id: int, emit: Emit) -> Observation:
        """Run a cell. Cancelling interrupts it, and ends the kernel if that does not help."""
        async with self._turn:
            try:
                kernel, why = await self._pool.kernel()
            except (KernelError, OSError) as error:
                return ErrorObservation(content=NONE_TO_HAVE.format(why=error))
            lost_before = LOST_BEFORE.format(why=why) if why else ""
            await self._context.outputs.make_room()
            cell = Cell(action_id, self._context.outputs)
            try:
                notes = await self._run(kernel, cell, action, emit)
            finally:
                cell.close()
            self._pool.keep_a_spare()
            content = lost_before + cell.content(*notes)
            if action.include_extra:
                content += f"\n[Jupyter current working directory: {kernel.cwd or self._context.cwd()}]"
                content += f"\n[Jupyter Python interpreter: {sys.executable}]"
            return IPythonRunCellObservation(content=content, code=action.code, image_urls=cell.image_urls or None)

    async def _run(self, kernel: Kernel, cell: Cell, action: IPythonRunCellAction, emit: Emit) -> list[str]:
        """Run a cell in a running kernel. Returns lines to add to its output."""
        await self._follow_shell(kernel, cell)
        notes = await self._run_init_code(kernel, cell, action.kernel_init_code)
        timeout_s = DEFAULT_TIMEOUT_S if action.timeout is None else action.timeout
        async with secrets_in_environment(kernel, cell):
            end = await kernel.run(action.code, cell, emit, timeout_s)
        if end is End.TIMEOUT:
            notes.append(f"[Execution timed out ({timeout_s:g} seconds).]")
        if kernel.has_ended:
            notes.append(LOST.format(why=kernel.how_it_ended))
            await self._pool.give_up()
        return notes

    async def _follow_shell(self, kernel: Kernel, cell: Cell) -> None:
        """Change the kernel's folder if the shell has changed its folder."""
        folder = self._context.cwd()
        if folder != kernel.entered:
            await kernel.ask(f"__import__('os').chdir({folder!r})", cell)
            kernel.entered = folder

    async def _run_init_code(self, kernel: Kernel, cell: Cell, code: str) -> list[str]:
        """Run the action's init code, once in each kernel. Returns a line for the model if it fails."""
        if not code or kernel.prepared_with == code:
            return []
        kernel.prepared_with = code
        went_wrong = await kernel.ask(code, cell)
        return [f"[The kernel's init code went wrong: {went_wrong}]"] if went_wrong else []
