"""A command through the action server: real client, real socket, real bash."""

from __future__ import annotations

import asyncio
from time import perf_counter

from core.events import CmdOutputObservation, CmdRunAction, Frame
from runtime.local.local_runtime import LocalRuntime
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.shell import BareShell
from tests.bench.size import sized

ROUNDS, IN_A_ROW = sized(20, 2), sized(15, 2)
COMMANDS = {"true": "", "echo hi": "hi"}


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    figures = []
    with folder() as place, BareShell() as bare:
        runtime = LocalRuntime(place)
        await runtime.start()
        try:
            for command, printed in COMMANDS.items():
                ours, least = [], []
                for _ in range(ROUNDS):
                    ours += [await _ours(runtime, command, printed) for _ in range(IN_A_ROW)]
                    least += [_bare(bare, command) for _ in range(IN_A_ROW)]
                limit = Limit("raw bash on a PTY", least)
                figures.append(Figure(f"{command}, through the server", "ms", ours, limit, [Target(2)]))
        finally:
            await runtime.aclose()
    return figures


async def _ours(runtime: LocalRuntime, command: str, printed: str) -> float:
    frames: list[Frame] = []
    started_at = perf_counter()
    observation = await runtime.execute(CmdRunAction(command=command), 1, frames.append)
    taken = milliseconds_since(started_at)
    assert isinstance(observation, CmdOutputObservation)
    assert (observation.content, observation.exit_code) == (printed, 0)
    return taken


def _bare(shell: BareShell, command: str) -> float:
    started_at = perf_counter()
    shell.run(command)
    return milliseconds_since(started_at)
