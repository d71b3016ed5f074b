"""Tells when files of a folder change, without looking again and again: inotify, where the system is Linux.

Elsewhere there is nothing in the standard library that needs no second thread, so `watch` answers None and the caller
looks when it has a reason to.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

_ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _DELETE = 0x4, 0x8, 0x40, 0x80, 0x200
"""From inotify(7)."""
EDITED = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _DELETE
"""A file is complete, is replaced, or is gone. Editors do the one or the other."""
RUNG = _ATTRIB | _CLOSE_WRITE | _DELETE
"""A bell of `core.store.locks` is rung, or its process has let go of it, as every process does that ends."""


class Watch:
    """A folder that is watched until `close`."""

    def __init__(self, fd: int, changed: Callable[[], None], rest_s: float) -> None:
        self._fd = fd
        self._changed = changed
        self._rest_s = rest_s
        self._resting: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._hear)

    def _hear(self) -> None:
        """Answer at once, or once the rest is over: until then nothing wakes the loop, however much changes."""
        if not self._rest_s:
            self._read()
            return
        self._loop.remove_reader(self._fd)
        self._resting = self._loop.call_later(self._rest_s, self._rested)

    def _rested(self) -> None:
        self._resting = None
        self._loop.add_reader(self._fd, self._hear)
        self._read()

    def _read(self) -> None:
        try:
            os.read(self._fd, 65536)  # what changed does not matter: the folder is small, and is read as a whole
        except BlockingIOError:
            return
        self._changed()

    def close(self) -> None:
        """Watch no more. May be called twice."""
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


def watch(folder: Path, changed: Callable[[], None], what: int = EDITED, *, rest_s: float = 0.0) -> Watch | None:
    """Call `changed` on the running loop whenever a file in the folder changes; None where that cannot be had.

    What happens within `rest_s` seconds is told together, at their end.
    """
    if sys.platform != "linux" or not folder.is_dir():
        return None
    import ctypes  # after the first frame, which need not wait for it

    system = ctypes.CDLL(None, use_errno=True)
    fd = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        return None
    if system.inotify_add_watch(fd, os.fsencode(folder), what) < 0:
        os.close(fd)
        return None
    return Watch(fd, changed, rest_s)
