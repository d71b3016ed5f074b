"""A home with many saved conversations: listed, searched, looked into anywhere, and how much room it takes.

One in ten of the full size; `HANDLOOM_BENCH_FULL=1` makes all of it, which takes some minutes: 10,000 conversations
with 5 million events, and one with 100,000 events and 2 GB of recordings.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

from core.events import TerminalOutput
from core.store.database import sqlite3
from core.store.event_rows import ADD_EVENT, pack
from core.store.event_store import EventStore
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame, pack_frames
from core.store.writer import ADD_RECORDING
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder, milliseconds_since
from tests.bench.size import sized

IS_FULL = bool(os.environ.get("HANDLOOM_BENCH_FULL"))
CONVERSATIONS, EVENTS = sized(10_000 if IS_FULL else 1_000, 20), sized(500, 100)
LONG_EVENTS, RECORDED_MB = sized(100_000, 1_000), sized(2_048 if IS_FULL else 205, 1)
ROUNDS = sized(20, 2)
LIST_MS, SEARCH_MS, SEEK_MS, SIZE_RATIO = 100, 1_000, 500, 1.3
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = 20_000
RARE = "zeisigkanarie"


def measure() -> list[Figure]:
    with folder() as place:
        return asyncio.run(_measure(place / "home"))


async def _measure(home: Path) -> list[Figure]:
    async with EventStore(home):
        pass
    payload = await asyncio.to_thread(_fill, home)
    async with EventStore(home) as store:
        started_at = perf_counter()
        assert await store.index() == 0
        rate = (CONVERSATIONS * EVENTS + LONG_EVENTS) / (perf_counter() - started_at)
    size = sum(path.stat().st_size for path in home.glob("handloom.db*"))
    async with EventReader(home) as reader:
        return [
            Figure("events indexed for search", "events/s", [rate]),
            Figure("database beside what is in it", "bytes", [float(size)], Limit("JSON and terminal bytes", [payload]),
                   [Target(SIZE_RATIO, "ratio")]),
            await _timed("1,000 conversations listed", LIST_MS, reader.conversations),
            *[
                await _timed(f"search: {name}", SEARCH_MS, lambda text=text: reader.search(text))  # type: ignore[misc]
                for name, text in SEARCHES.items()
            ],
            await _timed(f"anywhere in {LONG_EVENTS:,} events", SEEK_MS, lambda: _look(reader)),
            await _timed(f"when {LONG_EVENTS:,} events were", SEEK_MS, lambda: reader.event_times("long")),
        ]  # fmt: skip


SEARCHES = {
    "a common word": "w1",
    "a rare word": RARE,
    "three words": "w10 w200 w3000",
    "a phrase": '"w1 w2"',
    "Chinese": "搜索引擎",
    "two characters": "引擎",
}


async def _timed(name: str, bound: float, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Figure:
    taken = []
    for _ in range(ROUNDS):
        started_at = perf_counter()
        await ask()
        taken.append(milliseconds_since(started_at))
    return Figure(name, "ms", taken, None, [Target(bound, "p95")])


async def _look(reader: EventReader) -> None:
    """Everything that a screen shows at a random event."""
    at = random.randrange(LONG_EVENTS)
    assert await reader.read("long", before=at + 1, newest=True, limit=100)
    await reader.recorded("long", after=max(0, at - 20), before=at + 1)
    await reader.latest("long", frozenset({"observation:agent_state_changed"}), at)


def _fill(home: Path) -> float:
    """Write the conversations; how many bytes of JSON and of terminals they are."""
    chance = random.Random(1)
    payload = 0.0
    with closing(sqlite3.connect(home / "handloom.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for number in range(CONVERSATIONS + 1):
            is_long = number == CONVERSATIONS
            id, count = ("long", LONG_EVENTS) if is_long else (f"c{number}", EVENTS)
            at = (BEGIN + timedelta(minutes=number)).isoformat()
            connection.execute("BEGIN")
            row = (number + 1, id, f"task {number}", f"/work/{number % 40}", "m", at)
            connection.execute(
                "INSERT INTO conversations (key, id, title, workspace, model, created_at, updated_at)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)", row)  # fmt: skip
            connection.execute("INSERT INTO leases VALUES (?, 1, NULL)", (number + 1,))
            for values, bytes in _events(chance, number, count):
                payload += bytes
                connection.execute(ADD_EVENT, values)
            connection.execute("COMMIT")
        payload += _record(connection, chance)
    return payload


def _events(chance: random.Random, number: int, count: int) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Commands and their output, with some messages; half of the bodies have a few hundred bytes."""
    for id in range(count):
        at = (BEGIN + timedelta(minutes=number, seconds=id)).isoformat()
        if id % 50 == 0:
            kind, source = "action:message", "user"
            said = _text(chance, 30) + (" 我们使用搜索引擎" if number % 20 == 0 else "")
            data: dict[str, Any] = {"action": "message", "args": {"content": said}}
        elif id % 2:
            kind, source = "action:run", "agent"
            data = {"action": "run", "args": {"command": _text(chance, 5), "thought": _text(chance, 20)}}
        else:
            kind, source = "observation:run", "environment"
            rare = f" {RARE}" if (number, id) == (7, 98) else ""
            long = chance.random() < 0.1
            data = {
                "observation": "run",
                "content": _text(chance, 600 if long else 40) + rare,
                "extras": {"command": ""},
            }
        body = json.dumps({"id": id, "timestamp": at, "source": source, **data}, ensure_ascii=False)
        yield (number + 1, id, at, source, None, kind, 1, pack(body)), len(body.encode())


def _text(chance: random.Random, words: int) -> str:
    """Words of which few are frequent and many are rare."""
    return " ".join(f"w{int(WORDS ** chance.random())}" for _ in range(words))


def _record(connection: Any, chance: random.Random) -> float:
    """Terminal bytes for the long conversation, evenly over its events; how many."""
    every = 10
    size = RECORDED_MB * 2**20 * every // LONG_EVENTS
    screen = "".join(f"\x1b[3{n % 8}m{_text(chance, 12)}\x1b[0m\r\n" for n in range(size // 60 + 1)).encode()[:size]
    connection.execute("BEGIN")
    for after in range(0, LONG_EVENTS, every):
        frame = RecordedFrame(after, BEGIN, TerminalOutput(after, b"%d " % after + screen))
        for row in pack_frames([frame]):
            values = (CONVERSATIONS + 1, row.after, row.at.isoformat(), row.frames)
            connection.execute(ADD_RECORDING, values)
    connection.execute("COMMIT")
    return float(size * LONG_EVENTS // every)
