"""One thing done many times, after which no more is open or running than after the first time.

Looked at are the descriptors of this process by their kind, its threads, the tasks of the running loop, and counters
that the caller names, which have to be exactly what they were. The thing is done once before the first look, because
caches, pools and connections that stay are made then. Threads of the loop's own pool do not count: it makes them as it
likes, up to a bound.
"""

from __future__ import annotations

import asyncio
import gc
import os
import stat
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

TIMES = 200
ENDING_S = 10
"""Time limit for what was started to end; only a failing test waits so long."""
Counters = Callable[[], Mapping[str, int]]


def nothing() -> Mapping[str, int]:
    """No counters."""
    return {}


def leaves_nothing(thing: Callable[[], object], *, times: int = TIMES, counters: Counters = nothing) -> None:
    """Do a thing many times, and assert that nothing of it is left."""
    thing()
    before, counted = _held(), counters()
    for _ in range(times):
        thing()
    gc.collect()
    assert (_held() - before, counters()) == (Counter(), counted)


async def leaves_nothing_running(
    thing: Callable[[], Awaitable[object]], *, times: int = TIMES, counters: Counters = nothing
) -> None:
    """As `leaves_nothing`, with tasks; what ends a moment later, such as the other side of a connection, is awaited."""
    await thing()
    before, counted = _held_by_loop(), counters()
    for _ in range(times):
        await thing()
    gc.collect()
    try:
        async with asyncio.timeout(ENDING_S):
            while _held_by_loop() - before or counters() != counted:
                await asyncio.sleep(0)
    except TimeoutError:
        assert (_held_by_loop() - before, counters()) == (Counter(), counted)


def _held_by_loop() -> Counter[str]:
    return _held() + Counter(f"task {task.get_name().rstrip('0123456789')}" for task in asyncio.all_tasks())


def _held() -> Counter[str]:
    found = Counter[str]()
    for name in os.listdir("/dev/fd"):
        try:
            found[f"descriptor of kind {stat.filemode(os.fstat(int(name)).st_mode)[0]}"] += 1
        except OSError:
            continue  # the descriptor with which the folder was listed
    found.update("thread" for thread in threading.enumerate() if not thread.name.startswith("asyncio_"))
    return found
