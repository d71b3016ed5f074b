"""Check repeatedly whether a sandbox still answers while it works for us.

A dropped connection, a server that hangs and a paused container all look like work that takes long: nothing arrives and
nothing fails. This module knows neither the protocol nor the sandbox: the caller passes in what counts as an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EVERY_S = 2.0
SILENT_S = 9.0
"""A machine that swaps answers within seconds, and a user waits for ten."""


class UnresponsiveError(Exception):
    """No answer for too long; the text says for how long, and the reason if it is known."""


async def watch_health(
    beat: Callable[[], Awaitable[bool]],
    *,
    every_s: float = EVERY_S,
    silent_s: float = SILENT_S,
    why: Callable[[], Awaitable[str]] | None = None,
) -> None:
    """Call `beat` every `every_s` seconds until it has failed for `silent_s`, then raise UnresponsiveError. Never
    returns.

    A `beat` that returns False, or not within half of `silent_s`, has failed and is tried again, because the request
    may have gone into a dead connection. `why` is called once at the end and returns the reason as a sentence without a
    full stop.
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
            raise UnresponsiveError(reason or f"it has not answered for {silent_s:g} s")


async def with_health_check(work: Coroutine[Any, Any, T], watch: Coroutine[Any, Any, None]) -> T:
    """Return the result of `work`, unless `watch`, such as `watch_health`, raises first. Cancelling ends both at
    once.
    """
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
