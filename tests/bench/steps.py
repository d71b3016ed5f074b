"""What Handloom adds to a step of the agent: a model that answers at once, `true` in the real shell, two events."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from core.events import CmdRunAction, Envelope
from core.stream import EventStreamSubscriber
from tests.bench.conversation import session_of
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import BARE_INSERT, bare_database, folder, message, milliseconds_since, stored
from tests.bench.shell import BareShell
from tests.bench.size import sized

STEPS = sized(200, 10)


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with folder() as place:
        limit = Limit("2 bare appends, true in raw bash", await _bare(place))
        ours = await _steps(place)
    return [
        Figure("agent step, a model that answers at once", "ms", ours[:50], limit, [Target(25), Target(25, "p95")]),
        Figure("the same, after 150 steps", "ms", ours[-50:], limit, [Target(25)]),
    ]


async def _bare(place: Path) -> list[float]:
    """One step's trips to the disk and to a shell, and nothing else."""
    taken = []
    body = stored(message())
    with BareShell() as shell:
        async with bare_database(place / "bare.db") as database:
            for _ in range(STEPS):
                started_at = perf_counter()
                await database.execute(BARE_INSERT, (body,))
                shell.run("true")
                await database.execute(BARE_INSERT, (body,))
                taken.append(milliseconds_since(started_at))
    return taken


async def _steps(place: Path) -> list[float]:
    """The times between one action and the next."""
    acted_at: list[float] = []

    async def note(envelope: Envelope) -> None:
        acted_at.append(perf_counter())

    async with session_of(place, STEPS) as session:
        session.stream.subscribe(EventStreamSubscriber.TEST, note, "bench", [CmdRunAction])
        await session.send("go")
        await session.settled()
    assert len(acted_at) == STEPS
    return [(after - before) * 1000 for before, after in pairwise(acted_at)]
