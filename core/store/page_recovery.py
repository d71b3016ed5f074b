"""Recovery: makes an intact database of the readable rows of a damaged one.

Rows are recognised by their shape in all readable pages (`core.store.page_reader`), so neither the file header nor the
page tree is needed. Only valid events are taken; derived data is rebuilt later. Ids have no gaps, so lost events are
replaced: the first of a range by an error that names the lost ids, the others by empty observations. Blocks. Never
writes to the damaged file.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import uuid
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from core.events import (
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    NullObservation,
    SystemMessageAction,
    envelope_from_dict,
)
from core.store import schema
from core.store.event_rows import ADD_EVENT, NOTE_FACTS, Facts, row_of_event, unpack
from core.store.page_reader import Cell, Pages
from core.store.recordings import RecordedRow, frames_of
from core.store.sqlite import sqlite3

LOST = "LOST"
"""The `error_id` of the event that says what was lost."""
WIDEST_GAP = 100_000
"""The most ids in a row that can be lost; an event after a wider gap has a damaged id."""
NAMELESS = "Saved conversation"
"""The title of a conversation whose row was lost."""
_ID = re.compile(r"[0-9a-f]{32}")
_SOURCES = frozenset(EventSource)
_INSTRUCTIONS = (
    "The instructions at the start of this conversation were lost when its database was damaged. Work as a careful "
    "software agent with the tools that you are given, and ask the user if the task is no longer clear."
)


@dataclass(frozen=True, slots=True)
class LostRange:
    """Events that could not be read."""

    conversation_id: str
    first: int
    last: int


@dataclass(slots=True)
class RecoveryResult:
    """What was recovered."""

    conversations: int = 0
    events: int = 0
    """Recovered events, without replacements for lost ones."""
    nameless: int = 0
    """Conversations whose title, folder and model were lost."""
    lost: list[LostRange] = field(default_factory=list)
    pictures: int = 0


def recover(source: Path, target: Path, scratch: Path) -> RecoveryResult:
    """Recover `source` and its write-ahead log into the new database `target`. `scratch` is a temporary file.

    Raises OSError or sqlite3.Error if the target cannot be written.
    """
    with closing(sqlite3.connect(scratch, isolation_level=None)) as found:
        for statement in _SCRATCH:
            found.execute(statement)
        found.execute("BEGIN")  # without a commit: the file is temporary
        with Pages(source) as pages:
            for cell in pages.cells():
                for statement, values in _classify(cell):
                    found.execute(statement, values)
        schema.upgrade(target)
        with closing(sqlite3.connect(target, isolation_level=None)) as new:
            new.execute("PRAGMA synchronous = OFF")  # the caller syncs the finished file
            return _fill(found, new)


_COLUMNS = (
    "key", "id", "title", "workspace", "model", "created_at", "parent", "parent_action", "repository", "updated_at",
    "event_count", "size", "first_line", "state", "cost", "origin", "origin_of", "origin_event",
)  # fmt: skip
"""The columns of a conversation, in their order in the file."""
_DEFAULTS: tuple[Any, ...] = (*[""] * 6, "", None, "", "", 0, 0, "", "", 0.0, "", "", None)
_SCRATCH = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    f"CREATE TABLE conversations (key INTEGER PRIMARY KEY, {', '.join(_COLUMNS[1:])})",
    "CREATE TABLE ids (key INTEGER PRIMARY KEY, id TEXT)",
    "CREATE TABLE events (conversation, id, timestamp, source, cause, kind, lease, body,"
    " PRIMARY KEY (conversation, id)) WITHOUT ROWID",
    "CREATE TABLE blobs (conversation, digest, media_type, width, height, data, PRIMARY KEY (conversation, digest))",
    'CREATE TABLE recordings (conversation, "after", number, at, frames, PRIMARY KEY (conversation, "after", number))',
    "CREATE TABLE spending (day PRIMARY KEY, calls, cost, unpriced, tokens, seconds)",
)


def _add(table: str, count: int) -> str:
    return f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * count)})"  # noqa: S608


def _classify(cell: Cell) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The table and row of a record; none for a record that is damaged or not ours."""
    match cell.record:
        case (str() as id, int() as key) if cell.rowid is None and _ID.fullmatch(id):
            yield _add("ids", 2), (key, id)
        case _ if cell.rowid is None:
            pass
        case (int(), int(), str(), str(), None | int(), str(), int(), str() | bytes()):
            if row := valid_row(cell.record):
                yield _add("events", 8), row
        case (int(), str() as digest, str(), int(), int(), bytes() as data):
            if hashlib.sha256(data).hexdigest() == digest:
                yield _add("blobs", 6), cell.record
        case (int(), int() as after, int(), str() as at, bytes() as frames) if is_recording(after, at, frames):
            yield _add("recordings", 5), cell.record
        case (str() as day, int(), int() | float(), int(), int(), int() | float()) if _is_time(day):
            yield _add("spending", 6), cell.record
        case (None, str(), str(), str(), str(), str() as created_at, *more) if _is_time(created_at):
            row = (cell.rowid, *cell.record[1:6], *more)
            yield _add("conversations", len(_COLUMNS)), (row + _DEFAULTS[len(row) :])[: len(_COLUMNS)]


def valid_row(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The row of an event, corrected by its body; None if the body cannot be read."""
    conversation, lease, body = row[0], row[6], row[7]
    envelope = _envelope(body)
    if envelope is None or not 0 < conversation < 2**31 or not 0 <= envelope.id < 2**31:
        return None
    if row[3] not in _SOURCES or (row[1], row[4]) != (envelope.id, envelope.cause) or not _is_time(row[2]):
        return row_of_event(conversation, min(max(lease, 0), 2**31), envelope, body)
    return (*row[:6], min(max(lease, 0), 2**31), body)


def _envelope(body: str | bytes) -> Envelope | None:
    try:
        return envelope_from_dict(json.loads(unpack(body)), "")
    except (ValueError, zlib.error, RecursionError):
        return None


def is_recording(after: int, at: str, frames: bytes) -> bool:
    """Whether a row of a recording is valid."""
    if not _is_time(at):
        return False
    try:
        return all(True for _frame in frames_of(RecordedRow(after, datetime.fromisoformat(at), frames)))
    except (zlib.error, ValueError, OverflowError, IndexError, struct.error):
        return False


def _is_time(text: str) -> bool:
    try:
        return bool(datetime.fromisoformat(text))
    except ValueError:
        return False


# -- the new database ----------------------------------------------------------------------------------------------


def _fill(found: sqlite3.Connection, new: sqlite3.Connection) -> RecoveryResult:
    """Copy everything that was found into the new database, in one transaction."""
    done = RecoveryResult()
    new.execute("BEGIN IMMEDIATE")
    triggers = new.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'"
    ).fetchall()
    for name, _sql in triggers:  # they check each insert against the log, which is slow here
        new.execute(f"DROP TRIGGER {name}")
    _add_conversations(found, new, done)
    for key, id, count in new.execute("SELECT key, id, event_count FROM conversations ORDER BY key").fetchall():
        _add_events(found, _Log(new, done, key, id, count))
    for table in ("blobs", "recordings", "spending"):
        rows = found.execute(f"SELECT * FROM {table} ORDER BY rowid")  # noqa: S608
        marks = ", ".join(f"?{n + 1}" for n in range(len(rows.description)))
        for row in rows:
            if table == "spending" or new.execute("SELECT 1 FROM conversations WHERE key = ?", row[:1]).fetchone():
                new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)  # noqa: S608
                done.pictures += table == "blobs"
    new.execute(_COUNT)
    for _name, sql in triggers:
        new.execute(sql)
    new.execute("COMMIT")
    new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return done


class _Log(NamedTuple):
    """A conversation of the new database."""

    new: sqlite3.Connection
    done: RecoveryResult
    key: int
    id: str
    count: Any
    """Its event count in the damaged database."""


_COUNT = """
    UPDATE conversations AS c SET
        updated_at = coalesce((SELECT timestamp FROM events e WHERE e.conversation = c.key ORDER BY id DESC LIMIT 1),
            created_at),
        event_count = (SELECT count(*) FROM events e WHERE e.conversation = c.key),
        size = (SELECT coalesce(sum(octet_length(body)), 0) FROM events e WHERE e.conversation = c.key)
            + (SELECT coalesce(sum(octet_length(data)), 0) FROM blobs b WHERE b.conversation = c.key)
            + (SELECT coalesce(sum(octet_length(frames)), 0) FROM recordings r WHERE r.conversation = c.key)
"""


def _add_conversations(found: sqlite3.Connection, new: sqlite3.Connection, done: RecoveryResult) -> None:
    """Add conversations whose row was found, and those of which only events are left."""
    taken: set[str] = set()
    for row in found.execute("SELECT * FROM conversations ORDER BY key"):
        if _put(new, row):
            taken.add(row[1])
            done.conversations += 1
    left = found.execute(  # a single event of an unknown conversation has a damaged key
        "SELECT e.conversation, i.id, min(e.timestamp) FROM events e LEFT JOIN ids i ON i.key = e.conversation"
        " GROUP BY e.conversation HAVING count(*) > 1 OR i.id IS NOT NULL ORDER BY 1"
    ).fetchall()
    for key, id, created_at in left:
        if new.execute("SELECT 1 FROM conversations WHERE key = ?", (key,)).fetchone() is None:
            known = id if id and id not in taken else uuid.uuid4().hex
            row = (key, known, NAMELESS, "", "", created_at)
            _put(new, row + _DEFAULTS[len(row) :])
            taken.add(known)
            done.conversations += 1
            done.nameless += 1


def _put(new: sqlite3.Connection, row: tuple[Any, ...]) -> bool:
    """Add a conversation. Returns False if its row is invalid."""
    try:
        columns = ", ".join(_COLUMNS)
        new.execute(f"INSERT INTO conversations ({columns}) VALUES ({', '.join('?' * len(_COLUMNS))})", row)  # noqa: S608
    except sqlite3.IntegrityError:
        return False
    return True


def _add_events(found: sqlite3.Connection, log: _Log) -> None:
    """Add the events of a conversation in order, with replacements for lost ones."""
    facts, next_id, token, last_at = Facts(), 0, 0, ""
    rows = found.execute("SELECT * FROM events WHERE conversation = ? ORDER BY id", (log.key,))
    for row in rows:
        if row[1] - next_id > WIDEST_GAP:
            break
        last_at = row[2]
        _fill_gap(log, range(next_id, row[1]), last_at)
        envelope = _envelope(row[7])
        if envelope is not None:
            facts = facts.after(envelope.event, envelope.source)
        log.new.execute(ADD_EVENT, row)
        next_id, token, log.done.events = row[1] + 1, max(token, row[6]), log.done.events + 1
    if isinstance(log.count, int) and log.count <= next_id + WIDEST_GAP:
        _fill_gap(log, range(next_id, log.count), last_at)
    log.new.execute(NOTE_FACTS, facts.row(log.key))
    log.new.execute("INSERT INTO leases (conversation, token, owner) VALUES (?, ?, NULL)", (log.key, token + 1))


def _fill_gap(log: _Log, gap: range, at: str) -> None:
    """Add replacements for lost events."""
    if not gap:
        return
    log.done.lost.append(LostRange(log.id, gap[0], gap[-1]))
    when = datetime.fromisoformat(at) if at else datetime.now(UTC)
    which = f"The events {gap[0]} to {gap[-1]} are" if len(gap) > 1 else f"The event {gap[0]} is"
    error = ErrorObservation(content=f"{which} lost: the database was damaged.", error_id=LOST)
    begin = [SystemMessageAction(content=_INSTRUCTIONS)] if gap[0] == 0 else []
    for number, lost_id in enumerate(gap):
        event: Event = [*begin, error][number] if number <= len(begin) else NullObservation()
        source = EventSource.AGENT if isinstance(event, SystemMessageAction) else EventSource.ENVIRONMENT
        envelope = Envelope(conversation_id=log.id, id=lost_id, timestamp=when, source=source, cause=None, event=event)
        log.new.execute(ADD_EVENT, row_of_event(log.key, 0, envelope))
