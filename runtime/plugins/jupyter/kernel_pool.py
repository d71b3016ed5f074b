"""The kernel that is in use, and a warm one to take its place.

The spare is started when a cell has been run, since before that nobody may ever need a kernel; it costs the memory of
an idle one. Every kernel is prepared in the same way before anybody gets it.
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
"""To have a kernel: each may be killed before it is used."""


class KernelPool:
    """Gives a kernel that lives. Belongs to one loop."""

    def __init__(self, context: PluginContext, preparations: Sequence[str]) -> None:
        self._context = context
        self._preparations = preparations
        self._numbers = count(1)
        self._next: asyncio.Task[Kernel] | None = None
        self._is_closed = False
        self.current: Kernel | None = None
        """The one that is in use, which may have ended."""

    async def kernel(self) -> tuple[Kernel, str]:
        """The kernel in use, or another one, and why the one before is not it any more.

        Cancelling leaves a start under way, for the next who asks. Raises KernelError, OSError.
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
        """The one in use has ended, and that was said; have another one soon."""
        if self.current is not None:
            await self.current.end()
            self.current = None
        self.keep_a_spare()

    def keep_a_spare(self) -> None:
        """Have a warm one from soon on. Never waits. One that cannot be had is left to who needs it."""
        if self._next is None and not self._is_closed:
            self._begin()

    async def spare_is_ready(self) -> None:
        """Wait for the spare. Raises KernelError, OSError."""
        if self._next is not None:
            await asyncio.shield(self._next)

    async def aclose(self) -> None:
        """End all of them, for good."""
        self._is_closed = True
        upcoming, self._next = self._next, None
        if upcoming is not None:
            upcoming.cancel()
            with contextlib.suppress(asyncio.CancelledError, KernelError, OSError):
                await (await upcoming).end()
        if self.current is not None:
            await self.current.end()

    async def _fresh(self) -> Kernel:
        """The spare, or a new one where that is none."""
        error: KernelError | None = None
        for _ in range(ATTEMPTS):
            if self._is_closed:
                raise KernelError("the server ends")
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
