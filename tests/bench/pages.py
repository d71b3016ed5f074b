"""A long conversation is opened: its next id, its last page, and all of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from time import perf_counter

from core.store.database import aiosqlite
from core.store.event_rows import unpack
from core.store.event_store import EventStore
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import drafts, folder, milliseconds_since, opened, stored
from tests.bench.size import sized

EVENTS, PAGE, WHOLE = sized(100_000, 1_000), 100, sized(10_000, 500)
OPENINGS, PAGES, READINGS = sized(10, 2), sized(50, 2), sized(5, 1)
SELECT = "SELECT body FROM events WHERE conversation = 1 ORDER BY id DESC LIMIT ?"


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    with folder() as place:
        async with opened(place) as stream:
            batch = drafts(1000)
            for _ in range(EVENTS // len(batch)):
                await stream.append_all(batch)
        size = Figure(f"disk for {EVENTS:,} events of 1 kB", "MB", [_bytes(place) / 1e6], _texts(), [Target(147)])
        return [size, await _opening(place), *await _reading(place)]


def _bytes(folder: Path) -> int:
    """The size of the closed database on disk."""
    return (folder / "handloom.db").stat().st_size


def _texts() -> Limit:
    texts = sum(len(stored(draft.event)) for draft in drafts(1000)) * EVENTS // 1000
    return Limit("their texts alone", [texts / 1e6])


async def _opening(home: Path) -> Figure:
    """A new process's way to its first page."""
    ours, bare = [], []
    for _ in range(OPENINGS):
        started_at = perf_counter()
        async with aiosqlite.connect(home / "handloom.db") as database:
            await database.execute_fetchall(SELECT, (PAGE,))
            bare.append(milliseconds_since(started_at))
        started_at = perf_counter()
        async with EventStore(home) as store:
            lease = await store.acquire("c")
            page = await store.read("c", limit=PAGE, newest=True)
            ours.append(milliseconds_since(started_at))
        assert lease.next_id == page[-1].id + 1 == EVENTS
    name = f"store opened, last page of {EVENTS:,} events"
    return Figure(name, "ms", ours, Limit("database opened, bare select", bare), [Target(50)])


async def _reading(home: Path) -> list[Figure]:
    """Pages in a store that is open."""
    last, bare_last, whole, bare_whole = [], [], [], []
    async with EventStore(home) as store, aiosqlite.connect(home / "handloom.db") as database:
        for _ in range(PAGES):
            started_at = perf_counter()
            await database.execute_fetchall(SELECT, (PAGE,))
            bare_last.append(milliseconds_since(started_at))
            started_at = perf_counter()
            page = await store.read("c", limit=PAGE, newest=True)
            last.append(milliseconds_since(started_at))
            assert len(page) == PAGE
        for _ in range(READINGS):
            started_at = perf_counter()
            rows = await database.execute_fetchall(SELECT, (WHOLE,))
            bodies = [json.loads(unpack(row[0])) for row in rows]
            bare_whole.append(milliseconds_since(started_at))
            started_at = perf_counter()
            events = await store.read("c", limit=WHOLE)
            whole.append(milliseconds_since(started_at))
            assert len(events) == len(bodies)
    return [
        Figure(f"last page of {PAGE}", "ms", last, Limit("bare select", bare_last), [Target(10)]),
        Figure(f"{WHOLE:,} events, typed", "ms", whole, Limit("bare select, unpacked, json.loads", bare_whole)),
    ]
