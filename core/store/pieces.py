"""Pieces: what a conversation has gained, carried from the store of one machine to that of another.

The rows travel as they are stored, so both machines must have the same version of Handloom. A piece that comes twice
changes nothing. `EventReader.gained` reads pieces, `EventStore.add_piece` stores them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.store.database import aiosqlite
from core.store.event_rows import ADD_EVENT

PIECE_ROWS = 200
"""Rows of each kind in one piece: a commit holds up other writers for milliseconds."""
_FACTS = "title, workspace, model, created_at, parent, parent_action, repository, state, cost, first_line"
_UPDATE = "UPDATE conversations SET title = ?, state = ?, cost = ?, first_line = ? WHERE key = ?"


class Mark(NamedTuple):
    """How much of a conversation has been carried."""

    event: int = -1
    """The id of the last event."""
    blob: int = 0
    recording: int = 0
    """Rows of the sending database."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a conversation, and what lists show of it now."""

    conversation: str
    facts: tuple[Any, ...]
    events: list[tuple[Any, ...]]
    blobs: list[tuple[Any, ...]]
    recordings: list[tuple[Any, ...]]
    mark: Mark
    """Where the next piece begins."""

    @property
    def is_empty(self) -> bool:
        return not (self.events or self.blobs or self.recordings)


async def read_piece(
    fetch: Callable[[str, Sequence[Any]], Awaitable[Sequence[Any]]], conversation_id: str, mark: Mark
) -> Piece:
    """What comes after a mark, at most PIECE_ROWS of each kind. Raises StoreError."""
    ((key, *facts),) = await fetch(
        f"SELECT key, {_FACTS} FROM conversations WHERE id = ?",  # noqa: S608
        (conversation_id,),
    )
    events = await fetch(
        "SELECT id, timestamp, source, cause, kind, body FROM events WHERE conversation = ? AND id > ?"
        " ORDER BY id LIMIT ?",
        (key, mark.event, PIECE_ROWS),
    )
    blobs = await fetch(
        "SELECT rowid, digest, media_type, width, height, data FROM blobs WHERE conversation = ? AND rowid > ?"
        " ORDER BY rowid LIMIT ?",
        (key, mark.blob, PIECE_ROWS),
    )
    recordings = await fetch(
        'SELECT rowid, "after", number, at, frames FROM recordings WHERE conversation = ? AND rowid > ?'
        " ORDER BY rowid LIMIT ?",
        (key, mark.recording, PIECE_ROWS),
    )
    after = Mark(
        events[-1][0] if events else mark.event,
        blobs[-1][0] if blobs else mark.blob,
        recordings[-1][0] if recordings else mark.recording,
    )
    rows = ([tuple(row) for row in events], [tuple(row[1:]) for row in blobs], [tuple(row[1:]) for row in recordings])
    return Piece(conversation_id, tuple(facts), *rows, after)


async def write_piece(connection: aiosqlite.Connection, key: int, token: int, next_id: int, piece: Piece) -> None:
    """Store a piece in a conversation that this process owns; for a transaction."""
    new = (row for row in piece.events if row[0] >= next_id)
    await connection.executemany(ADD_EVENT, ((key, *row[:5], token, row[5]) for row in new))
    await connection.executemany(
        "INSERT OR IGNORE INTO blobs (conversation, digest, media_type, width, height, data) VALUES (?, ?, ?, ?, ?, ?)",
        ((key, *row) for row in piece.blobs),
    )
    await connection.executemany(
        'INSERT OR IGNORE INTO recordings (conversation, "after", number, at, frames) VALUES (?, ?, ?, ?, ?)',
        ((key, *row) for row in piece.recordings),
    )
    facts = dict(zip(_FACTS.split(", "), piece.facts, strict=True))
    await connection.execute(_UPDATE, (facts["title"], facts["state"], facts["cost"], facts["first_line"], key))


async def begin(connection: aiosqlite.Connection, piece: Piece) -> bool:
    """Create the conversation of a piece, for a transaction. Returns False if it is there already."""
    columns = _FACTS.split(", ")
    done = await connection.execute(
        f"INSERT OR IGNORE INTO conversations (id, {_FACTS}, updated_at)"  # noqa: S608
        f" VALUES (?{', ?' * len(columns)}, ?)",
        (piece.conversation, *piece.facts, piece.facts[columns.index("created_at")]),
    )
    return done.rowcount == 1
