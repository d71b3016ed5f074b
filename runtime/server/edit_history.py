"""Previous versions of edited files, up to ten for each file, for `undo_edit`.

A step is stored before its edit becomes visible, so that every edit can be undone even after a crash. It has the whole
file, compressed, and the digest of the result, so that an undo can tell whether the file was changed since. All methods
block; callers use one thread at a time.

On disk (DiskHistory), each edited file has a ring file named by the digest of its path, with ten slots. A new step
overwrites the oldest slot, which costs one sync of data, a third of the time of a new file. A slot that a crash left
half written fails its checksum and counts as empty; its edit never became visible.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

UNDO_STEPS = 10
MAX_BYTES = 200 * 1024 * 1024
"""Limit for all compressed steps; beyond it, the files edited longest ago lose their steps."""
COMPRESSION = 1
"""zlib level: a source file takes 0.1 ms; a higher level takes three times as long and saves a fifth."""
DIGEST_BYTES = 32


@dataclass(frozen=True)
class Step:
    """One edit that can be undone."""

    packed: bytes
    """The compressed content before the edit."""
    after: bytes
    """The digest of the content after the edit."""

    @classmethod
    def of(cls, before: bytes, after: bytes) -> Step:
        """Pack the contents before and after an edit."""
        return cls(zlib.compress(before, COMPRESSION), hashlib.sha256(after).digest())

    @property
    def before(self) -> bytes:
        """The content before the edit. Raises zlib.error if it is damaged."""
        return zlib.decompress(self.packed)

    def is_followed_by(self, data: bytes) -> bool:
        """Return whether `data` is what the edit produced."""
        return hashlib.sha256(data).digest() == self.after


class History(Protocol):
    """The steps of all files by their real path."""

    def push(self, path: str, before: bytes, after: bytes) -> None:
        """Store a step. On disk, it is durable when this returns. Raises OSError."""
        ...

    def last(self, path: str) -> Step | None:
        """Return the newest step of a file. Raises OSError."""
        ...

    def pop(self, path: str) -> None:
        """Remove the newest step of a file. Raises OSError."""
        ...


class MemoryHistory:
    """A history that ends with the server."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._steps: dict[str, list[Step]] = {}
        self._max_bytes = max_bytes

    def push(self, path: str, before: bytes, after: bytes) -> None:
        steps = self._steps.pop(path, [])
        self._steps[path] = [*steps, Step.of(before, after)][-UNDO_STEPS:]  # the last is the latest
        while len(self._steps) > 1 and self._size_bytes() > self._max_bytes:
            del self._steps[next(iter(self._steps))]

    def last(self, path: str) -> Step | None:
        steps = self._steps.get(path)
        return steps[-1] if steps else None

    def pop(self, path: str) -> None:
        if steps := self._steps.get(path):
            steps.pop()

    def _size_bytes(self) -> int:
        return sum(len(step.packed) for steps in self._steps.values() for step in steps)


_PAGE_BYTES = 4096
"""Slots are aligned to pages, so that a torn write does not damage the next slot."""
_HEAD = struct.Struct(">8sQ")
"""File header, in its own page: a magic number and the size of a slot."""
_MARK = b"hl-undo1"
_SLOT = struct.Struct(f">QI{DIGEST_BYTES}s")
"""Slot header: the step's number from 1 (0 for an empty slot), its size, and the digest after the edit."""
_MAX_SLOT_BYTES = 2**40
"""A slot with a larger size is invalid."""
_NEW = ".new"
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_sync_data = getattr(os, "fdatasync", os.fsync)


class DiskHistory:
    """A history in a folder, which is created if missing and belongs to one server at a time.

    Raises OSError, or BlockingIOError if another server uses the folder. Above `max_bytes`, the files edited longest
    ago lose their steps.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock(self._folder, folder)
            self._max_bytes = max_bytes
            self._sizes = self._ring_sizes()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the folder, as the end of the process does."""
        os.close(self._folder)

    def push(self, path: str, before: bytes, after: bytes) -> None:
        name, step = _name(path), Step.of(before, after)
        with self._open_ring(name) as ring:
            if ring is not None and ring.has_room_for(step):
                ring.put(step)
                _sync_data(ring.fd)
                size = ring.disk_bytes
            else:
                size = self._write_ring(name, [*(ring.steps() if ring else ()), step])
        self._sizes.pop(name, None)
        self._sizes[name] = size  # the last is the latest
        self._drop_oldest()

    def last(self, path: str) -> Step | None:
        with self._open_ring(_name(path)) as ring:
            return ring.last() if ring else None

    def pop(self, path: str) -> None:
        with self._open_ring(_name(path)) as ring:
            if ring:
                ring.pop()

    @contextmanager
    def _open_ring(self, name: str) -> Iterator[_Ring | None]:
        try:
            fd = os.open(name, _FLAGS, dir_fd=self._folder)
        except FileNotFoundError:
            yield None
            return
        try:
            mark, slot_bytes = _HEAD.unpack(os.pread(fd, _HEAD.size, 0).ljust(_HEAD.size, b"\0"))
            yield _Ring(fd, slot_bytes) if mark == _MARK and _SLOT.size < slot_bytes <= _MAX_SLOT_BYTES else None
        finally:
            os.close(fd)

    def _write_ring(self, name: str, steps: list[Step]) -> int:
        """Write a new ring with these steps and room for larger ones; return its size on disk."""
        needed = 2 * max(_SLOT.size + len(step.packed) for step in steps)
        slot_bytes = (needed // _PAGE_BYTES + 1) * _PAGE_BYTES
        fd = os.open(_NEW, _FLAGS | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=self._folder)
        try:
            os.pwrite(fd, _HEAD.pack(_MARK, slot_bytes), 0)
            ring = _Ring(fd, slot_bytes)
            for step in steps:
                ring.put(step)
            os.fsync(fd)
            os.replace(_NEW, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
            return ring.disk_bytes
        finally:
            os.close(fd)

    def _ring_sizes(self) -> dict[str, int]:
        """Return the size of every ring by name, the one written longest ago first."""
        with suppress(FileNotFoundError):
            os.unlink(_NEW, dir_fd=self._folder)
        with os.scandir(self._folder) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        found.sort(key=lambda item: item[1].st_mtime_ns)
        return {name: status.st_blocks * 512 for name, status in found}

    def _drop_oldest(self) -> None:
        total = sum(self._sizes.values())
        while total > self._max_bytes and len(self._sizes) > 1:
            name = next(iter(self._sizes))
            total -= self._sizes.pop(name)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._folder)


@dataclass(frozen=True)
class _Ring:
    """The steps of one file."""

    fd: int
    slot_bytes: int

    @property
    def disk_bytes(self) -> int:
        return os.fstat(self.fd).st_blocks * 512

    def has_room_for(self, step: Step) -> bool:
        return _SLOT.size + len(step.packed) <= self.slot_bytes

    def put(self, step: Step) -> None:
        """Write a step into an empty slot, or over the oldest one."""
        numbers = self._numbers()
        slot = min(range(UNDO_STEPS), key=numbers.__getitem__)
        head = _SLOT.pack(max(numbers) + 1, len(step.packed), step.after)
        os.pwrite(self.fd, head + step.packed, self._at(slot))

    def steps(self) -> list[Step]:
        """Return as many steps as fit beside a new one, oldest first."""
        return [self._step(slot) for slot in self._filled()][1 - UNDO_STEPS :]

    def last(self) -> Step | None:
        """Return the newest undamaged step."""
        for slot in reversed(self._filled()):
            step = self._step(slot)
            with suppress(zlib.error):
                zlib.decompress(step.packed)
                return step
            self._empty(slot)
        return None

    def pop(self) -> None:
        """Empty the newest slot. Not synced: a step that comes back after a crash undoes nothing."""
        if filled := self._filled():
            self._empty(filled[-1])

    def _step(self, slot: int) -> Step:
        _, size, after = _SLOT.unpack(os.pread(self.fd, _SLOT.size, self._at(slot)))
        size = min(size, self.slot_bytes - _SLOT.size)
        return Step(os.pread(self.fd, size, self._at(slot) + _SLOT.size), after)

    def _filled(self) -> list[int]:
        """Return the slots in use, oldest first."""
        numbers = self._numbers()
        return sorted((slot for slot in range(UNDO_STEPS) if numbers[slot]), key=numbers.__getitem__)

    def _numbers(self) -> list[int]:
        heads = (os.pread(self.fd, 8, self._at(slot)).ljust(8, b"\0") for slot in range(UNDO_STEPS))
        return [int.from_bytes(head, "big") for head in heads]

    def _empty(self, slot: int) -> None:
        os.pwrite(self.fd, bytes(8), self._at(slot))

    def _at(self, slot: int) -> int:
        return _PAGE_BYTES + slot * self.slot_bytes


def _name(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _lock(fd: int, folder: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        message = "another server keeps its history here; give each a --state-dir of its own"
        raise BlockingIOError(error.errno, message, str(folder)) from error
