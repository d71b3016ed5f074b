"""The integrity check of a home's database: SQLite's own check, and whether every row can be read as an event.

Never writes, and may run while others use the database. Each damage says what repair it needs: a damaged file has to be
replaced by one made of its readable rows; derived data is rebuilt in place. Blocks: seconds for gigabytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from core.errors import StoreError, StoreVersionError
from core.store import search_index
from core.store.event_rows import unpack
from core.store.page_reader import Pages
from core.store.page_recovery import is_recording, valid_row
from core.store.schema import VERSION
from core.store.sqlite import sqlite3

DATABASE = "handloom.db"
LEAST_BYTES = 512
"""The smallest page size; a shorter file has no page."""
JOURNAL = "handloom.db.mending"
"""Exists while a repaired database replaces a damaged one (`core.store.repair`)."""
MOST_VERSIONS = 100
"""How far ahead the version of a newer Handloom may be; a higher number is damage."""
MOST = 20
"""Reported damages of one file."""
SEARCHED_FOR = 5000
"""Events that are searched for in the index, approximately."""
_PLAIN_WORDS = re.compile(r"(?<![A-Za-z0-9]|[^\0-\x7f])[A-Za-z0-9]{2,40}(?![A-Za-z0-9]|[^\0-\x7f])")
"""Words with unambiguous boundaries."""
_OF_INDEX = ("malformed inverted index", "unable to validate the inverted index", "fts5: corruption")
"""How SQLite's messages about the search index begin."""


class Part(StrEnum):
    """What is damaged, by the repair that it needs."""

    FILE = "file"
    """Data that cannot be rebuilt: the file, its events, pictures, recordings."""
    INDEX = "index"
    """The search index, which is derived from the events."""
    SNAPSHOTS = "snapshots"
    """State snapshots, which are derived from the events."""
    SWITCH = "switch"
    """A repair was interrupted while it replaced the database."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage that was found."""

    part: Part
    what: str


def without_database(path: Path) -> bool:
    """Whether a write-ahead log exists without its database: SQLite would delete the log."""
    wal = path.with_name(f"{path.name}-wal")
    try:
        return wal.stat().st_size > 0 and (not path.exists() or (path.is_file() and path.stat().st_size < LEAST_BYTES))
    except OSError:
        return False


def refuse(path: Path) -> None:
    """Raise StoreError if opening the database would make damage worse, or open something that is not a file."""
    if path.with_name(JOURNAL).exists():
        raise StoreError(f"A repair of {path} was interrupted. Finish it with: handloom doctor --mend")
    if without_database(path):
        raise StoreError(
            f"{path} is empty or missing, but its write-ahead log exists. "
            "Recover its content with: handloom doctor --mend"
        )
    if os.path.lexists(path) and not path.is_file():
        raise StoreError(f"{path} is not a file. Restore the database, or move this away with: handloom doctor --mend")


def find_damage(path: Path) -> list[Damage]:
    """The damages of the database at `path`; none if it is intact or does not exist yet.

    Raises StoreVersionError for a database of a newer Handloom, OSError if it cannot be read.
    """
    if path.with_name(JOURNAL).exists():
        return [Damage(Part.SWITCH, "a repair was interrupted")]
    if without_database(path):
        return [Damage(Part.FILE, "its write-ahead log exists, but the database is empty or missing")]
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        is_link = path.is_symlink()
        return [Damage(Part.FILE, "it is a broken link")] if is_link else []
    if not stat.S_ISREG(mode):
        return [Damage(Part.FILE, "it is not a file")]
    with path.open("rb") as file:  # raises OSError with a better message than SQLite's
        if not file.read(1):
            return []
    with Pages(path) as pages:
        if pages.log_is_torn:
            return [Damage(Part.FILE, "its write-ahead log is damaged, and SQLite would ignore a part of it")]
    try:
        return _check_with_sqlite(path)
    except (sqlite3.Error, ValueError) as error:
        is_of_index = search_index.is_damaged(error) and "constructor" not in str(
            error
        )  # of such a table none can be dropped
        return [Damage(Part.INDEX if is_of_index else Part.FILE, str(error))]


def _check_with_sqlite(path: Path) -> list[Damage]:
    state = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(path))}?{state}", uri=True, timeout=10.0)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION + MOST_VERSIONS or (version < VERSION and _is_of_today(connection)):
            return [Damage(Part.FILE, f"it claims version {version}, but its tables differ")]
        if version > VERSION:
            raise StoreVersionError(
                f"{path} was written by a newer Handloom (version {version}; this one knows {VERSION}). "
                "Install the newer one."
            )
        lines = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({MOST})") if line != "ok"]
        found = [Damage(Part.INDEX if line.startswith(_OF_INDEX) else Part.FILE, line) for line in lines]
        if version == VERSION and all(trouble.part is Part.INDEX for trouble in found):
            found += islice(_in_rows(connection), MOST)
            if not found:
                found += islice(_in_index(connection), MOST)
        return found


def _is_of_today(connection: sqlite3.Connection) -> bool:
    """Whether the database has a table of the newest version."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'index_form'").fetchone() is not None


def _in_rows(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Damage that SQLite does not see: invalid events, gaps, and data that does not match its events."""
    for table, rowid, parent, _key in connection.execute("PRAGMA foreign_key_check"):
        yield Damage(Part.FILE, f"row {rowid} of {table} has no row in {parent}")
    before = (-1, -1)
    for row in connection.execute(
        "SELECT conversation, id, timestamp, source, cause, kind, lease, body FROM events ORDER BY conversation, id"
    ):
        next_id = before[1] + 1 if row[0] == before[0] else 0
        if row[1] != next_id:
            yield Damage(Part.FILE, f"the events {next_id} to {row[1] - 1} of conversation {row[0]} are missing")
        if valid_row(row) != row:
            yield Damage(Part.FILE, f"the event {row[1]} of conversation {row[0]} cannot be read")
        before = row[:2]
    for key, digest, data in connection.execute("SELECT conversation, digest, data FROM blobs"):
        if hashlib.sha256(data).hexdigest() != digest:
            yield Damage(Part.FILE, f"the picture {digest[:12]} of conversation {key} is damaged")
    for key, after, at, frames in connection.execute('SELECT conversation, "after", at, frames FROM recordings'):
        if not is_recording(after, at, frames):
            yield Damage(Part.FILE, f"the recording of conversation {key} after event {after} is damaged")
    for statement, part, what in _FITS:
        for (key,) in connection.execute(statement):
            yield Damage(part, what.format(key=key))


def _in_index(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Check the search index with a sample of the indexed events: their longest word must be found."""
    (count,) = connection.execute("SELECT coalesce(sum(upto), 0) FROM indexed").fetchone()
    rows = connection.execute(
        "SELECT e.conversation, e.id, e.body FROM indexed i JOIN events e ON e.conversation = i.conversation"
        " AND e.id < i.upto WHERE e.rowid % ? = 0",
        (count // SEARCHED_FOR + 1,),
    )
    for key, id, body in rows:
        word = max(_PLAIN_WORDS.findall(search_index.text_of(unpack(body))), key=len, default="")
        asked = "SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?", (f'"{word}"', search_index.row_of(key, id))
        if word and not connection.execute(*asked).fetchone():
            yield Damage(Part.INDEX, f"the search index does not find event {id} of conversation {key}")


_FITS = (
    ("SELECT key FROM conversations c WHERE event_count <>"
     " coalesce((SELECT max(e.id) FROM events e WHERE e.conversation = c.key), -1) + 1",
     Part.FILE, "conversation {key} has a wrong event count"),
    ("SELECT conversation FROM indexed i WHERE upto >"
     " coalesce((SELECT max(e.id) FROM events e WHERE e.conversation = i.conversation), -1) + 1",
     Part.INDEX, "the search index has more events of conversation {key} than exist"),
    ("SELECT conversation FROM snapshots s WHERE NOT json_valid(state) OR event >"
     " coalesce((SELECT max(e.id) FROM events e WHERE e.conversation = s.conversation), -1)",
     Part.SNAPSHOTS, "the snapshot of conversation {key} does not match its events"),
)  # fmt: skip
"""Queries for derived data that does not match the events."""
