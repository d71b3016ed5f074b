"""EventWriter: the one connection of a process that writes to `handloom.db`.

Invariants of this room: an append is answered only after its commit (WAL, `synchronous=FULL`), and delivered in the
order of ids; an append that is refused leaves nothing behind and uses no id; appends that arrive while a commit is
under way share the next one. Nothing that an event or a subscriber does ends the writing.

Used by EventStore and by nobody else. Never opens a conversation and never reads one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from core.errors import LeaseLostError, StoreError
from core.events import (
    Action,
    AgentStateChangedObservation,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    UnknownAction,
    UnknownObservation,
    envelope_to_dict,
    to_json,
)
from core.store import schema
from core.store.blobs import Blob
from core.store.compression import pack
from core.store.recordings import RecordedRow
from core.store.sqlite import aiosqlite, connect, remedy, sqlite3

log = logging.getLogger(__name__)

ADD_SPENDING = (
    "INSERT INTO spending (day, calls, cost, unpriced, tokens, seconds) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (day) DO UPDATE SET calls = calls + excluded.calls, cost = cost + excluded.cost,"
    " unpriced = unpriced + excluded.unpriced, tokens = tokens + excluded.tokens,"
    " seconds = seconds + excluded.seconds"
)

ADD_EVENT = (
    "INSERT INTO events (conversation, id, timestamp, source, cause, kind, lease, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
ADD_BLOB = (
    "INSERT OR IGNORE INTO blobs (conversation, digest, media_type, width, height, data) VALUES (?, ?, ?, ?, ?, ?)"
)

ADD_RECORDING = (
    'INSERT INTO recordings (conversation, "after", number, at, frames) SELECT ?1, ?2,'
    ' (SELECT coalesce(max(number) + 1, 0) FROM recordings WHERE conversation = ?1 AND "after" = ?2), ?3, ?4'
)
NOTE_FACTS = (
    "UPDATE conversations SET state = CASE WHEN ?2 <> '' THEN ?2 ELSE state END,"
    " cost = CASE WHEN ?3 THEN ?4 ELSE cost END,"
    " first_line = CASE WHEN first_line = '' THEN ?5 ELSE first_line END WHERE key = ?1"
)

Deliver = Callable[[Sequence[Envelope]], None]
"""Takes in events that are durable: quickly, for every append waits for it."""

FIRST_LINE_CHARS = 200
MAX_BATCH = 1000
"""Events in one commit at most, so that a burst does not hold the database from other processes for long."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What work has cost: of one step, of a day, of everything."""

    calls: int = 0
    """Answers of models."""
    cost: float = 0.0
    """US dollars of the calls whose price is known."""
    unpriced: int = 0
    """Calls whose price is not."""
    tokens: int = 0
    seconds: float = 0.0
    """How long models and actions worked; those at the same time count each."""

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.calls + other.calls,
            self.cost + other.cost,
            self.unpriced + other.unpriced,
            self.tokens + other.tokens,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What a list shows of a conversation, as far as some events tell it."""

    state: str = ""
    has_cost: bool = False
    cost: float | None = None
    first_line: str = ""

    def after(self, event: Event, source: EventSource) -> Facts:
        """With what one more event tells."""
        facts = self
        if event.llm_metrics is not None:
            facts = replace(facts, has_cost=True, cost=event.llm_metrics.accumulated_cost)
        if isinstance(event, AgentStateChangedObservation):
            facts = replace(facts, state=str(event.agent_state))
        elif isinstance(event, MessageAction) and source is EventSource.USER and not facts.first_line:
            first = next((line.strip() for line in event.content.splitlines() if line.strip()), "")
            first = first[:FIRST_LINE_CHARS].encode(errors="replace").decode()  # lone surrogates are no UTF-8
            facts = replace(facts, first_line=first)
        return facts

    def row(self, key: int) -> tuple[Any, ...]:
        """The values of `NOTE_FACTS`."""
        return key, self.state, self.has_cost, self.cost, self.first_line


NO_FACTS = Facts()


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that has no id yet."""

    event: Event
    source: EventSource
    cause: int | None = None
    spent: Spent | None = None
    """What it cost; added to the day's spending in the same transaction."""
    blobs: tuple[Blob, ...] = ()
    """The pictures that it refers to; stored in the same transaction."""
    recorded: tuple[RecordedRow, ...] = ()
    """What the terminal printed before it; stored in the same transaction."""

    def at(self, conversation_id: str, id: int, timestamp: datetime) -> Envelope:
        """The event at its place in a conversation."""
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
    """The right to write to one conversation, and its next id. `key` and `token` are the database's."""

    conversation_id: str
    key: int
    token: int
    next_id: int
    in_doubt: bool = False
    """A write failed, and SQLite may find its rows again when it recovers the file: before the next write of ours they
    are taken back; where the process ends before, they are part of the log."""


@dataclass(slots=True)
class _Request:
    lease: Lease
    drafts: Sequence[Draft]
    deliver: Deliver
    done: asyncio.Future[Sequence[Envelope]]
    rows: Sequence[tuple[Any, ...]] = ()
    envelopes: Sequence[Envelope] = ()


def to_nobody(envelopes: Sequence[Envelope]) -> None:
    """Deliver to nobody."""


def kind_of(event: Event) -> str:
    """The name of an event's kind in the database: branch and kind, as `action:run`."""
    branch = "action" if isinstance(event, Action) else "observation"
    if isinstance(event, UnknownAction | UnknownObservation):
        return f"{branch}:{event.raw.get(branch, 'unknown')}"
    return f"{branch}:{event.kind}"


class EventWriter:
    """Writes events of conversations whose lease the process has, and whatever else the store lets it write."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._path = path
        self._clock = clock
        self.ring: Callable[[], None] = lambda: None
        """Tells other processes that something was committed."""
        self._turn = asyncio.Lock()
        """Held by whoever writes: a transaction must not take in the statements of another one."""
        self._queue: list[_Request] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._closed = False

    async def open(self) -> None:
        """Connect and begin to write. Raises sqlite3.Error."""
        self.connection = await connect(self._path, schema.WRITER_PRAGMAS)
        self._task = asyncio.create_task(self._write_batches(), name="event writer")

    async def finish(self) -> None:
        """Write what waits, and refuse what comes now."""
        self._closing = True
        self._wake.set()
        await self._task

    async def close(self) -> None:
        """Let go of the file; everything is written. Whoever writes later gets a StoreError."""
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
        deliver: Deliver = to_nobody,
    ) -> Sequence[Envelope]:
        """Store events, all or none, and answer once they are durable.

        `deliver` is called with them right after the commit, in the order of ids, before this returns. Raises
        LeaseLostError or StoreError; then nothing of them is stored and no id is used. Cancelling stops the waiting,
        not the writing.
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
            except Exception as error:  # our own bug: whoever waits must be told, and the writer goes on
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
        """Write a batch in one transaction; where the database refuses one request, each in its own."""
        batch = self._number(batch)
        if not batch:
            return
        try:
            async with self.writing("The event could not be stored"):
                try:
                    await self._take_back([request.lease for request in batch if request.lease.in_doubt])
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
            _deliver(request)

    def _number(self, batch: Iterable[_Request]) -> list[_Request]:
        """Give ids and time to a batch's drafts, and make their rows. What cannot be written as JSON is refused."""
        now = self._clock()
        next_ids: dict[int, int] = {}
        numbered = []
        for request in batch:
            lease = request.lease
            first = next_ids.get(lease.key, lease.next_id)
            try:
                self._make_rows(request, first, now)
            except Exception as error:  # the boundary to whoever made the event: the writer must outlive every event
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
            rows.append(row_of_event(lease.key, lease.token, envelope))
        request.envelopes, request.rows = envelopes, rows

    async def _take_back(self, leases: Iterable[Lease]) -> None:
        """Remove the rows of refused appends that SQLite found again: nobody was told of them, and their ids are free.

        Where another process owns the conversation by now, they have become part of it, and stay.
        """
        for lease in leases:
            await self.connection.execute(
                "DELETE FROM events WHERE conversation = ?1 AND lease = ?2 AND id >= ?3"
                " AND ?2 = (SELECT token FROM leases WHERE conversation = ?1)",
                (lease.key, lease.token, lease.next_id),
            )
            lease.in_doubt = False

    async def _insert(self, batch: Iterable[_Request]) -> None:
        """One transaction. A single row commits by itself: one trip to the writing thread instead of three."""
        rows = [row for request in batch for row in request.rows]
        beside = [*_spending(batch), *_facts(batch), *_blobs(batch), *_recorded(batch)]
        if len(rows) == 1 and not beside:
            await self.connection.execute(ADD_EVENT, rows[0])
            return
        await self.connection.execute("BEGIN IMMEDIATE")
        try:
            await self.connection.executemany(ADD_EVENT, rows)
            for statement, row in beside:
                await self.connection.execute(statement, row)
            await self.connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                await self.connection.execute("ROLLBACK")
            raise

    @asynccontextmanager
    async def writing(self, otherwise: str) -> AsyncIterator[aiosqlite.Connection]:
        """The writing connection, for oneself alone; where it fails it is replaced; `otherwise` says what failed."""
        async with self._turn:
            if self._closed:  # a failure would open the file again, and nobody would close it
                raise StoreError(f"{otherwise}: the event store is closed.")
            try:
                yield self.connection
            except (sqlite3.Error, ValueError) as error:  # ValueError: it was closed, and could not be opened again
                await self._reopen()
                raise StoreError(f"{otherwise}: {error}. {remedy(error)}") from error
            self.ring()

    async def _reopen(self) -> None:
        """After a failed write the connection is not trusted: SQLite would go on as if nothing had been lost."""
        await self._disconnect()
        with suppress(sqlite3.Error):
            self.connection = await connect(self._path, schema.WRITER_PRAGMAS)


def row_of_event(key: int, token: int, envelope: Envelope, body: str | bytes | None = None) -> tuple[Any, ...]:
    """The values of `ADD_EVENT`; `body` is the packed form, where it is there. Raises ValueError: it is no JSON."""
    if body is None:
        body = pack(to_json(envelope_to_dict(envelope, derived=False)))
    timestamp, source = envelope.timestamp.isoformat(), envelope.source.value
    return key, envelope.id, timestamp, source, envelope.cause, kind_of(envelope.event), token, body


_Statement = tuple[str, tuple[Any, ...]]


def _spending(batch: Iterable[_Request]) -> Iterator[_Statement]:
    """What a batch adds to the spending of its day."""
    spent, day = Spent(), ""
    for request in batch:
        for draft, envelope in zip(request.drafts, request.envelopes, strict=True):
            if draft.spent is not None:
                spent, day = spent + draft.spent, envelope.timestamp.date().isoformat()
    if day:
        yield ADD_SPENDING, (day, *astuple(spent))


def _facts(batch: Iterable[_Request]) -> Iterator[_Statement]:
    """What a batch changes of what lists show."""
    found: dict[int, Facts] = {}
    for request in batch:
        for draft in request.drafts:
            before = found.get(request.lease.key, NO_FACTS)
            found[request.lease.key] = before.after(draft.event, draft.source)
    for key, facts in found.items():
        if facts is not NO_FACTS:
            yield NOTE_FACTS, facts.row(key)


def _blobs(batch: Iterable[_Request]) -> Iterator[_Statement]:
    """The pictures of a batch."""
    for request in batch:
        for draft in request.drafts:
            for blob in draft.blobs:
                ref = blob.ref
                row = (request.lease.key, ref.digest, ref.media_type, ref.width, ref.height, blob.data)
                yield ADD_BLOB, row


def _recorded(batch: Iterable[_Request]) -> Iterator[_Statement]:
    """What terminals printed before the events of a batch."""
    for request in batch:
        for draft in request.drafts:
            for row in draft.recorded:
                yield ADD_RECORDING, (request.lease.key, row.after, row.at.isoformat(), row.frames)


def _deliver(request: _Request) -> None:
    """Show events that are durable; who fails to take them in has them in the log all the same."""
    try:
        request.deliver(request.envelopes)
    except Exception:  # the boundary to whoever subscribed: the writer must outlive every subscriber
        log.exception("events of conversation %s were stored and not delivered", request.lease.conversation_id)
    if not request.done.done():
        request.done.set_result(request.envelopes)


def _fail(request: _Request, error: StoreError) -> None:
    if not request.done.done():
        request.done.set_exception(error)
