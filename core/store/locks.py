"""Locks that die with their process: how a dead owner is told from a slow one.

Each process holds an exclusive lock on a file of its own for as long as it lives. The kernel lets go of it at the
very moment the process ends, by kill -9 too, so whoever can take another's lock knows that the other is dead. No
heartbeats, no time-outs, no trust in process ids, which are used again.

The same file is a bell. Its process rings it, by its times, after each commit, and the kernel does when the process
ends: whoever watches the folder of these files has to look no sooner, and misses nothing. The database's own files
would tell too early: a reader sees a commit some milliseconds after the log was written, once the disk has it.
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
        """Take the lock if nobody stands in the way. Never waits."""
        return self._acquire((fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def acquire(self) -> None:
        """Take the lock, waiting for whoever holds it. Only for moments, and off the event loop."""
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

    def ring(self) -> None:
        """Have those who watch the file look, where the lock is held; writes no byte, and waits for no disk."""
        if self._fd is not None:
            with suppress(OSError):  # what was committed stays so, and is seen with the next ring
                os.utime(self._fd)

    def release(self) -> None:
        """Let go. May be called twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class ProcessMark:
    """This process among all that use one home: a name nobody else has, and the lock that proves it alive."""

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

    def ring(self) -> None:
        """Tell all who watch the folder that this process has written something."""
        self._lock.ring()

    def release(self) -> None:
        """The process no longer owns anything."""
        self._lock.path.unlink(missing_ok=True)
        self._lock.release()


def is_running(folder: Path, name: str) -> bool:
    """As `ProcessMark.is_alive`, for one who has no mark: it changes no file, so that nobody who watches is woken."""
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
