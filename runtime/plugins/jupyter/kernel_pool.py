"""KernelPool: the current kernel, and a warm spare that replaces it when it dies.

The spare is started after the first cell, because many sessions never need a kernel, and it costs the memory of an idle
one. Every kernel runs the same preparation code before it is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from itertools import count

from runtime.plugins.base import PluginContext
from runtime.plugins.jupyter.kernel import Kernel
from runtime.plugins.jupyter.kernel_process import KernelError

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a kernel is started, because each may be killed before it is used."""


class KernelPool:
    """Provides a running kernel. Belongs to one event loop."""

    def __init__(self, context: PluginContext, preparations: Sequence[str]) -> None:
        self._context = context
        self._preparations = preparations
        self._numbers = count(1)
        self._next: asyncio.Task[Kernel] | None = None
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
            why = self.current.how_it_ended
            await self.current.end()
        self.current = await self._fresh()
        return self.current, why

    async def give_up(self) -> None:
        """Drop the kernel in use, whose end was reported, and start another."""
        if self.current is not None:
            await self.current.end()
            self.current = None
        self.keep_a_spare()

    def keep_a_spare(self) -> None:
        """Start a spare kernel in the background. Errors appear when it is needed."""
        if self._next is None and not self._is_closed:
            self._begin()

    async def spare_is_ready(self) -> None:
        """Wait until the spare is ready. Raises KernelError, OSError."""
        if self._next is not None:
            await asyncio.shield(self._next)

    async def aclose(self) -> None:
        """End all kernels. None is started afterwards."""
        self._is_closed = True
        upcoming, self._next = self._next, None
        if upcoming is not None:
            upcoming.cancel()
            with contextlib.suppress(asyncio.CancelledError, KernelError, OSError):
                await (await upcoming).end()
        if self.current is not None:
            await self.current.end()

    async def _fresh(self) -> Kernel:
        """Return the spare, or a new kernel if the spare has ended."""
        error: KernelError | None = None
        for _ in range(ATTEMPTS):
            if self._is_closed:
                raise KernelError("the server is shutting down")
            upcoming = self._next or self._begin()
            try:
                kernel = await asyncio.shield(upcoming)
            except KernelError as failed:
                self._next, error = None, failed
            except OSError:
                self._next = None
                raise
            else:
                self._next = None
                if not kernel.has_ended:
                    return kernel
                error = KernelError(kernel.how_it_ended)
                await kernel.end()
        assert error is not None
        raise error

    def _begin(self) -> asyncio.Task[Kernel]:
        self._next = asyncio.create_task(self._start(), name="start of a kernel")
        return self._next

    async def _start(self) -> Kernel:
        context = self._context
        kernel = await Kernel.start(
            context.folder / f"k{next(self._numbers)}", cwd=context.cwd(), environ=context.environ, umask=context.umask
        )
        try:
            for code in self._preparations:
                if went_wrong := await kernel.ask(code):
                    log.warning("a kernel could not be prepared: %s", went_wrong)
        except BaseException:
            await kernel.end()
            raise
        return kernel
