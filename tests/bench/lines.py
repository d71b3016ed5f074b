"""100,000 lines of output: every one of them reaches the screen's side while the command runs."""

from __future__ import annotations

import asyncio
from time import perf_counter

from core.events import CmdRunAction, Frame, TerminalOutput
from runtime.local.local_runtime import LocalRuntime
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.shell import BareShell
from tests.bench.size import sized

ROUNDS, LINES = sized(15, 1), sized(100_000, 1_000)
COMMAND = f"seq 1 {LINES}"


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    ours, least = [], []
    with folder() as place, BareShell() as bare:
        runtime = LocalRuntime(place)
        await runtime.start()
        try:
            for _ in range(ROUNDS):
                ours.append(await _ours(runtime))
                started_at = perf_counter()
                output = bare.run(COMMAND)
                least.append(milliseconds_since(started_at))
                assert output.count(b"\r\n") == LINES
        finally:
            await runtime.aclose()
    limit = Limit("raw bash on a PTY", least)
    return [Figure(f"{LINES:,} lines, all of them live", "ms", ours, limit, [Target(4, "ratio"), Target(60)])]


async def _ours(runtime: LocalRuntime) -> float:
    frames: list[Frame] = []
    started_at = perf_counter()
    await runtime.execute(CmdRunAction(command=COMMAND), 1, frames.append)
    taken = milliseconds_since(started_at)
    shown = b"".join(frame.data for frame in frames if isinstance(frame, TerminalOutput))
    assert shown.count(b"\n") == LINES + 1  # the line above them is the command
    return taken
