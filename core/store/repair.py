"""The integrity check and the repair of a home's database.

The check never writes, and may run while others use the database: SQLite's own check, and whether every row can be read
as an event. Each damage says what repair it needs. Blocks: seconds for gigabytes.

The repair of a damaged database: a new one made of its readable rows replaces it, and the damaged file is saved.
Nothing is written while another process has the home open. The damaged files are renamed, never changed. A kill at any
moment leaves the old database, the new one, or an interrupted switch, which the next repair finishes and which cannot
be opened before (`JOURNAL`). Derived data is rebuilt in place. New files are made in the folder `mending` of the home;
the next repair removes what a killed process left there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from core.errors import StoreBusyError, StoreError, StoreVersionError
from core.store import search_index
from core.store.database import (
    CLEAR_INDEX,
    DATABASE,
    JOURNAL,
    VERSION,
    WRITER_PRAGMAS,
    remedy,
    sqlite3,
    without_database,
)
from core.store.event_rows import unpack
from core.store.locks import FileLock
from core.store.page_recovery import Pages, RecoveryResult, is_recording, recover, valid_row

MAX_VERSIONS_AHEAD = 100
"""How far ahead the version of a newer Handloom may be; a higher number is damage."""
MAX_DAMAGES = 20
INDEX_SAMPLE = 5000
"""Events that are searched for in the index, approximately."""
_PLAIN_WORDS = re.compile(r"(?<![A-Za-z0-9]|[^\0-\x7f])[A-Za-z0-9]{2,40}(?![A-Za-z0-9]|[^\0-\x7f])")
_INDEX_MESSAGES = ("malformed inverted index", "unable to validate the inverted index", "fts5: corruption")
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
    part: Part
    what: str


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
        is_index_damage = search_index.is_damaged(error) and "constructor" not in str(
            error
        )  # of such a table none can be dropped
        return [Damage(Part.INDEX if is_index_damage else Part.FILE, str(error))]


def _check_with_sqlite(path: Path) -> list[Damage]:
    state = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(path))}?{state}", uri=True, timeout=10.0)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION + MAX_VERSIONS_AHEAD or (version < VERSION and _has_newest_tables(connection)):
            return [Damage(Part.FILE, f"it claims version {version}, but its tables differ")]
        if version > VERSION:
            raise StoreVersionError(
                f"{path} was written by a newer Handloom (version {version}; this one knows {VERSION}). "
                "Install the newer one."
            )
        lines = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({MAX_DAMAGES})") if line != "ok"]
        found = [Damage(Part.INDEX if line.startswith(_INDEX_MESSAGES) else Part.FILE, line) for line in lines]
        if version == VERSION and all(damage.part is Part.INDEX for damage in found):
            found += islice(_check_rows(connection), MAX_DAMAGES)
            if not found:
                found += islice(_check_index(connection), MAX_DAMAGES)
        return found


def _has_newest_tables(connection: sqlite3.Connection) -> bool:
    """Whether the database has a table of the newest version."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'index_form'").fetchone() is not None


def _check_rows(connection: sqlite3.Connection) -> Iterator[Damage]:
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
    for statement, part, what in _CONSISTENCY_CHECKS:
        for (key,) in connection.execute(statement):
            yield Damage(part, what.format(key=key))


def _check_index(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Check the search index with a sample of the indexed events: their longest word must be found."""
    (count,) = connection.execute("SELECT coalesce(sum(upto), 0) FROM indexed").fetchone()
    rows = connection.execute(
        "SELECT e.conversation, e.id, e.body FROM indexed i JOIN events e ON e.conversation = i.conversation"
        " AND e.id < i.upto WHERE e.rowid % ? = 0",
        (count // INDEX_SAMPLE + 1,),
    )
    for key, id, body in rows:
        word = max(_PLAIN_WORDS.findall(search_index.text_of(unpack(body))), key=len, default="")
        query = "SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?", (f'"{word}"', search_index.row_of(key, id))
        if word and not connection.execute(*query).fetchone():
            yield Damage(Part.INDEX, f"the search index does not find event {id} of conversation {key}")


_CONSISTENCY_CHECKS = (
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


FOLDER = "mending"
_NEW, _SCRATCH = "new.db", "found.db"
LOG, SHARED = "-wal", "-shm"
"""The suffixes of SQLite's files beside a database."""


@dataclass(frozen=True, slots=True)
class RepairResult:
    saved_as: Path | None = None
    """Where the damaged database was saved; None if it was repaired in place."""
    recovered: RecoveryResult | None = None
    """What was recovered; None if nothing had to be."""


def database_path(home: Path) -> Path:
    """The home's database file, with a link resolved."""
    path = home / DATABASE
    return path.resolve() if path.is_symlink() and path.is_file() else path


def repair(home: Path, damages: Sequence[Damage], at: datetime) -> RepairResult:
    """Repair what `core.store.repair.find_damage` found. The saved files are named after `at`.

    Raises StoreBusyError if another process has the home open, StoreError if nothing could be written; then nothing was
    changed.
    """
    with _exclusive(home):
        path = database_path(home)
        try:
            if path.with_name(JOURNAL).exists():
                return RepairResult(_finish_replacement(path))
            if not any(damage.part is Part.FILE for damage in damages):
                with suppress(sqlite3.DatabaseError):  # the damage is worse than it looked
                    _rebuild(path, {damage.part for damage in damages})
                    return RepairResult()
            return _replace(path, at)
        except sqlite3.Error as error:
            raise StoreError(f"{path} could not be repaired: {error}. {remedy(error)}") from error
        except OSError as error:
            raise StoreError(
                f"{path} could not be repaired: {error.strerror or error}. Make {path.parent} writable, or free some "
                "space, then try again. Nothing was changed."
            ) from error


@contextmanager
def _exclusive(home: Path) -> Iterator[None]:
    """Hold the home's lock alone, so that no other process opens it."""
    locks = home / "locks"
    try:
        locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        share = FileLock(locks / "share.lock")
        is_mine = share.try_acquire()
    except OSError as error:
        raise StoreError(f"{locks} cannot be used: {error.strerror or error}. Make it writable.") from error
    if not is_mine:
        pids = ", ".join(map(str, lock_holders(share.path)))
        who = f" (process {pids})" if pids else ""
        raise StoreBusyError(f"Another Handloom{who} has {home} open. Close it, then try again.")
    try:
        yield
    finally:
        share.release()


def lock_holders(lock: Path) -> list[int]:
    """The processes that hold a lock on a file, if the system tells."""
    with suppress(OSError, ValueError, IndexError):
        found, inode = set(), lock.stat().st_ino
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and int(fields[5].rpartition(":")[2]) == inode:
                found.add(int(fields[4]))
        return sorted(found)
    return []


def _rebuild(path: Path, parts: set[Part]) -> None:
    """Clear derived data. The next search fills the index."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10.0)) as connection:
        for pragma in WRITER_PRAGMAS:
            connection.execute(pragma)
        connection.execute("BEGIN IMMEDIATE")
        if Part.INDEX in parts:
            for statement in CLEAR_INDEX:
                connection.execute(statement)
        if Part.SNAPSHOTS in parts:
            connection.execute("DELETE FROM snapshots")
        connection.execute("COMMIT")


def _replace(path: Path, at: datetime) -> RepairResult:
    folder = path.with_name(FOLDER)
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed repair
    folder.mkdir(mode=0o700)
    try:
        new = folder / _NEW
        if path.is_file() or not path.exists():
            result = recover(path, new, folder / _SCRATCH)
        else:
            result = recover(folder / "nothing", new, folder / _SCRATCH)
        (folder / _SCRATCH).unlink()
        new.chmod(0o600)
        _sync(new)
        journal = folder / JOURNAL
        journal.write_text(json.dumps({"kept": _free_name(path, at).name}), "utf-8")
        _sync(journal)
        _sync(folder)
        journal.rename(path.with_name(JOURNAL))
        _sync(path.parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return RepairResult(_finish_replacement(path), result)


def _free_name(path: Path, at: datetime) -> Path:
    """An unused name beside the database for the damaged file."""
    names = (path.with_name(f"{path.name}.damaged-{at:%Y%m%d-%H%M%S}{more}") for more in ("", *range(2, 1000)))
    return next(name for name in names if not os.path.lexists(name) and not os.path.lexists(f"{name}{LOG}"))


def _finish_replacement(path: Path) -> Path | None:
    """Replace the damaged database by the new one, or finish an interrupted replacement.

    The write-ahead log moves with its file: SQLite would write it into another one.
    """
    journal, new = path.with_name(JOURNAL), path.with_name(FOLDER) / _NEW
    saved = path.with_name(str(json.loads(journal.read_text("utf-8"))["kept"]))
    if new.exists():
        for ending in ("", LOG):
            old, place = Path(f"{path}{ending}"), Path(f"{saved}{ending}")
            if os.path.lexists(old) and not os.path.lexists(place):
                old.rename(place)
        Path(f"{path}{SHARED}").unlink(missing_ok=True)
        _sync(path.parent)
        new.rename(path)
        _sync(path.parent)
    shutil.rmtree(path.with_name(FOLDER), ignore_errors=True)
    journal.unlink()
    _sync(path.parent)
    return next((each for each in (saved, Path(f"{saved}{LOG}")) if os.path.lexists(each)), None)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
