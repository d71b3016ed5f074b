"""The history of edits on a disk, so that `undo_edit` works after a restart of the server.

    FOLDER/DIGEST OF THE REAL PATH/NUMBER OF THE STEP

A step is a file: the digest of what the edit made, and what was before, compressed. It is whole once `push` has
returned; one that a crash left unfinished is told by its checksum and dropped, for its edit never became visible.
Nothing is cached but the size of all, so servers may share a folder.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runtime.server.history import DIGEST_BYTES, MAX_BYTES, UNDO_STEPS, PackedStep, Step

_NAME_BYTES = 20
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class KeptHistory:
    """Implements History in a folder, which is made where it is missing. Raises OSError where it cannot be had."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._total_bytes = sum(kept.size for kept in self._all())

    def push(self, path: str, before: bytes, after: bytes) -> None:
        folder = self._folder / _name(path)
        step = PackedStep.of(before, after)
        with suppress(FileExistsError):
            folder.mkdir(0o700)
            _sync(self._folder)
        numbers = _numbers(folder)
        _write(folder, numbers[-1] + 1 if numbers else 1, step.after + step.packed)
        for number in numbers[: max(0, len(numbers) + 1 - UNDO_STEPS)]:
            self._forget(folder / str(number))
        self._total_bytes += DIGEST_BYTES + len(step.packed)
        if self._total_bytes > self._max_bytes:
            self._drop_oldest()

    def last(self, path: str) -> Step | None:
        folder = self._folder / _name(path)
        for number in reversed(_numbers(folder)):
            try:
                return _read(folder / str(number))
            except (zlib.error, ValueError):
                self._forget(folder / str(number))
        return None

    def pop(self, path: str) -> None:
        folder = self._folder / _name(path)
        if numbers := _numbers(folder):
            self._forget(folder / str(numbers[-1]))

    def _drop_oldest(self) -> None:
        kept = sorted(self._all(), key=lambda step: (step.written_at, step.number))
        self._total_bytes = sum(step.size for step in kept)
        for step in kept[:-1]:
            if self._total_bytes <= self._max_bytes:
                break
            self._forget(step.file)
            with suppress(OSError):  # it holds other steps
                step.file.parent.rmdir()

    def _forget(self, file: Path) -> None:
        with suppress(FileNotFoundError):
            size = file.stat().st_size
            file.unlink()
            self._total_bytes -= size

    def _all(self) -> Iterator[_Kept]:
        for folder in self._folder.iterdir():
            for number in _numbers(folder):
                with suppress(FileNotFoundError):
                    file = folder / str(number)
                    status = file.stat()
                    yield _Kept(file, number, status.st_mtime_ns, status.st_size)


@dataclass(frozen=True)
class _Kept:
    """A step on the disk. `written_at` is in nanoseconds."""

    file: Path
    number: int
    written_at: int
    size: int


def _name(path: str) -> str:
    return hashlib.blake2b(os.fsencode(path), digest_size=_NAME_BYTES).hexdigest()


def _numbers(folder: Path) -> list[int]:
    """Of the steps in a folder, the oldest first."""
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdecimal())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _write(folder: Path, number: int, data: bytes) -> None:
    """Write a step; where another server took its number meanwhile, under the next."""
    while True:
        try:
            fd = os.open(folder / str(number), _FLAGS | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            break
        except FileExistsError:
            number += 1
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        _sync(folder)
    except BaseException:
        (folder / str(number)).unlink()
        raise


def _read(file: Path) -> Step:
    """A step. Raises zlib.error, ValueError where it is not whole, OSError."""
    with open(os.open(file, _FLAGS | os.O_RDONLY), "rb") as opened:
        data = opened.read()
    if len(data) < DIGEST_BYTES:
        raise ValueError("no digest")
    return PackedStep(data[DIGEST_BYTES:], data[:DIGEST_BYTES]).step()


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
