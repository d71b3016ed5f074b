"""1 GB of output: shown live, kept whole, in a server that does not grow; and how soon a question is noticed."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from core.events import CmdOutputObservation, CmdRunAction, Frame, Status
from runtime.local.local_runtime import LocalRuntime
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.shell import BareShell
from tests.bench.size import sized

SIZE_BYTES = sized(1_000_000_000, 2_000_000)
COMMAND = f"yes {'0123456789abcdef' * 4} | head -c {SIZE_BYTES}"
ROUNDS = sized(15, 2)


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with folder() as place:
        runtime = LocalRuntime(place)
        await runtime.start()
        try:
            waits = [await _until_it_is_told_that_it_waits(runtime) for _ in range(ROUNDS)]
            before_mb = _peak_mb(runtime)
            gaps, taken = await _a_gigabyte(runtime)
            grown_mb = _peak_mb(runtime) - before_mb
        finally:
            await runtime.aclose()
    return [
        Figure("`read x`, until the model is told", "ms", waits, targets=[Target(300)]),
        Figure(
            "1 GB of output, live and kept", "ms", [taken], Limit("raw bash on a PTY", [_raw()]), [Target(4, "ratio")]
        ),
        Figure("1 GB of output, between two frames", "ms", gaps, targets=[Target(50, "p95")]),
        Figure("1 GB of output, growth of the server", "MB", [grown_mb], targets=[Target(50)]),
    ]


async def _a_gigabyte(runtime: LocalRuntime) -> tuple[list[float], float]:
    """Milliseconds between frames, and of all."""
    at = [perf_counter()]

    def on_frame(frame: Frame) -> None:
        at.append(perf_counter())

    observation = await runtime.execute(CmdRunAction(command=COMMAND, timeout=600), 1, on_frame)
    taken = milliseconds_since(at[0])
    assert isinstance(observation, CmdOutputObservation)
    assert f"{SIZE_BYTES} bytes" in observation.metadata.suffix
    return [(after - before) * 1000 for before, after in pairwise(at)], taken


async def _until_it_is_told_that_it_waits(runtime: LocalRuntime) -> float:
    frames: list[Frame] = []
    started_at = perf_counter()
    await runtime.execute(CmdRunAction(command="read x"), 1, frames.append)
    taken = milliseconds_since(started_at)
    assert any(isinstance(frame, Status) for frame in frames)
    await runtime.execute(CmdRunAction(command="\n", is_input=True), 2, frames.append)
    return taken


def _raw() -> float:
    with BareShell() as bare:
        started_at = perf_counter()
        bare.skip(COMMAND)
        return milliseconds_since(started_at)


def _peak_mb(runtime: LocalRuntime) -> float:
    """The most memory that the server ever had."""
    status = Path(f"/proc/{runtime.server_pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
