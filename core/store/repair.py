"""The repair of a damaged database: a new one made of its readable rows replaces it, and the damaged file is saved.

Nothing is written while another process has the home open. The damaged files are renamed, never changed. A kill at any
moment leaves the old database, the new one, or an interrupted switch, which the next repair finishes and which cannot
be opened before (`JOURNAL`). Derived data is rebuilt in place. New files are made in the folder `mending` of the home;
the next repair removes what a killed process left there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.errors import StoreBusyError, StoreError
from core.store import schema
from core.store.integrity import DATABASE, JOURNAL, Damage, Part
from core.store.locks import FileLock
from core.store.page_recovery import RecoveryResult, recover
from core.store.sqlite import remedy, sqlite3

FOLDER = "mending"
_NEW, _SCRATCH = "new.db", "found.db"
LOG, SHARED = "-wal", "-shm"
"""The suffixes of SQLite's files beside a database."""


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What a repair did."""

    saved_as: Path | None = None
    """Where the damaged database was saved; None if it was repaired in place."""
    recovered: RecoveryResult | None = None
    """What was recovered; None if nothing had to be."""


def database_of(home: Path) -> Path:
    """The home's database file, with a link resolved."""
    path = home / DATABASE
    return path.resolve() if path.is_symlink() and path.is_file() else path


def repair(home: Path, damages: Sequence[Damage], at: datetime) -> RepairResult:
    """Repair what `core.store.integrity.find_damage` found. The saved files are named after `at`.

    Raises StoreBusyError if another process has the home open, StoreError if nothing could be written; then nothing was
    changed.
    """
    with _exclusive(home):
        path = database_of(home)
        try:
            if path.with_name(JOURNAL).exists():
                return RepairResult(_switch(path))
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
        pids = ", ".join(map(str, holders(share.path)))
        who = f" (process {pids})" if pids else ""
        raise StoreBusyError(f"Another Handloom{who} has {home} open. Close it, then try again.")
    try:
        yield
    finally:
        share.release()


def holders(lock: Path) -> list[int]:
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
        for pragma in schema.WRITER_PRAGMAS:
            connection.execute(pragma)
        connection.execute("BEGIN IMMEDIATE")
        if Part.INDEX in parts:
            for statement in schema.CLEAR_INDEX:
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
    return RepairResult(_switch(path), result)


def _free_name(path: Path, at: datetime) -> Path:
    """An unused name beside the database for the damaged file."""
    names = (path.with_name(f"{path.name}.damaged-{at:%Y%m%d-%H%M%S}{more}") for more in ("", *range(2, 1000)))
    return next(name for name in names if not os.path.lexists(name) and not os.path.lexists(f"{name}{LOG}"))


def _switch(path: Path) -> Path | None:
    """Replace the damaged database by the new one, or finish an interrupted replacement.

    The write-ahead log moves with its file: SQLite would write it into another one.
    """
    journal, new = path.with_name(JOURNAL), path.with_name(FOLDER) / _NEW
    kept = path.with_name(str(json.loads(journal.read_text("utf-8"))["kept"]))
    if new.exists():
        for ending in ("", LOG):
            old, place = Path(f"{path}{ending}"), Path(f"{kept}{ending}")
            if os.path.lexists(old) and not os.path.lexists(place):
                old.rename(place)
        Path(f"{path}{SHARED}").unlink(missing_ok=True)
        _sync(path.parent)
        new.rename(path)
        _sync(path.parent)
    shutil.rmtree(path.with_name(FOLDER), ignore_errors=True)
    journal.unlink()
    _sync(path.parent)
    return next((each for each in (kept, Path(f"{kept}{LOG}")) if os.path.lexists(each)), None)


def _sync(path: Path) -> None:
    """Sync a file or the entries of a folder to the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
