"""EventWriter: the one connection of a process that writes to `handloom.db`. Only EventStore uses it.

An append returns only after its commit (WAL, `synchronous=FULL`), and its events are delivered in the order of ids. A
refused append stores nothing and uses no id. Appends that arrive during a commit share the next one. An error in an
event or a subscriber never stops the writer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from core.errors import LeaseLostError, StoreError
from core.events import (
    Envelope,
    Event,
    EventSource,
)
from core.store import database
from core.store.blobs import Blob
from core.store.database import aiosqlite, connect, remedy, sqlite3
from core.store.event_rows import ADD_EVENT, NO_FACTS, UPDATE_FACTS, Facts, event_row
from core.store.recordings import RecordedRow

log = logging.getLogger(__name__)

ADD_SPENDING = (
    "INSERT INTO spending (day, calls, cost, unpriced, tokens, seconds) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (day) DO UPDATE SET calls = calls + excluded.calls, cost = cost + excluded.cost,"
    " unpriced = unpriced + excluded.unpriced, tokens = tokens + excluded.tokens,"
    " seconds = seconds + excluded.seconds"
)

ADD_BLOB = (
    "INSERT OR IGNORE INTO blobs (conversation, digest, media_type, width, height, data) VALUES (?, ?, ?, ?, ?, ?)"
)

ADD_RECORDING = (
    'INSERT INTO recordings (conversation, "after", number, at, frames) SELECT ?1, ?2,'
    ' (SELECT coalesce(max(number) + 1, 0) FROM recordings WHERE conversation = ?1 AND "after" = ?2), ?3, ?4'
)
Deliver = Callable[[Sequence[Envelope]], None]
"""Callback for committed events. Must return quickly: appends wait for it."""

MAX_BATCH = 1000
"""Events in one commit, so that a burst does not lock the database for other processes for long."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of work: of one step, one day, or everything."""

    calls: int = 0
    """Model answers."""
    cost: float = 0.0
    """US dollars for the calls with a known price."""
    unpriced: int = 0
    """Calls with an unknown price."""
    tokens: int = 0
    seconds: float = 0.0
    """Working time of models and actions; parallel work counts separately."""

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.calls + other.calls,
            self.cost + other.cost,
            self.unpriced + other.unpriced,
            self.tokens + other.tokens,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class Draft:
    """An event without an id."""

    event: Event
    source: EventSource
    cause: int | None = None
    spent: Spent | None = None
    """Its cost, added to the day's spending in the same transaction."""
    blobs: tuple[Blob, ...] = ()
    """Pictures that it refers to, stored in the same transaction."""
    recorded: tuple[RecordedRow, ...] = ()
    """Terminal output before it, stored in the same transaction."""

    def at(self, conversation_id: str, id: int, timestamp: datetime) -> Envelope:
        return Envelope(
            conversation_id=conversation_id,
            id=id,
            timestamp=timestamp,
            source=self.source,
            cause=self.cause,
            event=self.event,
        )


@dataclass(slots=True)
class Lease:
    """The right to write to one conversation, and its next id. `key` and `token` are values of the database."""

    conversation_id: str
    key: int
    token: int
    next_id: int
    known: Facts = NO_FACTS
    """What the row of the conversation has already and keeps, so that an event need not write it again."""
    in_doubt: bool = False
    """A write failed, but SQLite may still recover its rows. Our next write deletes them; if the process ends before
    that, they are part of the log."""


@dataclass(slots=True)
class _Request:
    lease: Lease
    drafts: Sequence[Draft]
    deliver: Deliver
    done: asyncio.Future[Sequence[Envelope]]
    rows: Sequence[tuple[Any, ...]] = ()
    envelopes: Sequence[Envelope] = ()


class EventWriter:
    """Writes events of conversations that this process has a lease for, and other changes for EventStore."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._path = path
        self._clock = clock
        self.notify: Callable[[], None] = lambda: None
        """Notifies other processes about a commit."""
        self._turn = asyncio.Lock()
        """Held while writing, so that transactions do not mix."""
        self._queue: list[_Request] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._closed = False

    async def open(self) -> None:
        """Connect and start the writing task. Raises sqlite3.Error."""
        self.connection = await connect(self._path, database.WRITER_PRAGMAS)
        self._task = asyncio.create_task(self._write_batches(), name="event writer")

    async def finish(self) -> None:
        """Write all queued appends and refuse new ones."""
        self._closing = True
        self._wake.set()
        await self._task

    async def close(self) -> None:
        """Close the connection. All queued writes have been committed; later writes raise StoreError."""
        async with self._turn:
            self._closed = True
            await self._disconnect()

    async def _disconnect(self) -> None:
        with suppress(sqlite3.Error, ValueError):
            await self.connection.close()

    async def append(
        self,
        lease: Lease,
        drafts: Sequence[Draft],
        deliver: Deliver = lambda envelopes: None,
    ) -> Sequence[Envelope]:
        """Store events, all or none, and return once they are durable.

        `deliver` is called with them right after the commit, in the order of ids, before this returns. Cancelling stops
        the waiting, not the writing. Raises LeaseLostError or StoreError; then nothing was stored and no id was used.
        """
        if self._closing:
            raise StoreError("The event store is closed.")
        request = _Request(lease, drafts, deliver, asyncio.get_running_loop().create_future())
        self._queue.append(request)
        self._wake.set()
        return await request.done

    async def _write_batches(self) -> None:
        while True:
            while not self._queue:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
            batch = self._take_batch()
            try:
                await self._commit(batch)
            except Exception as error:  # a bug: the callers get an error, and the writer continues
                log.exception("events could not be stored")
                for request in batch:
                    request.lease.in_doubt = True
                    _fail(request, StoreError(f"The event could not be stored: {type(error).__name__}: {error}"))

    def _take_batch(self) -> list[_Request]:
        size = count = 0
        while count < len(self._queue) and (count == 0 or size + len(self._queue[count].drafts) <= MAX_BATCH):
            size += len(self._queue[count].drafts)
            count += 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        return batch

    async def _commit(self, batch: list[_Request]) -> None:
        """Write a batch in one transaction; if the database refuses one request, each in its own."""
        batch = self._assign_ids(batch)
        if not batch:
            return
        try:
            async with self.writing("The event could not be stored"):
                try:
                    await self._delete_recovered([request.lease for request in batch if request.lease.in_doubt])
                    await self._insert(batch)
                except sqlite3.IntegrityError as error:
                    raise LeaseLostError(
                        f"Another Handloom owns the conversation now; nothing was stored: {error}"
                    ) from error
        except LeaseLostError as error:
            if len(batch) == 1:
                _fail(batch[0], error)
                return
            for request in batch:
                await self._commit([request])
            return
        except StoreError as error:
            for request in batch:
                request.lease.in_doubt = True
                _fail(request, error)
            return
        for request in batch:
            request.lease.next_id += len(request.envelopes)
            if not request.lease.known.first_line:
                request.lease.known = _facts_after(NO_FACTS, request).lasting()
            _deliver(request)

    def _assign_ids(self, batch: Iterable[_Request]) -> list[_Request]:
        """Assign ids and time to a batch's drafts and make their rows. Refuse data that is not JSON."""
        now = self._clock()
        next_ids: dict[int, int] = {}
        numbered = []
        for request in batch:
            lease = request.lease
            first = next_ids.get(lease.key, lease.next_id)
            try:
                self._make_rows(request, first, now)
            except Exception as error:  # boundary to foreign events: no event may stop the writer
                log.exception("an event of conversation %s cannot be stored", lease.conversation_id)
                _fail(request, StoreError(f"The event cannot be stored: {type(error).__name__}: {error}"))
                continue
            next_ids[lease.key] = first + len(request.drafts)
            numbered.append(request)
        return numbered

    def _make_rows(self, request: _Request, first: int, now: datetime) -> None:
        lease, envelopes, rows = request.lease, [], []
        for event_id, draft in enumerate(request.drafts, first):
            envelope = draft.at(lease.conversation_id, event_id, now)
            envelopes.append(envelope)
            rows.append(event_row(lease.key, lease.token, envelope))
        request.envelopes, request.rows = envelopes, rows

    async def _delete_recovered(self, leases: Iterable[Lease]) -> None:
        """Delete rows of failed appends that SQLite recovered: they were never delivered, and their ids are free.

        If another process owns the conversation now, they have become part of it and stay.
        """
        for lease in leases:
            await self.connection.execute(
                "DELETE FROM events WHERE conversation = ?1 AND lease = ?2 AND id >= ?3"
                " AND ?2 = (SELECT token FROM leases WHERE conversation = ?1)",
                (lease.key, lease.token, lease.next_id),
            )
            lease.in_doubt = False

    async def _insert(self, batch: Iterable[_Request]) -> None:
        """Insert in one transaction, in one trip to the writing thread."""
        rows = [row for request in batch for row in request.rows]
        other_statements = [*_spending(batch), *_facts(batch), *_blobs(batch), *_recorded(batch)]
        if len(rows) == 1 and not other_statements:
            await self.connection.execute(ADD_EVENT, rows[0])
            return
        run = self.connection._execute  # aiosqlite has no public name for it
        await run(_write_all, self.connection._conn, rows, other_statements)  # type: ignore[no-untyped-call]

    @asynccontextmanager
    async def writing(self, failure: str) -> AsyncIterator[aiosqlite.Connection]:
        """Exclusive use of the writing connection, replaced after a failure. `failure` begins the error message."""
        async with self._turn:
            if self._closed:  # a failure would reopen the file, and nobody would close it
                raise StoreError(f"{failure}: the event store is closed.")
            try:
                yield self.connection
            except (sqlite3.Error, ValueError) as error:  # ValueError: it was closed and could not be reopened
                await self._reopen()
                raise StoreError(f"{failure}: {error}. {remedy(error)}") from error
            self.notify()

    async def _reopen(self) -> None:
        """Replace the connection after a failed write: SQLite would continue as if nothing had been lost."""
        await self._disconnect()
        with suppress(sqlite3.Error):
            self.connection = await connect(self._path, database.WRITER_PRAGMAS)


_Statement = tuple[str, tuple[Any, ...]]


def _write_all(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]], others: Iterable[_Statement]) -> None:
    """Insert events and carry out the other statements in one transaction, in the writing thread."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.executemany(ADD_EVENT, rows)
        for statement, row in others:
            connection.execute(statement, row)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _spending(batch: Iterable[_Request]) -> Iterator[_Statement]:
    spent, day = Spent(), ""
    for request in batch:
        for draft, envelope in zip(request.drafts, request.envelopes, strict=True):
            if draft.spent is not None:
                spent, day = spent + draft.spent, envelope.timestamp.date().isoformat()
    if day:
        yield ADD_SPENDING, (day, *astuple(spent))


def _facts(batch: Iterable[_Request]) -> Iterator[_Statement]:
    found: dict[int, Facts] = {}
    for request in batch:
        found[request.lease.key] = _facts_after(found.get(request.lease.key, request.lease.known), request)
    known = {request.lease.key: request.lease.known for request in batch}
    for key, facts in found.items():
        if facts != known[key]:
            yield UPDATE_FACTS, facts.row(key)


def _facts_after(facts: Facts, request: _Request) -> Facts:
    for draft in request.drafts:
        facts = facts.after(draft.event, draft.source)
    return facts


def _blobs(batch: Iterable[_Request]) -> Iterator[_Statement]:
    for request in batch:
        for draft in request.drafts:
            for blob in draft.blobs:
                yield ADD_BLOB, blob.row(request.lease.key)


def _recorded(batch: Iterable[_Request]) -> Iterator[_Statement]:
    for request in batch:
        for draft in request.drafts:
            for row in draft.recorded:
                yield ADD_RECORDING, row.row(request.lease.key)


def _deliver(request: _Request) -> None:
    """Deliver committed events. A subscriber that fails can still read them from the log."""
    try:
        request.deliver(request.envelopes)
    except Exception:  # boundary to subscribers: none may stop the writer
        log.exception("events of conversation %s were stored but not delivered", request.lease.conversation_id)
    if not request.done.done():
        request.done.set_result(request.envelopes)


def _fail(request: _Request, error: StoreError) -> None:
    if not request.done.done():
        request.done.set_exception(error)
