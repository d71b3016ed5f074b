"""10,000 events of a kilobyte at once: all durable, all seen by a subscriber."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter

from core.events import Envelope, Event
from core.store.database import sqlite3
from core.stream import EventStream, EventStreamSubscriber
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import BARE_INSERT, BARE_PRAGMAS, BARE_TABLE, USER, drafts, folder, opened, stored
from tests.bench.size import sized

EVENTS, ROUNDS, BATCH = sized(10_000, 200), sized(7, 1), sized(1000, 50)
TARGET = [Target(30_000)]


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    bare, together, singly = [], [], []
    for _ in range(ROUNDS):
        with folder() as place:
            bare.append(_bare(place / "bare.db"))
            async with opened(place) as stream:
                together.append(await _append_all(stream))
            async with opened(place / "singly") as stream:
                singly.append(await _gather(stream))
    limit = Limit(f"executemany, {BATCH} a transaction", bare)
    return [
        Figure("burst, append_all of 1,000 each", "events/s", together, limit, TARGET),
        Figure("burst, single appends at once", "events/s", singly, limit, TARGET),
    ]


def _bare(path: Path) -> float:
    """Ready-made texts into a bare table."""
    rows = [(stored(draft.event),) for draft in drafts(EVENTS)]
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (*BARE_PRAGMAS, BARE_TABLE):
        connection.execute(statement)
    started_at = perf_counter()
    for at in range(0, EVENTS, BATCH):
        connection.execute("BEGIN")
        connection.executemany(BARE_INSERT, rows[at : at + BATCH])
        connection.execute("COMMIT")
    rate = EVENTS / (perf_counter() - started_at)
    connection.close()
    return rate


async def _append_all(stream: EventStream) -> float:
    waiting = drafts(EVENTS)
    seen = _subscribe(stream)
    started_at = perf_counter()
    await asyncio.gather(*(stream.append_all(waiting[at : at + BATCH]) for at in range(0, EVENTS, BATCH)))
    return await _rate(stream, seen, started_at)


async def _gather(stream: EventStream) -> float:
    events: list[Event] = [draft.event for draft in drafts(EVENTS)]
    seen = _subscribe(stream)
    started_at = perf_counter()
    await asyncio.gather(*(stream.append(event, USER) for event in events))
    return await _rate(stream, seen, started_at)


def _subscribe(stream: EventStream) -> list[Envelope]:
    seen: list[Envelope] = []

    async def see(envelope: Envelope) -> None:
        seen.append(envelope)

    stream.subscribe(EventStreamSubscriber.TEST, see, "bench")
    return seen


async def _rate(stream: EventStream, seen: list[Envelope], started_at: float) -> float:
    await stream.settle()
    rate = EVENTS / (perf_counter() - started_at)
    assert [envelope.id for envelope in seen] == list(range(EVENTS))
    return rate
