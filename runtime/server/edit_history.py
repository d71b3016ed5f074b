"""What files were before their edits: up to ten steps of each, for `undo_edit`.

A step is stored before its edit is visible, so that no edit is without its way back, wherever a crash falls. It holds
the whole file, compressed, and the digest of what the edit made of it: an undo can tell whether somebody else has
changed the file since. All methods block; callers use one thread at a time.

The history of edits on a disk, so that `undo_edit` works after a restart of the server.

A file for each file that was edited, by the digest of its real path: a ring of ten slots, each with one step, its
number and what the edit made. A new step takes the place of the oldest one, where the disk has room for it already:
that costs one sync of data and no change of the file system, a third of what a file of its own costs. A step is whole
once `push` has returned. One that a crash left half written is told by its checksum and counts as none: its edit never
became visible, and the step that it was written over was the eleventh.

The history of edits of a server that several conversations have one after another: each has its own on the disk.

Invariant: nobody takes back an edit of somebody else. What is edited before anybody has claimed the server is kept in
memory, and ends with this life.
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
"""Of all steps of all files, compressed; beyond it, the files that were edited longest ago lose theirs."""
COMPRESSION = 1
"""Of zlib: a source file in a tenth of a millisecond; a higher level takes three times as long for a fifth less."""
DIGEST_BYTES = 32


@dataclass(frozen=True)
class Step:
    """One edit that can be taken back."""

    before: bytes
    """The file as it was."""
    after: bytes
    """The digest of the file as the edit left it."""

    def is_followed_by(self, data: bytes) -> bool:
        """Whether a file is as the edit left it."""
        return digest(data) == self.after


@dataclass(frozen=True)
class PackedStep:
    """A Step as it is kept."""

    packed: bytes
    after: bytes

    @classmethod
    def of(cls, before: bytes, after: bytes) -> PackedStep:
        """Of the contents before and after an edit."""
        return cls(zlib.compress(before, COMPRESSION), digest(after))

    def step(self) -> Step:
        """As it was. Raises zlib.error where it has been damaged."""
        return Step(zlib.decompress(self.packed), self.after)


class History(Protocol):
    """The steps of every file, by its real path."""

    def push(self, path: str, before: bytes, after: bytes) -> None:
        """Keep a step. Where it is kept on a disk, it is there once this has returned. Raises OSError."""
        ...

    def last(self, path: str) -> Step | None:
        """The newest step of a file. Raises OSError."""
        ...

    def pop(self, path: str) -> None:
        """Forget the newest step of a file: it was taken back, or never came to be. Raises OSError."""
        ...


class HistoryInMemory:
    """Steps that end with the server."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._steps: dict[str, list[PackedStep]] = {}
        self._max_bytes = max_bytes

    def push(self, path: str, before: bytes, after: bytes) -> None:
        steps = self._steps.pop(path, [])
        self._steps[path] = [*steps, PackedStep.of(before, after)][-UNDO_STEPS:]  # the last is the latest
        while len(self._steps) > 1 and sum(map(len, self._sizes())) > self._max_bytes:
            del self._steps[next(iter(self._steps))]

    def last(self, path: str) -> Step | None:
        steps = self._steps.get(path)
        return steps[-1].step() if steps else None

    def pop(self, path: str) -> None:
        if steps := self._steps.get(path):
            steps.pop()

    def _sizes(self) -> Iterator[bytes]:
        return (step.packed for steps in self._steps.values() for step in steps)


def digest(data: bytes) -> bytes:
    """Tells contents apart."""
    return hashlib.sha256(data).digest()


_PAGE_BYTES = 4096
"""Slots begin and end with pages, so that one that is torn leaves the next whole."""
_HEAD = struct.Struct(">8sQ")
"""Of the file, in a page of its own: a mark, and the bytes of a slot."""
_MARK = b"hl-undo1"
_SLOT = struct.Struct(f">QI{DIGEST_BYTES}s")
"""Before a step: its number, from 1; its bytes; what the edit made. Number 0 is an empty slot."""
_MAX_SLOT_BYTES = 2**40
"""Beyond it, a file is none of ours."""
_NEW = ".new"
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_sync_data = getattr(os, "fdatasync", os.fsync)


class KeptHistory:
    """Implements History in a folder, which is made where it is missing, and belongs to one server at a time.

    Raises OSError where it cannot be had, BlockingIOError where another server has it. More than `max_bytes` on the
    disk: the files that were edited longest ago lose their steps.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _own(self._folder, folder)
            self._max_bytes = max_bytes
            self._sizes = self._measured()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the folder. The end of the process does so, too."""
        os.close(self._folder)

    def push(self, path: str, before: bytes, after: bytes) -> None:
        name, step = _name(path), PackedStep.of(before, after)
        with self._opened(name) as ring:
            if ring is not None and ring.has_room_for(step):
                ring.put(step)
                _sync_data(ring.fd)
                size = ring.disk_bytes
            else:
                size = self._made(name, [*(ring.steps() if ring else ()), step])
        self._sizes.pop(name, None)
        self._sizes[name] = size  # the last is the latest
        self._drop_oldest()

    def last(self, path: str) -> Step | None:
        with self._opened(_name(path)) as ring:
            return ring.last() if ring else None

    def pop(self, path: str) -> None:
        with self._opened(_name(path)) as ring:
            if ring:
                ring.pop()

    @contextmanager
    def _opened(self, name: str) -> Iterator[_Ring | None]:
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

    def _made(self, name: str, steps: list[PackedStep]) -> int:
        """A new ring with these steps, the last of them at least, with room for larger ones; its bytes."""
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

    def _measured(self) -> dict[str, int]:
        """The bytes of every ring by its name, the one that was written longest ago first."""
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

    def has_room_for(self, step: PackedStep) -> bool:
        return _SLOT.size + len(step.packed) <= self.slot_bytes

    def put(self, step: PackedStep) -> None:
        """Write a step into an empty slot, or over the oldest one."""
        numbers = self._numbers()
        slot = min(range(UNDO_STEPS), key=numbers.__getitem__)
        head = _SLOT.pack(max(numbers) + 1, len(step.packed), step.after)
        os.pwrite(self.fd, head + step.packed, self._at(slot))

    def steps(self) -> list[PackedStep]:
        """As many as a ring holds beside a new one, the oldest first."""
        return [self._packed(slot) for slot in self._filled()][1 - UNDO_STEPS :]

    def last(self) -> Step | None:
        """The newest step that is whole."""
        for slot in reversed(self._filled()):
            with suppress(zlib.error):
                return self._packed(slot).step()
            self._empty(slot)
        return None

    def pop(self) -> None:
        """Empty the newest slot. Not synced: a step that comes back is one that changes nothing."""
        if filled := self._filled():
            self._empty(filled[-1])

    def _packed(self, slot: int) -> PackedStep:
        _, size, after = _SLOT.unpack(os.pread(self.fd, _SLOT.size, self._at(slot)))
        size = min(size, self.slot_bytes - _SLOT.size)
        return PackedStep(os.pread(self.fd, size, self._at(slot) + _SLOT.size), after)

    def _filled(self) -> list[int]:
        """The slots that hold a step, the oldest first."""
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


def _own(fd: int, folder: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        message = "another server keeps its history here; give each a --state-dir of its own"
        raise BlockingIOError(error.errno, message, str(folder)) from error


FOLDER_CHARS = 32


class OwnedHistory:
    """Implements History: in memory, until `claim` names the owner."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history: History = HistoryInMemory()

    def claim(self, owner: str) -> None:
        """Go on with what this owner has edited before. Blocks. Raises OSError where it cannot be had."""
        name = hashlib.sha256(owner.encode()).hexdigest()[:FOLDER_CHARS]
        self._history = KeptHistory(self._folder / name)

    def push(self, path: str, before: bytes, after: bytes) -> None:
        self._history.push(path, before, after)

    def last(self, path: str) -> Step | None:
        return self._history.last(path)

    def pop(self, path: str) -> None:
        self._history.pop(path)
