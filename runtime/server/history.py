"""What files were before their edits: up to ten steps of each, for `undo_edit`.

A step is stored before its edit is visible, so that no edit is without its way back, wherever a crash falls. It holds
the whole file, compressed, and the digest of what the edit made of it: an undo can tell whether somebody else has
changed the file since. All methods block; callers use one thread at a time.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
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
