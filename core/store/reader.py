"""EventReader: read access to a home's database, `handloom.db`, for everything that shows, searches or exports.

Its connection refuses to write. The database schema is upgraded before anything is read. The process holds a shared
lock of the home while it reads. Directories have mode 0700, files 0600. EventStore adds writing.
"""

from __future__ import annotations

import asyncio
import json
import os
from array import array
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, TypedDict, Unpack

from core.errors import StoreBusyError, StoreError
from core.events import Envelope, EventSource, envelope_from_dict
from core.store import conversations, database
from core.store.blobs import Blob, BlobRef
from core.store.conversations import ConversationFilter, ConversationInfo, ConversationListing
from core.store.database import LANDMARKS, can_be_shared, connect, remedy, sqlite3, version
from core.store.event_rows import BODY, install_body_function, unpack
from core.store.locks import FileLock
from core.store.recordings import HEAD_BYTES, RecordedFrame, RecordedRow, unpack_frames, unpack_head
from core.store.replication import ChangeSet, Cursor, read_changes
from core.store.search_index import ROW_SHIFT, Hit, Query, row_of, text_of
from core.store.writer import Spent


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter for events. Empty fields match everything."""

    kinds: frozenset[str] = frozenset()
    """Stored names: `action:run`, `observation:run`, ..."""
    sources: frozenset[EventSource] = frozenset()
    query: str = ""
    """A text that the stored form contains. Ignores ASCII case."""
    since: datetime | None = None
    until: datetime | None = None


class Which(TypedDict, total=False):
    """Which events to read; all by default."""

    after: int
    """Ids above this one."""
    before: int | None
    """Ids below this one."""
    limit: int | None
    """At most this many, from the first on."""
    newest: bool
    """The last `limit` instead of the first."""
    where: EventFilter | None


@dataclass(frozen=True, slots=True)
class EventTimes:
    """When the events of a conversation were written."""

    times: array[float]
    """Of each event, in the order of ids: seconds since 1970, to the millisecond. They may go back: clocks jump."""
    turns: array[int]
    """The ids of the user's messages."""


RecordingRow: TypeAlias = tuple[int, int]
"""A stored row of a recording: the event that was the newest then, and the number of the row after it."""


class RecordedPage(NamedTuple):
    frames: list[RecordedFrame]
    end: RecordingRow | None
    """The last row that was read; None at the end."""


class EventReader:
    """Read access to the database of one home. Use as an async context manager."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / database.DATABASE

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await asyncio.to_thread(self._prepare_files)
            stack.push_async_callback(asyncio.to_thread, self._release_locks)
            await self._connect(stack)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._exit.aclose()

    async def _fetch(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        """All rows of a query. Raises StoreError."""
        try:
            return list(await self._read.execute_fetchall(statement, values))
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be read: {error}. {remedy(error)}") from error

    async def _connect(self, stack: AsyncExitStack) -> None:
        try:
            self._read = await connect(self.path, database.READER_PRAGMAS)
            self.listing = ConversationListing(self._fetch)
            stack.push_async_callback(self._read.close)
            await install_body_function(self._read)
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be opened: {error}. {remedy(error)}") from error

    def _prepare_files(self) -> None:
        """Create folders and file with their modes, take the shared lock, upgrade the schema."""
        try:
            locks = self.home / "locks"
            for folder in (self.home, locks):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
            self._share = FileLock(locks / "share.lock")
            self._acquire_home_lock()
            try:
                with FileLock(locks / "schema.lock"):
                    database.check_can_open(self.path)
                    os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                    self.path.chmod(0o600)
                    database.upgrade(self.path)
                self._acquire_mark(locks)
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
        self._share.release()

    def _acquire_mark(self, locks: Path) -> None:
        """Readers need no process mark."""

    def _acquire_home_lock(self) -> None:
        """Take the home's lock: shared only if this SQLite has the WAL-reset fix."""
        shared = can_be_shared()
        if self._share.try_acquire(shared=shared):
            return
        version_text = ".".join(map(str, version()))
        raise StoreBusyError(
            f"Another Handloom uses {self.home}, and only one at a time can, because "
            + ("it" if shared else f"this Python's SQLite ({version_text})")
            + " lacks the fix for the WAL-reset bug (3.51.3). Close the other one, set HANDLOOM_HOME to another "
            "folder, or install the package pysqlite3."
        )

    # -- conversations -------------------------------------------------------------------------------------------

    async def conversations(
        self,
        *,
        limit: int = 1000,
        conversation_id: str | None = None,
        where: ConversationFilter | None = None,
        before: ConversationInfo | None = None,
    ) -> list[ConversationInfo]:
        """Conversations, the latest event first; with `before`, the `limit` conversations that follow it."""
        conditions, values = conversations.where_clauses(where or ConversationFilter())
        if conversation_id is not None:
            conditions.append("c.id = ?")
            values.append(conversation_id)
        if before is not None:
            conditions.append("(c.updated_at, c.id) < (?, ?)")
            values += [before.updated_at.isoformat(), before.id]
        rows = await self._fetch(
            f"SELECT {conversations.COLUMNS} FROM conversations c WHERE {' AND '.join(conditions) or 'true'}"  # noqa: S608
            " ORDER BY c.updated_at DESC, c.id DESC LIMIT ?",
            [*values, limit],
        )
        return [conversations.info_from_row(row) for row in rows]

    async def conversation(self, conversation_id: str) -> ConversationInfo:
        """The conversation with this id. Raises UsageError if there is none."""
        for info in await self.conversations(conversation_id=conversation_id):
            return info
        raise conversations.unknown_conversation(conversation_id)

    async def user_inputs(self, *, workspace: str, limit: int) -> list[str]:
        """Messages and `!commands` of the user, the newest first, those in this workspace before all others.

        Only the newest events of the home are searched, so that the cost is bounded. Delegates are left out.
        """
        rows = await self._fetch(
            "SELECT CASE kind WHEN 'action:run' THEN '!' || json_extract(body, '$.args.command')"  # noqa: S608
            "  ELSE json_extract(body, '$.args.content') END"
            f" FROM (SELECT e.rowid AS number, e.kind, {_BODY} AS body, c.workspace = ?1 AS is_here"
            "  FROM events e JOIN conversations c ON c.key = e.conversation"
            "  WHERE e.rowid > (SELECT max(rowid) FROM events) - ?3 AND e.source = 'user' AND c.parent = ''"
            "  AND e.kind IN ('action:message', 'action:run') AND length(e.body) <= ?4)"
            " ORDER BY is_here DESC, number DESC LIMIT ?2",
            (workspace, limit, _INPUT_SEARCH_EVENTS, _MAX_INPUT_BYTES),
        )
        return [text for (text,) in rows if isinstance(text, str)]

    async def descendants(self, conversation_id: str) -> list[ConversationInfo]:
        """The conversations that this one delegated to, directly or indirectly; the oldest first."""
        rows = await self._fetch(
            f"{_DESCENDANTS} SELECT {conversations.COLUMNS} FROM conversations c"  # noqa: S608
            " WHERE c.id IN below AND c.id <> ?1 ORDER BY c.key",
            (conversation_id,),
        )
        return [conversations.info_from_row(row) for row in rows]

    async def count_conversations(self) -> int:
        ((count,),) = await self._fetch("SELECT count(*) FROM conversations")
        return int(count)

    async def events_by_kind(self) -> dict[str, int]:
        """The number of events of each kind (`action:run`) in this home, the most frequent first."""
        rows = await self._fetch("SELECT kind, count(*) AS number FROM events GROUP BY kind ORDER BY number DESC, kind")
        return {row[0]: row[1] for row in rows}

    async def spent(self, day: date | None = None) -> Spent:
        """What all conversations of this home have cost on a day (UTC), or in total."""
        (row,) = await self._fetch(
            "SELECT total(calls), total(cost), total(unpriced), total(tokens), total(seconds) FROM spending"
            " WHERE ?1 IS NULL OR day = ?1",
            (day and day.isoformat(),),
        )
        return Spent(int(row[0]), row[1], int(row[2]), int(row[3]), row[4])

    async def spent_by_day(self, *, limit: int = 30) -> dict[date, Spent]:
        """As `spent`, for the newest days (UTC) with spending; the newest first."""
        rows = await self._fetch(
            "SELECT day, calls, cost, unpriced, tokens, seconds FROM spending ORDER BY day DESC LIMIT ?", (limit,)
        )
        return {date.fromisoformat(row[0]): Spent(*row[1:]) for row in rows}

    # -- events ------------------------------------------------------------------------------------------------

    async def read(self, conversation_id: str, **which: Unpack[Which]) -> list[Envelope]:
        """Events of a conversation, in the order of ids."""
        bodies = await self.read_json(conversation_id, **which)
        return [envelope_from_dict(json.loads(body), conversation_id) for body in bodies]

    async def blob(self, conversation_id: str, ref: BlobRef) -> Blob | None:
        """The picture that an event of the conversation refers to; None if it is not stored."""
        rows = await self._fetch(
            "SELECT b.data FROM blobs b JOIN conversations c ON c.key = b.conversation WHERE c.id = ? AND b.digest = ?",
            (conversation_id, ref.digest),
        )
        return next((Blob(ref, data) for (data,) in rows), None)

    async def snapshot(self, conversation_id: str, made_by: str) -> tuple[int, str] | None:
        """The snapshot of a conversation's state with this `made_by`: its last event's id, and its text."""
        rows = await self._fetch(
            "SELECT s.event, s.state FROM snapshots s JOIN conversations c ON c.key = s.conversation"
            " WHERE c.id = ? AND s.made_by = ?",
            (conversation_id, made_by),
        )
        return next(((int(event), str(state)) for event, state in rows), None)

    async def read_json(self, conversation_id: str, **which: Unpack[Which]) -> list[str]:
        """As `read`, in the stored form: one JSON text for each event."""
        before, limit, newest = which.get("before"), which.get("limit"), which.get("newest", False)
        clauses = ["e.conversation = (SELECT key FROM conversations WHERE id = ?)", "e.id > ?", "e.id < ?"]
        values: list[Any] = [conversation_id, which.get("after", -1), _MAX_ID if before is None else before]
        if (where := which.get("where")) is not None:
            _add_filter(where, clauses, values)
        values.append(-1 if limit is None else limit)
        order = "DESC" if newest else "ASC"
        rows = list(
            await self._fetch(
                f"SELECT e.body FROM events e WHERE {' AND '.join(clauses)} ORDER BY e.id {order} LIMIT ?",  # noqa: S608
                values,
            )
        )
        return [unpack(row[0]) for row in (reversed(rows) if newest else rows)]

    async def latest(self, conversation_id: str, kinds: frozenset[str], before: int) -> Envelope | None:
        """The last event of one of these kinds with an id below `before`, or None.

        Uses an index if all kinds are in `core.store.database.LANDMARKS`, else reads backwards.
        """
        marks = f"e.kind IN ({database.LANDMARK_LIST}) AND " if kinds <= LANDMARKS else ""
        rows = await self._fetch(
            f"SELECT e.body FROM events e WHERE {marks}e.kind IN ({', '.join('?' * len(kinds))}) AND e.id < ?"  # noqa: S608
            " AND e.conversation = (SELECT key FROM conversations WHERE id = ?) ORDER BY e.id DESC LIMIT 1",
            [*sorted(kinds), before, conversation_id],
        )
        found = (envelope_from_dict(json.loads(unpack(body)), conversation_id) for (body,) in rows)
        return next(found, None)

    async def event_times(self, conversation_id: str, *, after: int = -1) -> EventTimes:
        """The times of all events after `after`: about half a second for a million events."""
        key = await self._key(conversation_id)
        ((times,),) = await self._fetch(  # one row: a row for each event would cost more than reading them
            "SELECT group_concat(coalesce(unixepoch(timestamp, 'subsec'), 0))"
            " FROM (SELECT timestamp FROM events WHERE conversation = ? AND id > ? ORDER BY id)",
            (key, after),
        )
        turns = await self._fetch(
            f"SELECT id FROM events WHERE conversation = ? AND kind IN ({database.LANDMARK_LIST})"  # noqa: S608
            " AND kind = 'action:message' AND source = 'user' AND id > ? ORDER BY id",
            (key, after),
        )
        seconds = await asyncio.to_thread(lambda: array("d", map(float, times.split(",") if times else ())))
        return EventTimes(seconds, array("q", (row[0] for row in turns)))

    async def causes(self, conversation_id: str, before: int) -> frozenset[int]:
        """The ids of the events that caused one of the events before `before`."""
        rows = await self._fetch(
            "SELECT DISTINCT cause FROM events WHERE conversation = ? AND id < ? AND cause IS NOT NULL",
            (await self._key(conversation_id), before),
        )
        return frozenset(cause for (cause,) in rows)

    async def answers(
        self, conversation_id: str, *, after: int = -1, before: int | None = None
    ) -> list[tuple[int, int]]:
        """The ids of events that came with model answers, and how many answers; in order.

        Answers of delegates count at their result. Reads the kind of every event with `after` < id < `before`.
        """
        end = _MAX_ID if before is None else before
        rows = await self._fetch(_ANSWERS, (await self._key(conversation_id), after, end))
        return [(row[0], row[1]) for row in rows if isinstance(row[1], int) and 0 < row[1] <= _MOST_ANSWERS]

    async def recorded(
        self, conversation_id: str, *, after: int = -1, before: int | None = None, beyond: RecordingRow | None = None
    ) -> RecordedPage:
        """Terminal output after the events with `after` <= id < `before`, in order, from the row after `beyond` on.

        Reads at most RECORDED_BYTES and one row.
        """
        page, size = RecordedPage([], None), 0
        rows = await self._fetch(
            'SELECT "after", number, at, frames FROM recordings'
            ' WHERE conversation = ? AND ("after", number) > (?, ?) AND "after" < ? ORDER BY "after", number LIMIT ?',
            (await self._key(conversation_id), *(beyond or (after, -1)), _MAX_ID if before is None else before,
             _RECORDED_ROWS),
        )  # fmt: skip
        for event_id, number, at, data in rows:
            if size >= RECORDED_BYTES:
                return page
            for frame in unpack_frames(RecordedRow(event_id, datetime.fromisoformat(at), data)):
                page.frames.append(frame)
                size += len(frame.frame.data) + _FRAME_BYTES
            page = page._replace(end=(event_id, number))
        return page if len(rows) == _RECORDED_ROWS else page._replace(end=None)

    async def recorded_tail(
        self, conversation_id: str, *, after: int, before: int, least_bytes: int
    ) -> list[RecordedFrame]:
        """The last terminal output after the events with `after` <= id < `before`, in order.

        Returns the last `least_bytes` or slightly more. Earlier output is represented by empty frames, one for each
        stored row.
        """
        key, upto = await self._key(conversation_id), (before, -1)
        tail: list[RecordedFrame] = []
        size = 0
        where = 'conversation = ? AND "after" >= ? AND ("after", number) < (?, ?) ORDER BY "after"'
        while size < least_bytes:
            rows = await self._fetch(
                f'SELECT "after", number, at, frames FROM recordings WHERE {where} DESC, number DESC LIMIT 1',  # noqa: S608
                (key, after, *upto),
            )
            if not rows:
                return tail
            ((event_id, number, at, data),) = rows
            upto = event_id, number
            tail[:0] = (frames := list(unpack_frames(RecordedRow(event_id, datetime.fromisoformat(at), data))))
            size += sum(len(each.frame.data) for each in frames) + 1  # + 1, so that empty rows end the loop, too
        heads = await self._fetch(
            f'SELECT "after", at, substr(frames, 1, {HEAD_BYTES}) FROM recordings WHERE {where}, number',  # noqa: S608
            (key, after, *upto),
        )
        return [unpack_head(RecordedRow(row[0], datetime.fromisoformat(row[1]), row[2])) for row in heads] + tail

    async def changes_after(self, conversation_id: str, cursor: Cursor) -> ChangeSet:
        """What a conversation has gained after a cursor, to be stored on another machine. Raises StoreError."""
        return await read_changes(self._fetch, conversation_id, cursor)

    async def _key(self, conversation_id: str) -> int:
        """The key of a conversation in the tables; -1 if there is none."""
        rows = await self._fetch("SELECT key FROM conversations WHERE id = ?", (conversation_id,))
        return next((int(key) for (key,) in rows), -1)

    # -- search ------------------------------------------------------------------------------------------------------

    async def search(
        self, text: str, *, limit: int = 50, conversation_id: str | None = None, before: Hit | None = None
    ) -> list[Hit]:
        """Events with all words of `text`: the newest conversation first, in it the newest event first.

        `word*` matches a prefix, `"two words"` a phrase; Chinese, Japanese and Korean match in any length. With
        `before`, the hits that follow it. Events that are not indexed yet are not found (`count_unindexed`).
        """
        query = Query.parse(text)
        if not query.terms:
            return []
        first, end = 0, 2**62
        if conversation_id is not None:
            key = await self._key(conversation_id)
            first, end = row_of(key, 0), row_of(key + 1, 0)
        end = end if before is None else before.row
        hits: list[Hit] = []
        while len(hits) < limit:
            statement, values = query.statement(first, end, limit)
            rows = [row for (row,) in await self._fetch(statement, values)]
            for row in rows:
                if (hit := await self._hit(query, row)) is not None and len(hits) < limit:
                    hits.append(hit)
            if len(rows) < limit:
                break
            end = rows[-1]
        return hits

    async def _hit(self, query: Query, row: int) -> Hit | None:
        """The hit in the event of this row; None if it does not match, or was deleted."""
        found = await self._fetch(
            "SELECT c.id, e.id, e.timestamp, e.kind, e.body FROM events e"
            " JOIN conversations c ON c.key = e.conversation WHERE e.conversation = ? AND e.id = ?",
            (row >> ROW_SHIFT, row & (1 << ROW_SHIFT) - 1),
        )
        for conversation_id, event_id, timestamp, kind, body in found:
            if (excerpt := query.excerpt(text_of(unpack(body)))) is not None:
                return Hit(conversation_id, event_id, datetime.fromisoformat(timestamp), kind, *excerpt, row)
        return None

    async def count_unindexed(self) -> int:
        """The number of events that are not indexed yet."""
        ((count,),) = await self._fetch(
            "SELECT coalesce(sum(c.event_count - coalesce(i.upto, 0)), 0) FROM conversations c"
            " LEFT JOIN indexed i ON i.conversation = c.key"
        )
        return int(count)


RECORDED_BYTES = 512 * 1024
"""Recording bytes read at once: some milliseconds, and far more than one frame of a screen shows."""
_RECORDED_ROWS = 32
_FRAME_BYTES = 256
"""The overhead of a frame, for commands that print single letters."""
_MAX_ID = 2**62

_BODY = f"CASE typeof(e.body) WHEN 'blob' THEN {BODY}(e.body) ELSE e.body END"

_ANSWERS = (
    "SELECT min(e.id) AS first, 1 FROM events e WHERE e.conversation = ?1 AND e.id > ?2 AND e.id < ?3"
    " AND e.source = 'agent'"
    " AND e.cause IS NOT NULL AND e.kind <> 'action:condensation'"
    " AND (e.kind LIKE 'action:%' OR e.kind = 'observation:error' AND NOT EXISTS (SELECT 1 FROM events c"
    "  WHERE c.conversation = ?1 AND c.id = e.cause AND c.kind LIKE 'action:%' AND c.kind <> 'action:message'))"
    " GROUP BY e.cause UNION ALL"
    " SELECT e.id, json_extract(_BODY, '$.extras.outputs.iterations') FROM events e"
    " WHERE e.conversation = ?1 AND e.id > ?2 AND e.id < ?3 AND e.kind = 'observation:delegate'"
    " AND e.cause IS NOT NULL ORDER BY first"
).replace("_BODY", _BODY)
"""What counts as an iteration of the agent: as in the controller, except for late answers."""
_MOST_ANSWERS = 1_000_000
"""Answers of one delegate; larger numbers in a file are invalid."""

_INPUT_SEARCH_EVENTS = 200_000
"""Events that `user_inputs` searches: about 100 ms of reading, and more than most homes ever have."""
_MAX_INPUT_BYTES = 40_000
"""Longer messages are pasted documents, and are left out."""

_DESCENDANTS = (
    "WITH RECURSIVE below (id) AS (SELECT id FROM conversations WHERE parent = ?1"
    " UNION SELECT c.id FROM conversations c JOIN below ON c.parent = below.id)"
)


def _add_filter(where: EventFilter, clauses: list[str], values: list[Any]) -> None:
    for column, wanted in (("kind", sorted(where.kinds)), ("source", sorted(where.sources))):
        if wanted:
            clauses.append(f"e.{column} IN ({', '.join('?' * len(wanted))})")
            values.extend(str(value) for value in wanted)
    if where.query:
        clauses.append(f"instr(lower({_BODY}), lower(?)) > 0")
        values.append(where.query)
    for operator, moment in ((">=", where.since), ("<=", where.until)):
        if moment is not None:
            clauses.append(f"e.timestamp {operator} ?")
            values.append(moment.astimezone(UTC).isoformat())
