"""Watches a file, or the files of a folder, by inotify, without polling.

Only on Linux: for other systems the standard library has nothing that needs no second thread, so `watch` returns None
and the caller checks the folder when it has a reason to.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _DELETE = 0x4, 0x8, 0x40, 0x80, 0x200
"""From inotify(7)."""
EDITED = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _DELETE
"""A file was written, replaced or removed."""
_IGNORED = 0x8000
"""The watched file itself is gone, perhaps because another took its name."""
_EVENT = struct.Struct("iIII")
"""The watch, what happened, a cookie, and the length of the name that follows."""
RUNG = _ATTRIB | _CLOSE_WRITE | _DELETE
"""A bell of `core.store.locks` was rung, or its process has released it, as at its end."""


class Watch:
    """Watches a file or a folder until `close`."""

    def __init__(
        self, fd: int, changed: Callable[[], None], rest_s: float, add: Callable[[], object], names: frozenset[bytes]
    ) -> None:
        """`add` makes the inotify instance `fd` watch the path, also if another file has taken it."""
        self._fd = fd
        self._names = names
        self._changed = changed
        self._add = add
        self._rest_s = rest_s
        self._resting: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._hear)

    def _hear(self) -> None:
        """Call back at once, or after `rest_s`; until then no further change wakes the loop."""
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
            data = os.read(self._fd, 65536)  # the caller reads all of it
        except BlockingIOError:
            return
        happened = list(_happened(data))
        if any(what & _IGNORED for what, _ in happened):
            self._add()
        if not self._names or any(name in self._names for _, name in happened):
            self._changed()

    def close(self) -> None:
        """Stop watching. May be called twice."""
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


def watch(
    path: Path, changed: Callable[[], None], what: int = EDITED, *, rest_s: float = 0.0, names: Iterable[str] = ()
) -> Watch | None:
    """Call `changed` on the running loop whenever this file, or one in this folder, changes.

    If `names`, only changes of these files in the folder count, which need not exist yet. Changes within `rest_s`
    seconds cause one call, at their end. Returns None if it cannot be watched.
    """
    if sys.platform != "linux" or not path.exists():
        return None
    import ctypes  # not before the first frame

    system = ctypes.CDLL(None, use_errno=True)
    fd = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        return None

    def add() -> int:
        return int(system.inotify_add_watch(fd, os.fsencode(path), what))

    if add() < 0:
        os.close(fd)
        return None
    return Watch(fd, changed, rest_s, add, frozenset(map(os.fsencode, names)))


def _happened(data: bytes) -> Iterator[tuple[int, bytes]]:
    """What happened to which file of a folder, of each event in what inotify gives."""
    place = 0
    while place < len(data):
        _watch, what, _cookie, name_bytes = _EVENT.unpack_from(data, place)
        place += _EVENT.size
        yield what, data[place : place + name_bytes].rstrip(b"\0")
        place += name_bytes
