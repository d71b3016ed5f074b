"""EventStore: every conversation of a home in one SQLite file, `handloom.db`.

Invariants of this room: an append is answered only after its commit (WAL, `synchronous=FULL`); ids of a conversation
start at 0 and have no gaps; only the owner of a conversation's lease writes to it, checked by the database itself in
the same transaction. One connection of the process writes and checkpoints (EventWriter has it), another reads.
Directories are 0700, files 0600.

Used by EventStream and the conversation manager, and by nobody else. Never decides what an event means.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Self

from core import schema
from core.blobs import Blob, BlobRef
from core.errors import StoreBusyError, StoreError, UsageError
from core.events import Envelope, EventSource, envelope_from_dict
from core.locks import FileLock, ProcessMark
from core.sqlite import aiosqlite, can_be_shared, connect, remedy, sqlite3, version
from core.writer import ADD_SPENDING, Deliver, Draft, EventWriter, Lease, Spent, to_nobody


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
    parent: str = ""
    """The conversation that delegated to this one; empty for one of the user's."""
    parent_action: int | None = None
    repository: str = ""
    """What is cloned into the workspace at the start: a URL, with `#branch` where one is named."""


class EventStore:
    """The database of one home, open. Use as an async context manager; `clock` gives the time of new events."""

    def __init__(self, home: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.home = home
        self.path = home / "handloom.db"
        self._clock = clock
        self._writer = EventWriter(self.path, clock)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await asyncio.to_thread(self._prepare_files)
            stack.push_async_callback(asyncio.to_thread, self._release_locks)
            try:
                await self._writer.open()
                stack.push_async_callback(self._writer.close)
                self._read = await connect(self.path, schema.READER_PRAGMAS)
            except sqlite3.Error as error:
                raise StoreError(f"{self.path} cannot be opened: {error}. {remedy(error)}") from error
            stack.push_async_callback(self._read.close)
            stack.push_async_callback(self._end_writing)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._exit.aclose()

    async def _end_writing(self) -> None:
        """Write what waits, then give every conversation free."""
        await self._writer.finish()
        with suppress(StoreError):
            async with self._writer.writing("The conversations could not be given free") as connection:
                await connection.execute("UPDATE leases SET owner = NULL WHERE owner = ?", (self.mark.name,))

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
            raise StoreError(f"{self.path} cannot be opened: {error}. {remedy(error)}") from error
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

    # -- conversations and leases -----------------------------------------------------------------------------------

    async def create_conversation(
        self,
        conversation_id: str,
        *,
        title: str,
        workspace: str,
        model: str,
        parent: str = "",
        parent_action: int | None = None,
        repository: str = "",
    ) -> Lease:
        """Make a conversation and own it. Raises UsageError where the id is taken."""
        now = self._clock().isoformat()
        async with self._writer.writing("The conversation could not be stored") as connection:
            try:
                await connection.execute(
                    "INSERT INTO conversations (id, title, workspace, model, created_at, parent, parent_action,"
                    " repository) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (conversation_id, title, workspace, model, now, parent, parent_action, repository),
                )
            except sqlite3.IntegrityError as error:
                raise UsageError(f"There is a conversation {conversation_id} already.") from error
        return await self.acquire(conversation_id)

    async def acquire(self, conversation_id: str) -> Lease:
        """Own a conversation: at once where nobody does, or where its owner is dead.

        Raises UsageError where there is no such conversation, and StoreBusyError where a living process owns it.
        """
        async with self._writer.writing(f"Conversation {conversation_id} cannot be opened") as connection:
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
            async with self._writer.writing("The conversation could not be given free") as connection:
                await connection.execute(
                    "UPDATE leases SET owner = NULL WHERE conversation = ? AND token = ?", (lease.key, lease.token)
                )

    async def conversations(self, *, limit: int = 1000, conversation_id: str | None = None) -> list[ConversationInfo]:
        """The newest conversations, those with the latest event first."""
        rows = await self._read.execute_fetchall(
            f"SELECT {_INFO} FROM conversations c WHERE ?1 IS NULL OR c.id = ?1 ORDER BY updated_at DESC LIMIT ?2",  # noqa: S608
            (conversation_id, limit),
        )
        return [_info(row) for row in rows]

    async def said(self, *, workspace: str, limit: int) -> list[str]:
        """What the user wrote in the conversations of this home, the newest first, those of this workspace before all.

        Commands of the user's own begin with `!`. Looked for among the newest events of the home, so that the cost has
        a bound; what was written into a long conversation by others than the user is not part of it.
        """
        rows = await self._read.execute_fetchall(
            "SELECT CASE kind WHEN 'action:run' THEN '!' || json_extract(body, '$.args.command')"
            "  ELSE json_extract(body, '$.args.content') END"
            " FROM (SELECT e.rowid AS number, e.kind, e.body, c.workspace = ?1 AS is_here"
            "  FROM events e JOIN conversations c ON c.key = e.conversation"
            "  WHERE e.rowid > (SELECT max(rowid) FROM events) - ?3 AND e.source = 'user' AND c.parent = ''"
            "  AND e.kind IN ('action:message', 'action:run') AND length(e.body) <= ?4)"
            " ORDER BY is_here DESC, number DESC LIMIT ?2",
            (workspace, limit, _SAID_WITHIN, _SAID_BYTES),
        )
        return [text for (text,) in rows if isinstance(text, str)]

    async def descendants(self, conversation_id: str) -> list[ConversationInfo]:
        """The conversations to which this one delegated, and those to which they did; the oldest first."""
        rows = await self._read.execute_fetchall(
            f"{_BELOW} SELECT {_INFO} FROM conversations c WHERE c.id IN below AND c.id <> ?1 ORDER BY c.key",  # noqa: S608
            (conversation_id,),
        )
        return [_info(row) for row in rows]

    async def count_conversations(self) -> int:
        """How many conversations this home has."""
        ((count,),) = await self._read.execute_fetchall("SELECT count(*) FROM conversations")
        return int(count)

    async def events_by_kind(self) -> dict[str, int]:
        """How many events of each kind (`action:run`) all conversations of this home have; the most frequent first."""
        rows = await self._read.execute_fetchall(
            "SELECT kind, count(*) AS number FROM events GROUP BY kind ORDER BY number DESC, kind"
        )
        return {row[0]: row[1] for row in rows}

    async def spent(self, day: date | None = None) -> Spent:
        """What all conversations of this home have cost on a day (UTC), or ever."""
        (row,) = await self._read.execute_fetchall(
            "SELECT total(calls), total(cost), total(unpriced), total(tokens), total(seconds) FROM spending"
            " WHERE ?1 IS NULL OR day = ?1",
            (day and day.isoformat(),),
        )
        return Spent(int(row[0]), row[1], int(row[2]), int(row[3]), row[4])

    async def add_spending(self, spent: Spent) -> None:
        """Count to the day what was spent without an event, such as on a title. Raises StoreError."""
        async with self._writer.writing("The spending could not be stored") as connection:
            await connection.execute(ADD_SPENDING, (self._clock().date().isoformat(), *astuple(spent)))

    async def spent_by_day(self, *, limit: int = 30) -> dict[date, Spent]:
        """As `spent`, for each of the newest days (UTC) on which something was spent; the newest first."""
        rows = await self._read.execute_fetchall(
            "SELECT day, calls, cost, unpriced, tokens, seconds FROM spending ORDER BY day DESC LIMIT ?", (limit,)
        )
        return {date.fromisoformat(row[0]): Spent(*row[1:]) for row in rows}

    async def update_conversation(self, lease: Lease, *, title: str | None = None, model: str | None = None) -> None:
        """Change what a list shows of a conversation that we own."""
        async with self._writer.writing("The conversation's name could not be stored") as connection:
            await connection.execute(
                "UPDATE conversations SET title = coalesce(?, title), model = coalesce(?, model) WHERE key = ?",
                (title, model, lease.key),
            )

    # -- events ------------------------------------------------------------------------------------------------------

    def append(
        self, lease: Lease, drafts: Sequence[Draft], deliver: Deliver = to_nobody
    ) -> Coroutine[Any, Any, Sequence[Envelope]]:
        """Store events, all or none, and answer once they are durable. See `EventWriter.append`."""
        return self._writer.append(lease, drafts, deliver)

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

    async def blob(self, conversation_id: str, ref: BlobRef) -> Blob | None:
        """The picture that an event of that conversation refers to; None where it is not there."""
        rows = await self._read.execute_fetchall(
            "SELECT b.data FROM blobs b JOIN conversations c ON c.key = b.conversation WHERE c.id = ? AND b.digest = ?",
            (conversation_id, ref.digest),
        )
        for (data,) in rows:
            return Blob(ref, data)
        return None

    async def snapshot(self, conversation_id: str, made_by: str) -> tuple[int, str] | None:
        """The newest snapshot of a conversation's state that is `made_by` this: its last event's id, and its text."""
        rows = await self._read.execute_fetchall(
            "SELECT s.event, s.state FROM snapshots s JOIN conversations c ON c.key = s.conversation"
            " WHERE c.id = ? AND s.made_by = ?",
            (conversation_id, made_by),
        )
        return next(((int(event), str(state)) for event, state in rows), None)

    async def keep_snapshot(self, lease: Lease, event_id: int, made_by: str, state: str) -> None:
        """Keep a snapshot in the place of the last one. Raises StoreError."""
        async with self._writer.writing("The snapshot could not be stored") as connection:
            await connection.execute(
                "INSERT OR REPLACE INTO snapshots (conversation, event, made_by, state)"
                " SELECT ?1, ?2, ?3, ?4 WHERE ?5 = (SELECT token FROM leases WHERE conversation = ?1)",
                (lease.key, event_id, made_by, state, lease.token),
            )

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


_SAID_WITHIN = 200_000
"""Events among which `said` looks: about 100 ms of reading, and more than most homes ever have."""
_SAID_BYTES = 40_000
"""A longer message is a document that was pasted, and nobody writes it again."""

_INFO = (
    "c.id, c.title, c.workspace, c.model, c.created_at,"
    " coalesce((SELECT e.timestamp FROM events e WHERE e.conversation = c.key ORDER BY e.id DESC LIMIT 1),"
    "  c.created_at) AS updated_at,"
    " coalesce((SELECT max(e.id) + 1 FROM events e WHERE e.conversation = c.key), 0),"
    " c.parent, c.parent_action, c.repository"
)
"""The columns of which a ConversationInfo is made."""


_BELOW = (
    "WITH RECURSIVE below (id) AS (SELECT id FROM conversations WHERE parent = ?1"
    " UNION SELECT c.id FROM conversations c JOIN below ON c.parent = below.id)"
)


def _info(row: Sequence[Any]) -> ConversationInfo:
    values: list[Any] = [*row[:4], *map(datetime.fromisoformat, row[4:6]), *row[6:]]
    return ConversationInfo(*values)


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
