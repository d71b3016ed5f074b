"""EventStore: all conversations of a home in one SQLite file, for reading (EventReader) and writing.

An append returns only after its commit (WAL, `synchronous=FULL`). Ids of a conversation start at 0 and have no gaps.
Only the owner of a conversation's lease writes to it, checked by the database in the same transaction. Importing,
forking and deleting a conversation is one transaction. One connection writes (EventWriter), another reads.

Used by EventStream, the conversation manager and imports.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from core.errors import StoreBusyError, StoreError, UsageError
from core.events import Envelope
from core.store import database, replication, search_index
from core.store.blobs import Blob
from core.store.conversations import NewConversation, unknown_conversation
from core.store.database import aiosqlite, remedy, sqlite3
from core.store.event_rows import ADD_EVENT, UPDATE_FACTS, Facts, StoredEvents, event_row, unpack
from core.store.locks import ProcessMark
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame, RecordedRow, pack_frames
from core.store.replication import ChangeSet
from core.store.search_index import Hit
from core.store.writer import (
    ADD_BLOB,
    ADD_RECORDING,
    ADD_SPENDING,
    Deliver,
    Draft,
    EventWriter,
    Lease,
    Spent,
)

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class EventStore(EventReader):
    """The database of one home, open. Use as an async context manager; `clock` gives the time of new events."""

    def __init__(self, home: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__(home)
        self._clock = clock
        self._writer = EventWriter(self.path, clock)

    def _acquire_mark(self, locks: Path) -> None:
        self.mark = ProcessMark(locks)
        self._writer.notify = self.mark.touch

    def _release_locks(self) -> None:
        self.mark.release()
        super()._release_locks()

    async def _connect(self, stack: AsyncExitStack) -> None:
        try:
            await self._writer.open()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be opened: {error}. {remedy(error)}") from error
        stack.push_async_callback(self._writer.close)
        await super()._connect(stack)
        stack.push_async_callback(self._end_writing)

    async def _end_writing(self) -> None:
        """Write all queued appends, then release all leases."""
        await self._writer.finish()
        with suppress(StoreError):
            async with self._writer.writing("The conversations could not be released") as connection:
                await connection.execute("UPDATE leases SET owner = NULL WHERE owner = ?", (self.mark.name,))

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
        """Create a conversation and own it. Raises UsageError if the id is taken."""
        now = self._clock().isoformat()
        async with self._writer.writing("The conversation could not be stored") as connection:
            try:
                await connection.execute(
                    "INSERT INTO conversations (id, title, workspace, model, created_at, updated_at, parent,"
                    " parent_action, repository) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8)",
                    (conversation_id, title, workspace, model, now, parent, parent_action, repository),
                )
            except sqlite3.IntegrityError as error:
                raise UsageError(f"There is a conversation {conversation_id} already.") from error
        return await self.acquire(conversation_id)

    async def acquire(self, conversation_id: str) -> Lease:
        """Take the lease of a conversation that nobody owns, or whose owner is dead.

        Raises UsageError for an unknown conversation, StoreBusyError if a living process owns it.
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
        raise unknown_conversation(conversation_id)

    async def release(self, lease: Lease) -> None:
        with suppress(StoreError):  # the lock file shows it to others when this process ends
            async with self._writer.writing("The conversation could not be released") as connection:
                await connection.execute(
                    "UPDATE leases SET owner = NULL WHERE conversation = ? AND token = ?", (lease.key, lease.token)
                )

    async def update_conversation(self, lease: Lease, *, title: str | None = None, model: str | None = None) -> None:
        """Change title or model of a conversation that we own."""
        async with self._writer.writing("The conversation's name could not be stored") as connection:
            await connection.execute(
                "UPDATE conversations SET title = coalesce(?, title), model = coalesce(?, model) WHERE key = ?",
                (title, model, lease.key),
            )

    async def add_spending(self, spent: Spent) -> None:
        """Add a cost without an event, such as that of a title, to today's spending. Raises StoreError."""
        async with self._writer.writing("The spending could not be stored") as connection:
            await connection.execute(ADD_SPENDING, (self._clock().date().isoformat(), *astuple(spent)))

    async def rename(self, conversation_id: str, title: str) -> None:
        """Change the title of a conversation, even if another process has it open. Raises StoreError or UsageError."""
        async with self._writer.writing("The conversation's name could not be stored") as connection:
            cursor = await connection.execute(
                "UPDATE conversations SET title = ? WHERE id = ?", (title, conversation_id)
            )
            if cursor.rowcount == 0:
                raise unknown_conversation(conversation_id)

    # -- events ------------------------------------------------------------------------------------------------------

    def append(
        self, lease: Lease, drafts: Sequence[Draft], deliver: Deliver = lambda envelopes: None
    ) -> Coroutine[Any, Any, Sequence[Envelope]]:
        """Store events, all or none, and return once they are durable. See `EventWriter.append`."""
        return self._writer.append(lease, drafts, deliver)

    async def record(self, lease: Lease, rows: Sequence[RecordedRow]) -> None:
        """Store terminal output after the last event. Logs errors instead of raising: only a recording is lost."""
        try:
            async with self._writer.writing("The recording could not be stored") as connection:
                await connection.executemany(ADD_RECORDING, [row.row(lease.key) for row in rows])
        except StoreError as error:
            log.warning("conversation %s: %s", lease.conversation_id, error)

    async def save_snapshot(self, lease: Lease, event_id: int, made_by: str, state: str) -> None:
        """Replace the snapshot of a conversation. Raises StoreError."""
        async with self._writer.writing("The snapshot could not be stored") as connection:
            await connection.execute(
                "INSERT OR REPLACE INTO snapshots (conversation, event, made_by, state)"
                " SELECT ?1, ?2, ?3, ?4 WHERE ?5 = (SELECT token FROM leases WHERE conversation = ?1)",
                (lease.key, event_id, made_by, state, lease.token),
            )

    # -- whole conversations -----------------------------------------------------------------------------------------

    async def adopt(
        self,
        new: NewConversation,
        envelopes: Sequence[Envelope],
        *,
        blobs: Iterable[Blob] = (),
        recorded: Sequence[RecordedFrame] = (),
    ) -> str:
        """Store a whole conversation, completely or not at all. Returns its id. Ids of `envelopes` are 0, 1, 2, ...

        Raises UsageError if the id is taken, StoreError, and ValueError for an event that is not JSON.
        """
        if isinstance(envelopes, StoredEvents):
            stored = envelopes
        else:
            stored = await asyncio.to_thread(StoredEvents, new.id, envelopes)
        frames = await asyncio.to_thread(pack_frames, recorded)
        async with self._new_conversation(new) as (connection, key):
            # Generators, so that the writing thread makes the rows, not the event loop.
            await connection.executemany(ADD_EVENT, ((key, *row) for row in stored.rows))
            await connection.execute(UPDATE_FACTS, stored.facts.row(key))
            await connection.executemany(ADD_BLOB, (blob.row(key) for blob in blobs))
            await connection.executemany(ADD_RECORDING, (row.row(key) for row in frames))
        return new.id

    async def fork(self, conversation_id: str, upto: int, new: NewConversation, then: Sequence[Draft] = ()) -> str:
        """Copy the events 0 to `upto` of a conversation, with pictures and recordings, to a new one. Returns its id.

        `then` are events that follow them. The original may stay open. Raises UsageError for an unknown conversation or
        event, StoreError.
        """
        facts = Facts()
        after = -1
        while page := await self.read(conversation_id, after=after, before=upto + 1, limit=500):
            for envelope in page:
                facts = facts.after(envelope.event, envelope.source)
            after = page[-1].id
        if after != upto:
            raise UsageError(
                f"Conversation {conversation_id} has no event {upto}. `handloom show ID` shows how many it has."
            )
        source = await self._key(conversation_id)
        async with self._new_conversation(new) as (connection, key):
            for table, columns, condition in (
                ("events", "id, timestamp, source, cause, kind, 1, body", "id <= ?3"),
                ("blobs", "digest, media_type, width, height, data", "?3 >= 0"),
                ("recordings", '"after", number, at, frames', '"after" < ?3'),
            ):
                await connection.execute(
                    f"INSERT INTO {table} SELECT ?1, {columns} FROM {table}"  # noqa: S608
                    f" WHERE conversation = ?2 AND {condition} ORDER BY rowid",
                    (key, source, upto),
                )
            now = self._clock()
            for id, draft in enumerate(then, upto + 1):
                await connection.execute(ADD_EVENT, event_row(key, 1, draft.at(new.id, id, now)))
            await connection.execute(UPDATE_FACTS, facts.row(key))
        return new.id

    @asynccontextmanager
    async def _new_conversation(self, new: NewConversation) -> AsyncIterator[tuple[aiosqlite.Connection, int]]:
        """A transaction that fills a new conversation, owned by nobody, and its key."""
        origin = new.origin, new.origin_of, new.origin_event, new.repository
        created_at = (new.created_at or self._clock()).astimezone(UTC).isoformat()
        async with self._transaction("The conversation could not be stored") as connection:
            try:
                await connection.execute(
                    "INSERT INTO conversations (id, title, workspace, model, created_at, updated_at, origin, origin_of,"
                    " origin_event, repository) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9)",
                    (new.id, new.title, new.workspace, new.model, created_at, *origin),
                )
            except sqlite3.IntegrityError as error:
                raise UsageError(f"There is a conversation {new.id} already.") from error
            ((key,),) = await connection.execute_fetchall("SELECT last_insert_rowid()")
            await connection.execute("INSERT INTO leases (conversation, token, owner) VALUES (?, 1, NULL)", (key,))
            yield connection, key

    async def apply_changes(self, changes: ChangeSet) -> bool:
        """Store what a conversation has gained on another machine; this process owns its copy until it releases it.

        Returns False if the conversation is here already and not such a copy. Raises StoreError.
        """
        async with self._transaction("The events of another machine could not be stored") as connection:
            is_new = await replication.begin(connection, changes)
            ((key, token, owner, next_id),) = await connection.execute_fetchall(
                "SELECT c.key, coalesce(l.token, 1), l.owner,"
                " (SELECT coalesce(max(e.id) + 1, 0) FROM events e WHERE e.conversation = c.key)"
                " FROM conversations c LEFT JOIN leases l ON l.conversation = c.key WHERE c.id = ?",
                (changes.conversation,),
            )
            if is_new:
                await connection.execute(
                    "INSERT INTO leases (conversation, token, owner) VALUES (?, ?, ?)", (key, token, self.mark.name)
                )
            elif owner != self.mark.name:
                return False
            await replication.write_changes(connection, key, token, next_id, changes)
        return True

    async def release_copy(self, conversation_id: str) -> None:
        """Release the copy of a conversation of another machine."""
        with suppress(StoreError):
            async with self._writer.writing("The conversation could not be released") as connection:
                await connection.execute(
                    "UPDATE leases SET owner = NULL WHERE owner = ? AND conversation ="
                    " (SELECT key FROM conversations WHERE id = ?)",
                    (self.mark.name, conversation_id),
                )

    async def delete_conversation(self, conversation_id: str) -> None:
        """Delete a conversation and its delegates, all or none, and overwrite their bytes.

        Raises UsageError for an unknown conversation, StoreBusyError if a living process has one of them open.
        """
        below = [info.id for info in await self.descendants(conversation_id)]
        await self._with_index(lambda: self._delete([conversation_id, *below]), deleting=True)
        with suppress(StoreError):  # an active reader delays this until the next commit
            async with self._writer.writing("The deleted pages could not be reclaimed") as connection:
                await connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    async def _delete(self, ids: Sequence[str]) -> None:
        async with self._transaction("The conversation could not be deleted") as connection:
            for id in ids:
                lease = await self._acquire(connection, id)
                await self._remove_from_index(connection, lease.key)
                await connection.execute("DELETE FROM conversations WHERE key = ?", (lease.key,))

    @asynccontextmanager
    async def _transaction(self, failure: str) -> AsyncIterator[aiosqlite.Connection]:
        async with self._writer.writing(failure) as connection:
            await connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                await connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    await connection.execute("ROLLBACK")
                raise

    # -- the index for search ----------------------------------------------------------------------------------------

    async def index(self, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Update the search index, a piece at a time. Returns how many events are still missing.

        `should_stop` is asked after each piece. Other writes run between two pieces. A damaged index is rebuilt. Raises
        StoreError.
        """
        return await self._with_index(lambda: self._index(should_stop))

    async def search(
        self, text: str, *, limit: int = 50, conversation_id: str | None = None, before: Hit | None = None
    ) -> list[Hit]:
        """As in EventReader; a damaged index is cleared first."""
        search = super().search
        return await self._with_index(lambda: search(text, limit=limit, conversation_id=conversation_id, before=before))

    async def clear_index(self) -> None:
        """Clear the search index, so that `index` rebuilds it. Raises StoreError."""
        async with self._transaction("The search index could not be cleared") as connection:
            for statement in database.CLEAR_INDEX:
                await connection.execute(statement)

    async def _with_index(self, work: Callable[[], Coroutine[Any, Any, Result]], *, deleting: bool = False) -> Result:
        """Do something with the index; if it is damaged, clear it and try again."""
        try:
            return await work()
        except StoreError as error:
            if not search_index.is_damaged(error.__cause__, deleting=deleting):
                raise
            log.warning("the search index is damaged and will be rebuilt: %s", error)
        await self.clear_index()
        return await work()

    async def _index(self, should_stop: Callable[[], bool]) -> int:
        await self._check_index_version()
        while not should_stop():
            behind = await self._fetch(
                "SELECT c.key, coalesce(i.upto, 0) FROM conversations c LEFT JOIN indexed i ON i.conversation = c.key"
                " WHERE c.event_count > coalesce(i.upto, 0) ORDER BY c.updated_at DESC LIMIT 50"
            )
            for key, upto in behind:
                await self._index_batch(key, upto)
            if not behind:
                break
        return await self.count_unindexed()

    async def _check_index_version(self) -> None:
        """Clear an index of another `search_index.INDEX_VERSION`."""
        if list(await self._fetch("SELECT form FROM index_form")) == [(search_index.INDEX_VERSION,)]:
            return
        async with self._transaction("The search index could not be made") as connection:
            for statement in (
                "INSERT INTO words (words) VALUES ('delete-all')",
                "INSERT INTO characters (characters) VALUES ('delete-all')",
                "DELETE FROM indexed",
                "DELETE FROM index_form",
            ):
                await connection.execute(statement)
            await connection.execute("INSERT INTO index_form VALUES (?)", (search_index.INDEX_VERSION,))

    async def _index_batch(self, key: int, upto: int) -> None:
        """Index the next events of a conversation, from `upto` on."""
        rows = list(await self._fetch(_INDEX_BATCH, (key, upto, _INDEX_BATCH_EVENTS)))
        texts = await asyncio.to_thread(_texts, rows)
        async with self._transaction("The search index could not be written") as connection:
            indexed = await connection.execute_fetchall("SELECT upto FROM indexed WHERE conversation = ?", (key,))
            exists = await connection.execute_fetchall("SELECT 1 FROM conversations WHERE key = ?", (key,))
            if not exists or next((at for (at,) in indexed), 0) != upto:
                return  # it was deleted, or another process was faster
            await self._add_to_index(connection, key, texts, rows[-1][0] + 1 if rows else upto)

    async def _add_to_index(
        self, connection: aiosqlite.Connection, key: int, texts: Iterable[tuple[int, str]], upto: int
    ) -> None:
        """Index the texts of events, each with its event's id, in a transaction; then all before `upto` are indexed."""
        words = [(search_index.row_of(key, id), text) for id, text in texts]
        characters = [(row, runs) for row, text in words if (runs := search_index.runs_of(text))]
        await connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", words)
        await connection.executemany("INSERT INTO characters (rowid, text) VALUES (?, ?)", characters)
        await connection.execute(
            "INSERT INTO indexed (conversation, upto) VALUES (?1, ?2)"
            " ON CONFLICT (conversation) DO UPDATE SET upto = ?2",
            (key, upto),
        )

    async def _remove_from_index(self, connection: aiosqlite.Connection, key: int) -> None:
        """Remove a conversation from the index. A contentless table must be given the content to remove."""
        indexed = await connection.execute_fetchall("SELECT upto FROM indexed WHERE conversation = ?", (key,))
        upto, after = next((at for (at,) in indexed), 0), 0
        while after < upto:
            rows = list(
                await connection.execute_fetchall(_INDEX_BATCH, (key, after, min(_INDEX_BATCH_EVENTS, upto - after)))
            )
            texts = await asyncio.to_thread(_texts, rows)
            words = [(search_index.row_of(key, id), text) for id, text in texts]
            characters = [(row, runs) for row, text in words if (runs := search_index.runs_of(text))]
            for table, removed in (("words", words), ("characters", characters)):
                await connection.executemany(
                    f"INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', ?, ?)",  # noqa: S608
                    removed,
                )
            after += _INDEX_BATCH_EVENTS


_INDEX_BATCH = "SELECT id, body FROM events WHERE conversation = ? AND id >= ? ORDER BY id LIMIT ?"
_INDEX_BATCH_EVENTS = 500
"""Events indexed in one transaction: an append waits some milliseconds for it."""


def _texts(rows: Iterable[sqlite3.Row]) -> list[tuple[int, str]]:
    """The id and the searchable text of each event."""
    return [(id, search_index.text_of(unpack(body))) for id, body in rows]
