"""Where the measurements happen: a store, a bare database and a shell, in a folder on a real disk."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from core import garbage_collector
from core.events import Envelope, Event, EventSource, MessageAction, envelope_to_dict, to_json
from core.store.database import aiosqlite
from core.store.event_store import EventStore
from core.store.writer import Draft
from core.stream import EventStream

USER, AGENT = EventSource.USER, EventSource.AGENT
DISK = "/var/tmp"
"""Kept over a restart, so on a disk; `/tmp` is memory on many machines, where FULL would cost nothing."""

BARE_TABLE = "CREATE TABLE events (id INTEGER PRIMARY KEY, body TEXT)"
BARE_INSERT = "INSERT INTO events (body) VALUES (?)"
BARE_PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")


@contextmanager
def folder() -> Iterator[Path]:
    """A folder on a disk, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="handloom-bench-", dir=DISK) as name:
        yield Path(name)


@asynccontextmanager
async def opened(home: Path, store: EventStore | None = None) -> AsyncIterator[EventStream]:
    """The stream of a new conversation, in `store` or one of its own."""
    garbage_collector.freeze()  # as the manager does when it starts
    async with store or EventStore(home) as store:
        stream = EventStream(store, await store.create_conversation("c", title="", workspace="/", model="demo"))
        yield stream
        await stream.aclose()


@asynccontextmanager
async def bare_database(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """A plain SQLite table of texts, with the same durability as the store."""
    async with aiosqlite.connect(path, isolation_level=None) as connection:
        for statement in (*BARE_PRAGMAS, BARE_TABLE):
            await connection.execute(statement)
        yield connection


def message(size_bytes: int = 1000) -> MessageAction:
    """An event of so many bytes of text."""
    return MessageAction(content="x" * size_bytes)


def stored(event: Event) -> str:
    """The text of an event in the database."""
    now = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    return to_json(
        envelope_to_dict(Envelope(conversation_id="c", id=0, timestamp=now, source=USER, event=event), derived=False)
    )


def drafts(count: int) -> list[Draft]:
    """So many different events of a kilobyte."""
    return [Draft(MessageAction(content=f"{number:08}" + "x" * 992), USER) for number in range(count)]


def milliseconds_since(started_at: float) -> float:
    """Wall time; `started_at` is a value of `perf_counter`."""
    return (perf_counter() - started_at) * 1000
