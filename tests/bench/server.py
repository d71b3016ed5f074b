"""The action server from nothing to ready: imports, a shell that answers, a socket that listens."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from time import perf_counter

from runtime.local.local_runtime import LocalRuntime
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.size import sized

ROUNDS = sized(11, 1)


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    ours, least = [], []
    with folder() as place:
        await _start(LocalRuntime(place))  # compiles what is not compiled yet
        for _ in range(ROUNDS):
            ours.append(await _start(LocalRuntime(place)))
            started_at = perf_counter()
            subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
            least.append(milliseconds_since(started_at))
    return [Figure("action server, start to ready", "ms", ours, Limit("python -I -c pass", least), [Target(300)])]


async def _start(runtime: LocalRuntime) -> float:
    started_at = perf_counter()
    await runtime.start()
    taken = milliseconds_since(started_at)
    await runtime.aclose()
    return taken
