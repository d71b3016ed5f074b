"""Mending: a damaged database is kept as it is, and one of what could be read of it takes its place.

Invariants of this room: nothing is written while anybody else has the home open; the damaged files are never changed,
only named anew; a kill at any moment leaves the old database, the mended one, or a switch between them that the next
mending ends, and that nobody opens before (`JOURNAL`). What is derived is made anew where it lies.

Everything new is made in the folder `mending` of the home, which a killed process leaves and the next one removes.
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
from core.store.integrity import DATABASE, JOURNAL, Part, Trouble, look
from core.store.locks import FileLock
from core.store.page_recovery import Salvage, salvage
from core.store.sqlite import remedy, sqlite3

FOLDER = "mending"
_NEW, _SCRATCH = "new.db", "found.db"
LOG, SHARED = "-wal", "-shm"
"""What SQLite keeps beside a database, behind its name."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done."""

    kept: Path | None = None
    """Where the damaged database lies; None where it was mended in its place."""
    salvage: Salvage | None = None
    """What was saved; None where nothing had to be."""


def database_of(home: Path) -> Path:
    """The file that the home's database is: a link to a file stands for that file."""
    path = home / DATABASE
    return path.resolve() if path.is_symlink() and path.is_file() else path


def mend(home: Path, troubles: Sequence[Trouble], at: datetime) -> Mended:
    """Put right what `look` found. `at` names the files that are kept.

    Raises StoreBusyError where another process has the home open, StoreError where nothing could be written: then all
    is as it was.
    """
    with _alone(home):
        path = database_of(home)
        try:
            if path.with_name(JOURNAL).exists():
                return Mended(_switch(path))
            if not any(trouble.part is Part.FILE for trouble in troubles):
                with suppress(sqlite3.DatabaseError):  # it is worse than it looked
                    _make_anew(path, {trouble.part for trouble in troubles})
                    return Mended()
            return _replace(path, at)
        except sqlite3.Error as error:
            raise StoreError(f"{path} could not be mended: {error}. {remedy(error)}") from error
        except OSError as error:
            raise StoreError(
                f"{path} could not be mended: {error.strerror or error}. Make {path.parent} writable, or free some "
                "space, then try again. Nothing was changed."
            ) from error


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Nobody else has the home open, and nobody opens it."""
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
        raise StoreBusyError(f"Another Handloom{who} has {home} open. Close it, then mend.")
    try:
        yield
    finally:
        share.release()


def holders(lock: Path) -> list[int]:
    """The processes that hold a lock on a file, as far as the system tells."""
    with suppress(OSError, ValueError, IndexError):
        found, inode = set(), lock.stat().st_ino
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and int(fields[5].rpartition(":")[2]) == inode:
                found.add(int(fields[4]))
        return sorted(found)
    return []


def _make_anew(path: Path, parts: set[Part]) -> None:
    """Begin anew what is derived: an index without words is filled by whoever searches."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10.0)) as connection:
        for pragma in schema.WRITER_PRAGMAS:
            connection.execute(pragma)
        connection.execute("BEGIN IMMEDIATE")
        if Part.INDEX in parts:
            for statement in schema.BEGIN_INDEX:
                connection.execute(statement)
        if Part.SNAPSHOTS in parts:
            connection.execute("DELETE FROM snapshots")
        connection.execute("COMMIT")


def _replace(path: Path, at: datetime) -> Mended:
    folder = path.with_name(FOLDER)
    shutil.rmtree(folder, ignore_errors=True)  # of a mending that was killed
    folder.mkdir(mode=0o700)
    try:
        new = folder / _NEW
        if path.is_file() or not path.exists():
            saved = salvage(path, new, folder / _SCRATCH)
        else:
            saved = salvage(folder / "nothing", new, folder / _SCRATCH)
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
    return Mended(_switch(path), saved)


def _free_name(path: Path, at: datetime) -> Path:
    """Where the damaged database is kept: beside its place, where nothing is yet."""
    names = (path.with_name(f"{path.name}.damaged-{at:%Y%m%d-%H%M%S}{more}") for more in ("", *range(2, 1000)))
    return next(name for name in names if not os.path.lexists(name) and not os.path.lexists(f"{name}{LOG}"))


def _switch(path: Path) -> Path | None:
    """Let the mended database take the place of the damaged one; again, where a kill came between.

    The log goes with the file that it belongs to: beside another one it would be written into it.
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
    """Have a file, or what is in a folder, on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


__all__ = ["Mended", "database_of", "holders", "look", "mend"]
