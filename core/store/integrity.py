"""Whether a home's database is whole: SQLite's own opinion, and whether each row is one that a reader would get.

Reads, and never writes; may be asked while others work. What is wrong is told with what it takes to put it right: a
damaged file wants another one made of what can be read, damage to what is derived only wants that made anew. Blocks,
for seconds where there are gigabytes.
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
from core.store import compression, search_index
from core.store.page_reader import Pages
from core.store.page_recovery import is_recording, sound_row
from core.store.schema import VERSION
from core.store.sqlite import sqlite3

DATABASE = "handloom.db"
LEAST_BYTES = 512
"""Of a page; a file with less has none."""
JOURNAL = "handloom.db.mending"
"""Is there while a mended database takes the place of a damaged one (`core.store.repair`)."""
MOST_VERSIONS = 100
"""That a newer Handloom may be ahead; a number beyond that is damaged."""
MOST = 20
"""Complaints that are told of one file."""
SEARCHED_FOR = 5000
"""Events that are looked for in the index, at most about so many."""
_PLAIN_WORDS = re.compile(r"(?<![A-Za-z0-9]|[^\0-\x7f])[A-Za-z0-9]{2,40}(?![A-Za-z0-9]|[^\0-\x7f])")
"""Words of which there is no doubt where they begin and end."""
_OF_INDEX = ("malformed inverted index", "unable to validate the inverted index", "fts5: corruption")
"""How SQLite begins what it says of the index for search."""


class Part(StrEnum):
    """What is damaged."""

    FILE = "file"
    """What cannot be had from anywhere else: the file, its events, pictures, recordings."""
    INDEX = "index"
    """That of the search; it is made of the events."""
    SNAPSHOTS = "snapshots"
    """What logs fold to."""
    SWITCH = "switch"
    """A mended database was about to take the place of the damaged one."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong."""

    part: Part
    what: str


def without_database(path: Path) -> bool:
    """Whether a write-ahead log waits beside a database that is empty or gone: SQLite would throw the log away."""
    wal = path.with_name(f"{path.name}-wal")
    try:
        return wal.stat().st_size > 0 and (not path.exists() or (path.is_file() and path.stat().st_size < LEAST_BYTES))
    except OSError:
        return False


def refuse(path: Path) -> None:
    """Before SQLite opens a database: raise StoreError where it would make damage worse, or open the wrong file."""
    if path.with_name(JOURNAL).exists():
        raise StoreError(f"A mending of {path} was broken off. End it with: handloom doctor --mend")
    if without_database(path):
        raise StoreError(
            f"{path} is empty or gone, and a log of what was written to it is there. "
            "Save what is in it with: handloom doctor --mend"
        )
    if os.path.lexists(path) and not path.is_file():
        raise StoreError(f"{path} is no file. Put another one there, or have it moved away: handloom doctor --mend")


def look(path: Path) -> list[Trouble]:
    """What is wrong with the database at `path`; nothing where it is whole, or not there yet.

    Raises StoreVersionError for one of a newer Handloom, OSError where it cannot be read.
    """
    if path.with_name(JOURNAL).exists():
        return [Trouble(Part.SWITCH, "a mending was broken off")]
    if without_database(path):
        return [Trouble(Part.FILE, "its write-ahead log is there, and the database itself is empty or gone")]
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        is_link = path.is_symlink()
        return [Trouble(Part.FILE, "it is a link that leads nowhere")] if is_link else []
    if not stat.S_ISREG(mode):
        return [Trouble(Part.FILE, "it is no file")]
    with path.open("rb") as file:  # SQLite would only say that it cannot open it
        if not file.read(1):
            return []
    with Pages(path) as pages:
        if pages.log_is_torn:
            return [Trouble(Part.FILE, "its write-ahead log is damaged, and holds more than SQLite would read of it")]
    try:
        return _looked_through(path)
    except (sqlite3.Error, ValueError) as error:
        is_of_index = search_index.is_damaged(error) and "constructor" not in str(
            error
        )  # of such a table none can be dropped
        return [Trouble(Part.INDEX if is_of_index else Part.FILE, str(error))]


def _looked_through(path: Path) -> list[Trouble]:
    state = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(path))}?{state}", uri=True, timeout=10.0)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION + MOST_VERSIONS or (version < VERSION and _is_of_today(connection)):
            return [Trouble(Part.FILE, f"it says that it is of version {version}, and is not")]
        if version > VERSION:
            raise StoreVersionError(
                f"{path} was written by a newer Handloom (version {version}; this one knows {VERSION}). "
                "Install the newer one."
            )
        said = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({MOST})") if line != "ok"]
        found = [Trouble(Part.INDEX if line.startswith(_OF_INDEX) else Part.FILE, line) for line in said]
        if version == VERSION and all(trouble.part is Part.INDEX for trouble in found):
            found += islice(_in_rows(connection), MOST)
            if not found:
                found += islice(_in_index(connection), MOST)
        return found


def _is_of_today(connection: sqlite3.Connection) -> bool:
    """Whether a database has a table that only the newest version has."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'index_form'").fetchone() is not None


def _in_rows(connection: sqlite3.Connection) -> Iterator[Trouble]:
    """What SQLite does not see: rows that are no events, gaps between them, and what does not fit to them."""
    for table, rowid, parent, _key in connection.execute("PRAGMA foreign_key_check"):
        yield Trouble(Part.FILE, f"row {rowid} of {table} belongs to no row of {parent}")
    before = (-1, -1)
    for row in connection.execute(
        "SELECT conversation, id, timestamp, source, cause, kind, lease, body FROM events ORDER BY conversation, id"
    ):
        next_id = before[1] + 1 if row[0] == before[0] else 0
        if row[1] != next_id:
            yield Trouble(Part.FILE, f"the events {next_id} to {row[1] - 1} of conversation {row[0]} are missing")
        if sound_row(row) != row:
            yield Trouble(Part.FILE, f"the event {row[1]} of conversation {row[0]} cannot be read")
        before = row[:2]
    for key, digest, data in connection.execute("SELECT conversation, digest, data FROM blobs"):
        if hashlib.sha256(data).hexdigest() != digest:
            yield Trouble(Part.FILE, f"the picture {digest[:12]} of conversation {key} is damaged")
    for key, after, at, frames in connection.execute('SELECT conversation, "after", at, frames FROM recordings'):
        if not is_recording(after, at, frames):
            yield Trouble(Part.FILE, f"what a terminal of conversation {key} printed after event {after} is damaged")
    for statement, part, what in _FITS:
        for (key,) in connection.execute(statement):
            yield Trouble(part, what.format(key=key))


def _in_index(connection: sqlite3.Connection) -> Iterator[Trouble]:
    """Whether the index finds what it says that it has: of some events spread over all, their longest word."""
    (count,) = connection.execute("SELECT coalesce(sum(upto), 0) FROM indexed").fetchone()
    rows = connection.execute(
        "SELECT e.conversation, e.id, e.body FROM indexed i JOIN events e ON e.conversation = i.conversation"
        " AND e.id < i.upto WHERE e.rowid % ? = 0",
        (count // SEARCHED_FOR + 1,),
    )
    for key, id, body in rows:
        word = max(_PLAIN_WORDS.findall(search_index.text_of(compression.unpack(body))), key=len, default="")
        asked = "SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?", (f'"{word}"', search_index.row_of(key, id))
        if word and not connection.execute(*asked).fetchone():
            yield Trouble(Part.INDEX, f"the index for search does not find the event {id} of conversation {key}")


_FITS = (
    ("SELECT key FROM conversations c WHERE event_count <>"
     " coalesce((SELECT max(e.id) FROM events e WHERE e.conversation = c.key), -1) + 1",
     Part.FILE, "conversation {key} has another number of events than it says"),
    ("SELECT conversation FROM indexed i WHERE upto >"
     " coalesce((SELECT max(e.id) FROM events e WHERE e.conversation = i.conversation), -1) + 1",
     Part.INDEX, "the index for search has more of conversation {key} than there is"),
    ("SELECT conversation FROM snapshots s WHERE NOT json_valid(state) OR event >"
     " coalesce((SELECT max(e.id) FROM events e WHERE e.conversation = s.conversation), -1)",
     Part.SNAPSHOTS, "the snapshot of conversation {key} does not fit its events"),
)  # fmt: skip
"""What is derived, and how it is seen that it does not fit."""
