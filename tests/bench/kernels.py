"""Cells: through the plugin, beside jupyter_client alone; kernels from nothing, and from the spare; nothing lost."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from jupyter_client.manager import AsyncKernelManager

from core.events import Frame, IPythonRunCellAction, IPythonRunCellObservation
from runtime.plugins.base import PluginContext
from runtime.plugins.jupyter.plugin import JupyterPlugin
from runtime.server.shell import Environment
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.size import sized

ROUNDS, IN_A_ROW = sized(20, 2), sized(10, 2)
STARTS = sized(7, 1)
CELLS_UNDER_LOAD = sized(1000, 10)
LOADS = 2
"""Processes that only count, one for each processor."""


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with folder() as place:
        return [await _cells(place), await _starts(place), await _replacements(place), await _under_load(place)]


async def _cells(place: Path) -> Figure:
    manager = AsyncKernelManager(transport="ipc", ip=str(place / "bare"))
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=60)
    plugin = _plugin(place, "cells")
    await plugin.start()
    await _cell(plugin, "1+1")
    await plugin.pool.spare_is_ready()  # whose start takes a processor
    ours, bare = [], []
    try:
        for _ in range(ROUNDS):
            for _ in range(IN_A_ROW):
                started_at = perf_counter()
                assert await _cell(plugin, "1+1") == "2"
                ours.append(milliseconds_since(started_at))
            for _ in range(IN_A_ROW):
                started_at = perf_counter()
                await client.execute_interactive("1+1", store_history=False, output_hook=lambda message: None)
                bare.append(milliseconds_since(started_at))
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)
        await plugin.aclose()
    limit = Limit("jupyter_client's execute_interactive", bare)
    return Figure("cell 1+1, through the plugin", "ms", ours, limit, [Target(1.2, "ratio")])


async def _starts(place: Path) -> Figure:
    taken = []
    for number in range(STARTS):
        plugin = _plugin(place, f"start-{number}")
        started_at = perf_counter()
        await plugin.start()
        taken.append(milliseconds_since(started_at))
        await plugin.aclose()
    return Figure("kernel, start to ready", "ms", taken, targets=[Target(800)])


async def _replacements(place: Path) -> Figure:
    """From the death of a kernel to the answer of the next cell, with a spare."""
    plugin, taken = _plugin(place, "spare"), []
    await plugin.start()
    try:
        for _ in range(STARTS):
            await _cell(plugin, "1")
            await plugin.pool.spare_is_ready()
            kernel = plugin.pool.current
            assert kernel is not None
            os.kill(kernel.pid, signal.SIGKILL)
            started_at = perf_counter()
            await asyncio.wait({kernel.ended})
            assert "A fresh one takes its place" in await _cell(plugin, "1")
            taken.append(milliseconds_since(started_at))
    finally:
        await plugin.aclose()
    return Figure("kernel killed, until the next cell's answer", "ms", taken, targets=[Target(50)])


async def _under_load(place: Path) -> Figure:
    """Cells with incomplete output, in per mille."""
    plugin, lost = _plugin(place, "load"), 0
    await plugin.start()
    try:
        with _load():
            for number in range(CELLS_UNDER_LOAD):
                code = f"print({number}); import os; os.write(1, b'raw {number}\\n'); {number} + 1"
                lost += await _cell(plugin, code) != f"{number}\nraw {number}\n{number + 1}"
    finally:
        await plugin.aclose()
    return Figure(f"cells of {CELLS_UNDER_LOAD} under load with lost output", "", [lost], targets=[Target(0, "max")])


def _plugin(place: Path, name: str) -> JupyterPlugin:
    (place / name).mkdir()
    return JupyterPlugin(PluginContext(str(place), place / name, lambda: str(place), Environment(os.environ)))


async def _cell(plugin: JupyterPlugin, code: str) -> str:
    observation = await plugin.carry_out(IPythonRunCellAction(code=code, include_extra=False), 1, _discard)
    assert isinstance(observation, IPythonRunCellObservation)
    return observation.content


async def _discard(frame: Frame) -> None:
    """For figures of the plugin alone."""


@contextmanager
def _load() -> Iterator[None]:
    busy = [multiprocessing.Process(target=_count, daemon=True) for _ in range(LOADS)]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


def _count() -> None:
    while True:
        pass
