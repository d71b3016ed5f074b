"""A checkpoint of a workspace of 10,000 files: beside asking the system for the state of each of them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from time import perf_counter

from runtime.checkpoints.checkpoint_store import WorkspaceCheckpoints
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.size import sized

FILES, IN_A_FOLDER, ROUNDS = sized(10_000, 800), 100, sized(15, 2)
TEXT = "a line of some length, as they are\n" * 60


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with folder() as place:
        workspace = place / "workspace"
        for number in range(FILES):
            file = workspace / f"folder{number // IN_A_FOLDER}" / f"file{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{number}\n{TEXT}")
        store = WorkspaceCheckpoints(place / "home", str(workspace), "bench")
        first = [await _taken(store)]
        at_least = [_looked_at(workspace) for _ in range(ROUNDS)]
        await _taken(store)  # what was written in the same instant as the index is looked at once more
        unchanged = [await _taken(store) for _ in range(ROUNDS)]
        one, back = [], []
        for number in range(ROUNDS):
            (workspace / "folder7" / "file777.py").write_text(f"changed {number}\n")
            one.append(await _taken(store))
        checkpoints = await store.list()
        for number in range(ROUNDS):
            started_at = perf_counter()
            await store.restore(checkpoints[number % 2].id)
            back.append(milliseconds_since(started_at))
    limit = Limit("stat of each file", at_least)
    what = f"{FILES:,} files"
    return [
        Figure(f"checkpoint of {what}, nothing changed", "ms", unchanged, limit, [Target(100)]),
        Figure(f"checkpoint of {what}, one changed", "ms", one, limit, [Target(250)]),
        Figure(f"first checkpoint of {what}", "ms", first, limit),
        Figure(f"one of {what} restored", "ms", back, limit),
    ]


async def _taken(store: WorkspaceCheckpoints) -> float:
    started_at = perf_counter()
    await store.take("bench")
    return milliseconds_since(started_at)


def _looked_at(workspace: Path) -> float:
    started_at = perf_counter()
    for above, _, names in os.walk(workspace):
        for name in names:
            os.lstat(f"{above}/{name}")
    return milliseconds_since(started_at)
