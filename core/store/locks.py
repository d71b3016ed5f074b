"""File locks that tell a dead owner from a slow one, and notify other processes about commits.

Each process holds an exclusive lock on its own file for as long as it lives. The kernel releases it when the process
ends, even by kill -9, so a process that can take another's lock knows that the other is dead. This needs no heartbeats,
no time-outs and no trust in process ids, which are reused.

After each commit the process touches its file, and the kernel touches it when the process ends, so other processes can
watch the folder and miss nothing. Watching the database files would notify too early: a reader sees a commit only some
milliseconds after the write-ahead log changed.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self


class FileLock:
    """An advisory lock on a file, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock if it is free. Never waits."""
        return self._acquire((fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def acquire(self) -> None:
        """Take the lock, waiting for its holder. Only for short waits, off the event loop."""
        self._acquire(fcntl.LOCK_EX)

    def _acquire(self, operation: int) -> bool:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, operation)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def touch(self) -> None:
        """Notify watchers of the file by its times, if the lock is held. Does not wait for the disk."""
        if self._fd is not None:
            with suppress(OSError):  # watchers see the commit with the next notification
                os.utime(self._fd)

    def release(self) -> None:
        """Release the lock. May be called twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class ProcessMark:
    """The unique name of this process among all that use a home, and the lock that proves it alive."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._lock = FileLock(folder / f"{self.name}.lock")
        if not self._lock.try_acquire():
            raise OSError(f"the new lock file {self._lock.path} is locked already")

    def is_alive(self, name: str) -> bool:
        """Whether the process that made the mark `name` still runs."""
        if name == self.name:
            return True
        path = self._folder / f"{name}.lock"
        if not path.exists():
            return False
        probe = FileLock(path)
        if not probe.try_acquire():
            return True
        path.unlink(missing_ok=True)
        probe.release()
        return False

    def touch(self) -> None:
        self._lock.touch()

    def release(self) -> None:
        """Give up the name; the process owns nothing any more."""
        self._lock.path.unlink(missing_ok=True)
        self._lock.release()


def is_running(folder: Path, name: str) -> bool:
    """As `ProcessMark.is_alive`, for readers without a mark. Changes no file, so it wakes no watcher."""
    try:
        fd = os.open(folder / f"{name}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
