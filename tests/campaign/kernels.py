"""Kill kernels (-9), or let them end themselves, at random points, through a real server.

One server is used for CHUNK trials. Each trial is one death: of an idle kernel, in a cell, at its beginning or end, or
of a kernel that is starting; sometimes the spare dies too. Then a cell must work, the death must have been reported
once, and after the server's end no process may be left.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from core.events import Frame, IPythonRunCellAction, IPythonRunCellObservation, TerminalOutput
from runtime.local.local_runtime import LocalRuntime
from runtime.plugins.jupyter.plugin import FRESH
from runtime.server.processes import descendants
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within

PROMISE = "a kernel's death is told in one observation, and the next cell works within 10 s"
FULL = 1000
CHUNK = 20
"""Trials with one server."""
WORKS_WITHIN_S = 10.0
ENDS_WITHIN_S = 2.0

LONG = (
    "import time; time.sleep(100)",
    "while True: pass",
    "sum(range(10**12))",
    "while True: print('x' * 100)",
    "while True: display(1)",
    "import subprocess; subprocess.run(['sleep', '1000'])",
    "import subprocess; p = subprocess.Popen(['sleep', '1001']); p.wait()",
    "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(100)",
    "import threading; [threading.Thread(target=threading.Event().wait).start() for _ in range(20)][0].join()",
)
DEADLY = (
    "import os; os.kill(os.getpid(), 9)",
    "import os; os._exit(3)",
    "import os; os.abort()",
    "import ctypes; ctypes.string_at(0)",
    "import os; os.killpg(0, 9)",
)


def run(count: int, seed: int) -> Result:
    """So many deaths of kernels, with seeds in a row."""
    return run_trials("kernel_deaths", PROMISE, _deaths, range(seed, seed + count, CHUNK), seed=seed, weight=CHUNK)


def _deaths(first: int) -> Facts:
    facts = Facts()

    async def chunk(folder: str) -> None:
        runtime = LocalRuntime(folder, options=("--plugins", "jupyter"))
        await runtime.start()
        try:
            for seed in range(first, first + CHUNK):
                await _death(_Kernels(runtime), random.Random(seed), f"HANDLOOM_SEED={seed}", facts)
        finally:
            await runtime.aclose()

    with tempfile.TemporaryDirectory(prefix="handloom-kernels-") as folder:
        asyncio.run(chunk(folder))
        facts.peak("seconds until no process was left", nobody_is_left(within(ENDS_WITHIN_S)))
    return facts


async def _death(kernels: _Kernels, rng: random.Random, case: str, facts: Facts) -> None:
    pid = int(await kernels.says("__import__('os').getpid()"))
    point = rng.choice((_between, _by_itself, _in_the_middle, _around_a_cell, _while_one_starts))
    said = await point(kernels, pid, rng)
    deaths = 2 if point is _while_one_starts else 1
    if said.count(FRESH) < deaths:  # a death may be reported by the next cell; that of an unused kernel is not reported
        said += await kernels.says("0")
    case = f"{case}: {point.__name__}: {said[-500:]!r}"
    check(1 <= said.count(FRESH) <= deaths, f"{case}: it was told {said.count(FRESH)} times")
    began = time.monotonic()
    number = rng.randrange(10**9)
    answer = await kernels.says(f"print({number}); {number} + 1")
    taken = time.monotonic() - began
    check(answer == f"{number}\n{number + 1}", f"{case}, then {answer!r}")
    check(taken < within(WORKS_WITHIN_S), f"{case}: a cell worked after {taken:.1f} s")
    facts.counts[point.__name__.strip("_").replace("_", " ")] += 1
    facts.peak("seconds until a cell worked again", taken)


async def _between(kernels: _Kernels, pid: int, rng: random.Random) -> str:
    """While nothing runs; sometimes the spare as well."""
    _kill(*({pid} | (kernels.pids() if rng.random() < 0.5 else set())))
    await asyncio.sleep(rng.choice((0, rng.random() * 0.05)))
    return ""


async def _by_itself(kernels: _Kernels, pid: int, rng: random.Random) -> str:
    """Deaths by what the cell does."""
    return await kernels.says(rng.choice(DEADLY))


async def _in_the_middle(kernels: _Kernels, pid: int, rng: random.Random) -> str:
    """While a cell runs, whatever it does."""
    begun = asyncio.Event()
    running = asyncio.create_task(kernels.says(f"print('begun', flush=True)\n{rng.choice(LONG)}", begun))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    await asyncio.sleep(rng.random() * 0.05)
    _kill(*({pid} | (kernels.pids() if rng.random() < 0.3 else set())))
    return await running


async def _around_a_cell(kernels: _Kernels, pid: int, rng: random.Random) -> str:
    """When a cell begins or ends: this one tells it, or the next."""
    running = asyncio.create_task(kernels.says("1 + 1"))
    await asyncio.sleep(rng.random() * 0.015)
    _kill(pid)
    return await running


async def _while_one_starts(kernels: _Kernels, pid: int, rng: random.Random) -> str:
    """A spare that is about to replace a killed kernel."""
    _kill(*kernels.pids())
    running = asyncio.create_task(kernels.says("1 + 1"))
    await asyncio.sleep(rng.random() * 0.5)
    _kill(*kernels.pids())
    return await running


class _Kernels:
    """The kernels of one server."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime

    def pids(self) -> set[int]:
        assert self._runtime.server_pid is not None
        return {pid for pid in descendants(self._runtime.server_pid) if _is_kernel(pid)}

    async def says(self, code: str, begun: asyncio.Event | None = None) -> str:
        """The text of the one observation of a cell."""

        def on_frame(frame: Frame) -> None:
            if begun is not None and isinstance(frame, TerminalOutput):
                begun.set()

        action = IPythonRunCellAction(code=code, include_extra=False, timeout=60)
        observation = await self._runtime.execute(action, 1, on_frame)
        check(isinstance(observation, IPythonRunCellObservation), f"{code!r} gave {observation!r}")
        assert isinstance(observation, IPythonRunCellObservation)
        return observation.content


def _is_kernel(pid: int) -> bool:
    with suppress(OSError):
        return b"jupyter/kernel_program.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
