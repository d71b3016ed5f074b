"""Replication: what a conversation has gained, copied from the store of one machine to that of another.

The rows travel as they are stored, so both machines must have the same version of Handloom. A change set that comes
twice changes nothing. `EventReader.changes_after` reads change sets, `EventStore.apply_changes` stores them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.store.database import aiosqlite
from core.store.event_rows import ADD_EVENT

CHANGE_ROWS = 200
"""Rows of each kind in one change set: a commit holds up other writers for milliseconds."""
_FACTS = "title, workspace, model, created_at, parent, parent_action, repository, state, cost, first_line"
_UPDATE = "UPDATE conversations SET title = ?, state = ?, cost = ?, first_line = ? WHERE key = ?"


class Cursor(NamedTuple):
    """How much of a conversation has been copied."""

    event: int = -1
    """The id of the last event."""
    blob: int = 0
    recording: int = 0
    """Rows of the sending database."""


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Some rows of a conversation, and what lists show of it now."""

    conversation: str
    facts: tuple[Any, ...]
    events: list[tuple[Any, ...]]
    blobs: list[tuple[Any, ...]]
    recordings: list[tuple[Any, ...]]
    cursor: Cursor
    """Where the next one begins."""

    @property
    def is_empty(self) -> bool:
        return not (self.events or self.blobs or self.recordings)


async def read_changes(
    fetch: Callable[[str, Sequence[Any]], Awaitable[Sequence[Any]]], conversation_id: str, cursor: Cursor
) -> ChangeSet:
    """What comes after a cursor, at most CHANGE_ROWS of each kind. Raises StoreError."""
    ((key, *facts),) = await fetch(
        f"SELECT key, {_FACTS} FROM conversations WHERE id = ?",  # noqa: S608
        (conversation_id,),
    )
    events = await fetch(
        "SELECT id, timestamp, source, cause, kind, body FROM events WHERE conversation = ? AND id > ?"
        " ORDER BY id LIMIT ?",
        (key, cursor.event, CHANGE_ROWS),
    )
    blobs = await fetch(
        "SELECT rowid, digest, media_type, width, height, data FROM blobs WHERE conversation = ? AND rowid > ?"
        " ORDER BY rowid LIMIT ?",
        (key, cursor.blob, CHANGE_ROWS),
    )
    recordings = await fetch(
        'SELECT rowid, "after", number, at, frames FROM recordings WHERE conversation = ? AND rowid > ?'
        " ORDER BY rowid LIMIT ?",
        (key, cursor.recording, CHANGE_ROWS),
    )
    after = Cursor(
        events[-1][0] if events else cursor.event,
        blobs[-1][0] if blobs else cursor.blob,
        recordings[-1][0] if recordings else cursor.recording,
    )
    rows = ([tuple(row) for row in events], [tuple(row[1:]) for row in blobs], [tuple(row[1:]) for row in recordings])
    return ChangeSet(conversation_id, tuple(facts), *rows, after)


async def write_changes(
    connection: aiosqlite.Connection, key: int, token: int, next_id: int, changes: ChangeSet
) -> None:
    """Store a change set in a conversation that this process owns; for a transaction."""
    new = (row for row in changes.events if row[0] >= next_id)
    await connection.executemany(ADD_EVENT, ((key, *row[:5], token, row[5]) for row in new))
    await connection.executemany(
        "INSERT OR IGNORE INTO blobs (conversation, digest, media_type, width, height, data) VALUES (?, ?, ?, ?, ?, ?)",
        ((key, *row) for row in changes.blobs),
    )
    await connection.executemany(
        'INSERT OR IGNORE INTO recordings (conversation, "after", number, at, frames) VALUES (?, ?, ?, ?, ?)',
        ((key, *row) for row in changes.recordings),
    )
    facts = dict(zip(_FACTS.split(", "), changes.facts, strict=True))
    await connection.execute(_UPDATE, (facts["title"], facts["state"], facts["cost"], facts["first_line"], key))


async def begin(connection: aiosqlite.Connection, changes: ChangeSet) -> bool:
    """Create the conversation of a change set, for a transaction. Returns False if it is there already."""
    columns = _FACTS.split(", ")
    done = await connection.execute(
        f"INSERT OR IGNORE INTO conversations (id, {_FACTS}, updated_at)"  # noqa: S608
        f" VALUES (?{', ?' * len(columns)}, ?)",
        (changes.conversation, *changes.facts, changes.facts[columns.index("created_at")]),
    )
    return done.rowcount == 1
