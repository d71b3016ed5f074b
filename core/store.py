"""EventStore: every conversation of a home in one SQLite file, `handloom.db`.

Invariants of this room: an append is answered only after its commit (WAL, `synchronous=FULL`); ids of a conversation
start at 0 and have no gaps; only the owner of a conversation's lease writes to it, checked by the database itself in
the same transaction. One connection of the process writes and checkpoints, another reads. Appends that arrive while a
commit is under way share the next one. Directories are 0700, files 0600.

Used by EventStream and the conversation manager, and by nobody else. Never decides what an event means.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from core import schema
from core.errors import LeaseLostError, StoreBusyError, StoreError, UsageError
from core.events import (
    Action,
    Envelope,
    Event,
    EventSource,
    UnknownAction,
    UnknownObservation,
    envelope_from_dict,
    envelope_to_dict,
    to_json,
)
from core.locks import FileLock, ProcessMark
from core.sqlite import aiosqlite, can_be_shared, sqlite3, version

log = logging.getLogger(__name__)

MAX_BATCH = 1000
"""Events in one commit at most, so that a burst does not hold the database from other processes for long."""
BUSY_S = 10.0
"""How long a writer waits for another process's commit before it gives up."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that has no id yet."""

    event: Event
    source: EventSource
    cause: int | None = None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events a reader wants. Empty fields let everything through."""

    kinds: frozenset[str] = frozenset()
    """Names as stored: `action:run`, `observation:run`, ..."""
    sources: frozenset[EventSource] = frozenset()
    query: str = ""
    """A text that the stored form contains; case is ignored for ASCII."""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """What a list of conversations shows."""

    id: str
    title: str
    workspace: str
    model: str
    created_at: datetime
    updated_at: datetime
    event_count: int


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
    deliver: Callable[[Sequence[Envelope]], None]
    done: asyncio.Future[Sequence[Envelope]]
    rows: Sequence[tuple[Any, ...]] = ()
    envelopes: Sequence[Envelope] = ()


def kind_of(event: Event) -> str:
    """The name of an event's kind in the database: branch and kind, as `action:run`."""
    branch = "action" if isinstance(event, Action) else "observation"
    if isinstance(event, UnknownAction | UnknownObservation):
        return f"{branch}:{event.raw.get(branch, 'unknown')}"
    return f"{branch}:{event.kind}"


class EventStore:
    """The database of one home, open. Use as an async context manager; `clock` gives the time of new events."""

    def __init__(self, home: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.home = home
        self.path = home / "handloom.db"
        self._clock = clock
        self._turn = asyncio.Lock()
        """Held by whoever writes: a transaction must not take in the statements of another one."""
        self._queue: list[_Request] = []
        self._wake = asyncio.Event()
        self._closing = False

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await asyncio.to_thread(self._prepare_files)
            stack.push_async_callback(asyncio.to_thread, self._release_locks)
            try:
                self._write = await self._connect()
                stack.push_async_callback(self._close_writer)
                self._read = await self._connect(reader=True)
            except sqlite3.Error as error:
                raise StoreError(f"{self.path} cannot be opened: {error}. {_remedy(error)}") from error
            stack.push_async_callback(self._read.close)
            self._writer = asyncio.create_task(self._write_batches(), name="event store writer")
            stack.push_async_callback(self._end_writer)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._exit.aclose()

    async def _end_writer(self) -> None:
        """Write what waits, then give every conversation free."""
        self._closing = True
        self._wake.set()
        await self._writer
        with suppress(StoreError):
            async with self._writing("The conversations could not be given free") as connection:
                await connection.execute("UPDATE leases SET owner = NULL WHERE owner = ?", (self.mark.name,))

    async def _close_writer(self) -> None:
        with suppress(sqlite3.Error, ValueError):
            await self._write.close()

    # -- opening -------------------------------------------------------------------------------------------------

    def _prepare_files(self) -> None:
        """Make folders and file with their modes, take this process's place beside the others, bring the schema up."""
        try:
            locks = self.home / "locks"
            for folder in (self.home, locks):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
            self._share = FileLock(locks / "share.lock")
            self._take_share()
            try:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                self.path.chmod(0o600)
                with FileLock(locks / "schema.lock"):
                    schema.upgrade(self.path)
                self.mark = ProcessMark(locks)
            except BaseException:
                self._share.release()
                raise
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be opened: {error}. {_remedy(error)}") from error
        except OSError as error:
            raise StoreError(
                f"The data folder {self.home} cannot be used: {error.strerror or error}. "
                "Make it writable, free some space, or set HANDLOOM_HOME to another folder."
            ) from error

    def _release_locks(self) -> None:
        self.mark.release()
        self._share.release()

    def _take_share(self) -> None:
        """Others may use the database beside us only if every SQLite involved has the WAL-reset fix."""
        shared = can_be_shared()
        if self._share.try_acquire(shared=shared):
            return
        mine = ".".join(map(str, version()))
        raise StoreBusyError(
            f"Another Handloom uses {self.home}, and only one at a time can: "
            + ("it" if shared else f"this Python's SQLite ({mine})")
            + " lacks the fix of the WAL-reset bug (3.51.3). Close the other one, set HANDLOOM_HOME to another "
            "folder, or install the package pysqlite3."
        )

    async def _connect(self, *, reader: bool = False) -> aiosqlite.Connection:
        connection = await aiosqlite.connect(self.path, isolation_level=None, timeout=BUSY_S)
        try:
            for pragma in schema.READER_PRAGMAS if reader else schema.WRITER_PRAGMAS:
                await connection.execute(pragma)
        except BaseException:
            await connection.close()  # or its thread would keep the process from ending
            raise
        return connection

    # -- conversations and leases -----------------------------------------------------------------------------------

    async def create_conversation(self, conversation_id: str, *, title: str, workspace: str, model: str) -> Lease:
        """Make a conversation and own it. Raises UsageError where the id is taken."""
        now = self._clock().isoformat()
        async with self._writing("The conversation could not be stored") as connection:
            try:
                await connection.execute(
                    "INSERT INTO conversations (id, title, workspace, model, created_at) VALUES (?, ?, ?, ?, ?)",
                    (conversation_id, title, workspace, model, now),
                )
            except sqlite3.IntegrityError as error:
                raise UsageError(f"There is a conversation {conversation_id} already.") from error
        return await self.acquire(conversation_id)

    async def acquire(self, conversation_id: str) -> Lease:
        """Own a conversation: at once where nobody does, or where its owner is dead.

        Raises UsageError where there is no such conversation, and StoreBusyError where a living process owns it.
        """
        async with self._writing(f"Conversation {conversation_id} cannot be opened") as connection:
            await connection.execute("BEGIN IMMEDIATE")
            try:
                return await self._acquire(connection, conversation_id)
            finally:
                await connection.execute("COMMIT")

    async def _acquire(self, connection: aiosqlite.Connection, conversation_id: str) -> Lease:
        rows = await connection.execute_fetchall(
            "SELECT c.key, coalesce(l.token, 0), l.owner,"
            " (SELECT coalesce(max(e.id) + 1, 0) FROM events e WHERE e.conversation = c.key)"
            " FROM conversations c LEFT JOIN leases l ON l.conversation = c.key WHERE c.id = ?",
            (conversation_id,),
        )
        for key, token, owner, next_id in rows:
            if owner is not None and await asyncio.to_thread(self.mark.is_alive, owner):
                pid = owner.split("-")[0]
                whose = "this workspace" if owner == self.mark.name else f"another Handloom (process {pid})"
                raise StoreBusyError(f"Conversation {conversation_id} is open in {whose}. Close it there first.")
            await connection.execute(
                "INSERT INTO leases (conversation, token, owner) VALUES (?1, ?2, ?3)"
                " ON CONFLICT (conversation) DO UPDATE SET token = ?2, owner = ?3",
                (key, token + 1, self.mark.name),
            )
            return Lease(conversation_id, key, token + 1, next_id)
        raise UsageError(f"There is no conversation {conversation_id}. `handloom list` shows those that there are.")

    async def release(self, lease: Lease) -> None:
        """Let others own the conversation."""
        with suppress(StoreError):  # the lock file tells the others anyway, as soon as this process ends
            async with self._writing("The conversation could not be given free") as connection:
                await connection.execute(
                    "UPDATE leases SET owner = NULL WHERE conversation = ? AND token = ?", (lease.key, lease.token)
                )

    async def conversations(self, *, limit: int = 1000, conversation_id: str | None = None) -> list[ConversationInfo]:
        """The newest conversations, those with the latest event first."""
        rows = await self._read.execute_fetchall(
            "SELECT c.id, c.title, c.workspace, c.model, c.created_at,"
            " coalesce((SELECT e.timestamp FROM events e WHERE e.conversation = c.key ORDER BY e.id DESC LIMIT 1),"
            "  c.created_at) AS updated_at,"
            " coalesce((SELECT max(e.id) + 1 FROM events e WHERE e.conversation = c.key), 0)"
            " FROM conversations c WHERE ?1 IS NULL OR c.id = ?1 ORDER BY updated_at DESC LIMIT ?2",
            (conversation_id, limit),
        )
        return [
            ConversationInfo(
                id=row[0],
                title=row[1],
                workspace=row[2],
                model=row[3],
                created_at=datetime.fromisoformat(row[4]),
                updated_at=datetime.fromisoformat(row[5]),
                event_count=row[6],
            )
            for row in rows
        ]

    async def update_conversation(self, lease: Lease, *, title: str | None = None, model: str | None = None) -> None:
        """Change what a list shows of a conversation that we own."""
        async with self._writing("The conversation's name could not be stored") as connection:
            await connection.execute(
                "UPDATE conversations SET title = coalesce(?, title), model = coalesce(?, model) WHERE key = ?",
                (title, model, lease.key),
            )

    # -- writing -----------------------------------------------------------------------------------------------------

    async def append(
        self,
        lease: Lease,
        drafts: Sequence[Draft],
        deliver: Callable[[Sequence[Envelope]], None] = lambda envelopes: None,
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
            await self._commit(self._take_batch())

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
            async with self._writing("The event could not be stored"):
                try:
                    await self._take_back([request.lease for request in batch if request.lease.in_doubt])
                    await self._insert([row for request in batch for row in request.rows])
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
            request.deliver(request.envelopes)
            if not request.done.done():
                request.done.set_result(request.envelopes)

    def _number(self, batch: Iterable[_Request]) -> list[_Request]:
        """Give ids and time to a batch's drafts, and make their rows. What cannot be written as JSON is refused."""
        now = self._clock()
        timestamp = now.isoformat()
        next_ids: dict[int, int] = {}
        numbered = []
        for request in batch:
            lease = request.lease
            first = next_ids.get(lease.key, lease.next_id)
            try:
                self._make_rows(request, first, now, timestamp)
            except Exception as error:  # the boundary to whoever made the event: the writer must outlive every event
                log.exception("an event of conversation %s cannot be stored", lease.conversation_id)
                _fail(request, StoreError(f"The event cannot be stored: {type(error).__name__}: {error}"))
                continue
            next_ids[lease.key] = first + len(request.drafts)
            numbered.append(request)
        return numbered

    def _make_rows(self, request: _Request, first: int, now: datetime, timestamp: str) -> None:
        lease, envelopes, rows = request.lease, [], []
        for event_id, draft in enumerate(request.drafts, first):
            envelope = Envelope(
                conversation_id=lease.conversation_id,
                id=event_id,
                timestamp=now,
                source=draft.source,
                cause=draft.cause,
                event=draft.event,
            )
            body = to_json(envelope_to_dict(envelope, derived=False))
            kind, source = kind_of(draft.event), draft.source.value
            envelopes.append(envelope)
            rows.append((lease.key, event_id, timestamp, source, draft.cause, kind, lease.token, body))
        request.envelopes, request.rows = envelopes, rows

    async def _take_back(self, leases: Iterable[Lease]) -> None:
        """Remove the rows of refused appends that SQLite found again: nobody was told of them, and their ids are free.

        Where another process owns the conversation by now, they have become part of it, and stay.
        """
        for lease in leases:
            await self._write.execute(
                "DELETE FROM events WHERE conversation = ?1 AND lease = ?2 AND id >= ?3"
                " AND ?2 = (SELECT token FROM leases WHERE conversation = ?1)",
                (lease.key, lease.token, lease.next_id),
            )
            lease.in_doubt = False

    async def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        """One transaction. A single row commits by itself: one trip to the writing thread instead of three."""
        sql = (
            "INSERT INTO events (conversation, id, timestamp, source, cause, kind, lease, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        if len(rows) == 1:
            await self._write.execute(sql, rows[0])
            return
        await self._write.execute("BEGIN IMMEDIATE")
        try:
            await self._write.executemany(sql, rows)
            await self._write.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                await self._write.execute("ROLLBACK")
            raise

    @asynccontextmanager
    async def _writing(self, otherwise: str) -> AsyncIterator[aiosqlite.Connection]:
        """The writing connection, for oneself alone; where it fails it is replaced; `otherwise` says what failed."""
        async with self._turn:
            try:
                yield self._write
            except (sqlite3.Error, ValueError) as error:  # ValueError: it was closed, and could not be opened again
                await self._reopen_writer()
                raise StoreError(f"{otherwise}: {error}. {_remedy(error)}") from error

    async def _reopen_writer(self) -> None:
        """After a failed write the connection is not trusted: SQLite would go on as if nothing had been lost."""
        await self._close_writer()
        with suppress(sqlite3.Error):
            self._write = await self._connect()

    # -- reading -----------------------------------------------------------------------------------------------------

    async def read(
        self,
        conversation_id: str,
        *,
        after: int = -1,
        before: int | None = None,
        limit: int | None = None,
        newest: bool = False,
        where: EventFilter | None = None,
    ) -> list[Envelope]:
        """Events with `after` < id < `before`, in the order of ids; `newest` takes the last `limit` of them."""
        bodies = await self.read_json(
            conversation_id, after=after, before=before, limit=limit, newest=newest, where=where
        )
        return [envelope_from_dict(json.loads(body), conversation_id) for body in bodies]

    async def read_json(
        self,
        conversation_id: str,
        *,
        after: int = -1,
        before: int | None = None,
        limit: int | None = None,
        newest: bool = False,
        where: EventFilter | None = None,
    ) -> list[str]:
        """As `read`, in the stored form: one JSON text an event."""
        clauses = ["e.conversation = (SELECT key FROM conversations WHERE id = ?)", "e.id > ?", "e.id < ?"]
        values: list[Any] = [conversation_id, after, 2**62 if before is None else before]
        if where is not None:
            _add_filter(where, clauses, values)
        values.append(-1 if limit is None else limit)
        order = "DESC" if newest else "ASC"
        rows = list(
            await self._read.execute_fetchall(
                f"SELECT e.body FROM events e WHERE {' AND '.join(clauses)} ORDER BY e.id {order} LIMIT ?",  # noqa: S608
                values,
            )
        )
        return [row[0] for row in (reversed(rows) if newest else rows)]


def _add_filter(where: EventFilter, clauses: list[str], values: list[Any]) -> None:
    for column, wanted in (("kind", sorted(where.kinds)), ("source", sorted(where.sources))):
        if wanted:
            clauses.append(f"e.{column} IN ({', '.join('?' * len(wanted))})")
            values.extend(str(value) for value in wanted)
    if where.query:
        clauses.append("instr(lower(e.body), lower(?)) > 0")
        values.append(where.query)
    for operator, moment in ((">=", where.since), ("<=", where.until)):
        if moment is not None:
            clauses.append(f"e.timestamp {operator} ?")
            values.append(moment.astimezone(UTC).isoformat())


def _fail(request: _Request, error: StoreError) -> None:
    if not request.done.done():
        request.done.set_exception(error)


def _remedy(error: Exception) -> str:
    """What to do about a failure of the database."""
    text = str(error)
    if "full" in text:
        return "The disk is full: free some space, then try again. Nothing that was shown is lost."
    if "readonly" in text or "read-only" in text:
        return "Make the data folder writable, or set HANDLOOM_HOME to another folder."
    if "malformed" in text or "not a database" in text:
        return "The file is damaged: move it away and start anew, or restore a copy."
    if "locked" in text:
        return "Another program holds the database; close it and try again."
    return "Check the disk, then try again. Nothing that was shown is lost."
