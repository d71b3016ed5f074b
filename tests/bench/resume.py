"""A conversation of 100,000 events is opened again: how long that takes, and how it holds up the screen meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from core.events import CmdOutputObservation, CmdRunAction
from core.manager import ConversationManager
from core.sqlite import aiosqlite
from core.store import EventStore
from core.writer import Draft
from runtime.local import LocalRuntime
from tests.bench.conversation import FREE
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import AGENT, folder, milliseconds_since
from tests.bench.stalls import Beat, idle_beats
from tests.doubles import FINISH, write_script

EVENTS, EVENTS_AT_ONCE, ROUNDS = 100_000, 1_000, 3


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    opened, bare = [], []
    beat = Beat()
    with folder() as place:
        home = place / "home"
        await _write(home, str(place), write_script(place, [FINISH]))
        for _ in range(ROUNDS):
            bare.append(await _bare(home))
            async with ConversationManager(home, FREE, make_runtime=LocalRuntime, environ={}) as manager:
                beat.start()
                started_at = perf_counter()
                session = await manager.open("c")
                opened.append(milliseconds_since(started_at))
                beat.stop()
                assert session.stream.latest_id == EVENTS - 1
    least = Limit("bare select, json.loads", bare)
    idle = Limit("the same on an idle loop", await idle_beats())
    return [
        Figure(f"conversation of {EVENTS:,} events opened", "ms", opened, least),
        Figure("loop kept waiting meanwhile", "ms", beat.late, idle, [Target(50, "max")]),
    ]


async def _write(home: Path, workspace: str, model: str) -> None:
    """Commands and what they printed, one after the other."""
    async with EventStore(home) as store:
        lease = await store.create_conversation("c", title="long", workspace=workspace, model=model)
        for first in range(0, EVENTS, EVENTS_AT_ONCE):
            await store.append(lease, list(_steps(first, first + EVENTS_AT_ONCE)))


def _steps(first: int, end: int) -> Iterator[Draft]:
    """Actions, each caused by the observation before it, and what came of them."""
    for event_id in range(first, end, 2):
        command = f"make step-{event_id}"
        cause = event_id - 1 if event_id else None
        yield Draft(CmdRunAction(command=command, thought="Now the next one. " * 10), AGENT, cause)
        yield Draft(CmdOutputObservation(command=command, content="a line of output\n" * 30), AGENT, event_id)


async def _bare(home: Path) -> float:
    started_at = perf_counter()
    async with aiosqlite.connect(home / "handloom.db") as database:
        for row in await database.execute_fetchall("SELECT body FROM events"):
            json.loads(row[0])
    return milliseconds_since(started_at)
