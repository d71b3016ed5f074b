"""The pulse of a sandbox: whether it still answers, asked again and again beside the work that it does for us.

A link whose packets are dropped, a server that hangs and a container that is paused look like work that takes long:
nothing comes, and nothing breaks. Whoever waits for such work waits for it under a pulse. Knows neither wire nor
sandbox; what a beat is, and whom to ask why there is none, is the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EVERY_S = 2.0
SILENT_S = 9.0
"""A machine that swaps answers within seconds; a person waits for ten."""


class SilentError(Exception):
    """No beat came for too long; the text says for how long, and why where somebody knows."""


async def pulse(
    beat: Callable[[], Awaitable[bool]],
    *,
    every_s: float = EVERY_S,
    silent_s: float = SILENT_S,
    why: Callable[[], Awaitable[str]] | None = None,
) -> None:
    """Ask for a beat every `every_s` seconds until there was none for `silent_s`. Raises SilentError; never returns.

    A beat that answers False, or not within half of `silent_s`, was none: it is asked for again, because it may have
    been sent into a connection that is dead. `why` is asked once, at the end, for a sentence without its full stop.
    """
    loop = asyncio.get_running_loop()
    felt_at = loop.time()
    while True:
        await asyncio.sleep(every_s)
        try:
            async with asyncio.timeout_at(min(loop.time() + silent_s / 2, felt_at + silent_s)):
                if await beat():
                    felt_at = loop.time()
        except TimeoutError:
            pass
        if loop.time() >= felt_at + silent_s:
            reason = await why() if why is not None else ""
            raise SilentError(reason or f"it has not answered for {silent_s:g} s")


async def under_pulse(work: Coroutine[Any, Any, T], watch: Coroutine[Any, Any, None]) -> T:
    """What the work gives, unless the watch, such as `pulse`, raises first. Cancelling ends both at once."""
    tasks = (asyncio.create_task(work), asyncio.create_task(watch))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            tasks[1].result()
        return await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
