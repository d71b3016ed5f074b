"""A store whose conversations are copies of sessions that other programs write.

A copy has no owner. It is listed as soon as its facts are known (`put_facts`), and gets its events when somebody has
read the session (`put_events`). It is replaced as a whole, or gains events if the session only grew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.store.blobs import Blob
from core.store.database import aiosqlite
from core.store.event_rows import ADD_EVENT, UPDATE_FACTS, StoredEvents
from core.store.event_store import EventStore
from core.store.writer import ADD_BLOB

_BODY = -1
_MANY = 400
"""Ids in one statement."""
_PUT = (
    "INSERT INTO conversations (id, origin, origin_of, title, workspace, model, created_at, updated_at, parent, cost,"
    " size) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (id) DO UPDATE SET origin_of = ?3,"
    " title = ?4, workspace = ?5, model = ?6, created_at = ?7, updated_at = ?8, parent = ?9,"
    " cost = coalesce(?10, cost), size = ?11"
)
_COPY = "SELECT key FROM conversations WHERE id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFacts:
    """What lists show of a copy."""

    id: str
    origin: str
    """Whose session it is: the name of the agent."""
    origin_of: str
    """The session as that agent names it."""
    title: str
    workspace: str
    model: str
    created_at: datetime
    updated_at: datetime
    parent: str = ""
    """The copy of the session that started this one."""
    cost: float | None = None
    size: int = 0
    """Bytes of the session itself."""

    def row(self) -> tuple[Any, ...]:
        times = (at.astimezone(UTC).isoformat() for at in (self.created_at, self.updated_at))
        texts = (self.id, self.origin, self.origin_of, self.title, self.workspace, self.model)
        return *texts, *times, self.parent, self.cost, self.size


@dataclass(frozen=True, slots=True)
class Copy:
    """A session as it is now."""

    facts: CopyFacts
    events: StoredEvents
    blobs: Sequence[Blob]
    texts: Sequence[str]
    """The searchable text of each event."""


class CopyStore(EventStore):
    """The copies of one home. Everything that reads conversations reads them."""

    async def put_facts(self, copies: Iterable[CopyFacts]) -> None:
        """Add copies without events, or update the facts of known ones. Raises StoreError.

        The newest is added last, because a search lists the conversation that was added last first.
        """
        rows = [copy.row() for copy in sorted(copies, key=lambda copy: copy.updated_at)]
        async with self._transaction("The list of sessions could not be stored") as connection:
            await connection.executemany(_PUT, rows)

    async def put_events(self, copies: Iterable[Copy]) -> None:
        """Store the events of sessions as they are now, and index them. All or none. Raises StoreError."""
        await self._check_index_version()
        async with self._transaction("The sessions could not be stored") as connection:
            for copy in copies:
                await self._put(connection, copy)
        self.mark.touch()

    async def put_beginnings(self, copies: Iterable[Copy]) -> None:
        """Store the first events of sessions; one that has events keeps them. All or none. Raises StoreError."""
        await self._check_index_version()
        async with self._transaction("The sessions could not be stored") as connection:
            for copy in copies:
                if not await _has_events(connection, copy.facts.id):
                    await self._put(connection, copy)
        self.mark.touch()

    async def _put(self, connection: aiosqlite.Connection, copy: Copy) -> None:
        facts, events = copy.facts, copy.events
        known = await _find(connection, facts.id)
        begin = None if known is None else await _common_beginning(connection, known, events)
        if begin is None:
            if known is not None:  # the new one gets another key, by which followers see that it was replaced
                await self._remove_from_index(connection, known)
                await connection.execute("UPDATE conversations SET id = ? WHERE key = ?", (f"{facts.id}-before", known))
            await connection.execute(_PUT, facts.row())
            if known is not None:
                await connection.execute("DELETE FROM conversations WHERE key = ?", (known,))
            begin = 0
        key = await _key(connection, facts.id)
        await connection.execute(
            "INSERT OR IGNORE INTO leases (conversation, token, owner) VALUES (?, 1, NULL)", (key,)
        )
        await connection.executemany(ADD_EVENT, ((key, *row) for row in events.rows[begin:]))
        await connection.executemany(ADD_BLOB, (blob.row(key) for blob in copy.blobs))
        await connection.execute(UPDATE_FACTS, events.facts.row(key))
        cost = events.facts.cost if facts.cost is None else facts.cost
        await connection.execute(_PUT, (*facts.row()[:9], cost, facts.size))
        await self._add_to_index(connection, key, enumerate(copy.texts[begin:], begin), len(copy.texts))

    async def forget(self, ids: Sequence[str]) -> None:
        """Remove copies, with their place in the index. Unknown ids are left out. Raises StoreError."""
        for place in range(0, len(ids), _MANY):
            async with self._transaction("The sessions could not be removed") as connection:
                some = ids[place : place + _MANY]
                known = f"SELECT key FROM conversations WHERE id IN ({', '.join('?' * len(some))})"  # noqa: S608
                for (key,) in list(await connection.execute_fetchall(known, some)):
                    await self._remove_from_index(connection, key)
                    await connection.execute("DELETE FROM conversations WHERE key = ?", (key,))


async def _find(connection: aiosqlite.Connection, id: str) -> int | None:
    rows = await connection.execute_fetchall(_COPY, (id,))
    return next((int(key) for (key,) in rows), None)


async def _has_events(connection: aiosqlite.Connection, id: str) -> bool:
    found = await connection.execute_fetchall(
        "SELECT 1 FROM events WHERE conversation = (SELECT key FROM conversations WHERE id = ?) LIMIT 1", (id,)
    )
    return bool(list(found))


async def _key(connection: aiosqlite.Connection, id: str) -> int:
    ((key,),) = await connection.execute_fetchall(_COPY, (id,))
    return int(key)


async def _common_beginning(connection: aiosqlite.Connection, key: int, events: StoredEvents) -> int | None:
    """How many events are stored, if these are the first of `events`; else None."""
    stored = list(
        await connection.execute_fetchall("SELECT body FROM events WHERE conversation = ? ORDER BY id", (key,))
    )
    if len(stored) > len(events.rows):
        return None
    return len(stored) if all(row[_BODY] == body for row, (body,) in zip(events.rows, stored, strict=False)) else None
