"""The changes of a text file, in hunks that can each be accepted or reverted. Pure functions of bytes.

Lines end only at a line feed, as for diff and git, and not where `bytes.splitlines` would end them. So putting hunks
together gives the original bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

CONTEXT = 3
"""Lines of context."""
MAX_BYTES = 1_000_000
"""The largest file that is split into hunks."""
MAX_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Hunk:
    """One difference between two texts. Positions count lines from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int
    lines: tuple[str, ...]
    """The hunk with its context, as a unified diff with its `@@` line. Foreign; bytes that are not UTF-8 are replaced.
    """


def hunks(old: bytes, new: bytes) -> list[Hunk] | None:
    """The differences of two contents, in order; None if they are binary or too long."""
    before, after = split(old), split(new)
    if b"\0" in old or b"\0" in new or max(len(before), len(after)) > MAX_LINES:
        return None
    return [_hunk(before, after, piece) for piece in _pieces(before, after)]


def applied(old: bytes, new: bytes, taken: Collection[int]) -> bytes:
    """The old content with those hunks of `hunks(old, new)` that have these numbers, and without the others."""
    before, after = split(old), split(new)
    parts: list[bytes] = []
    at = 0
    for number, (old_start, old_end, new_start, new_end) in enumerate(_pieces(before, after)):
        parts += before[at:old_start]
        parts += after[new_start:new_end] if number in taken else before[old_start:old_end]
        at = old_end
    return b"".join([*parts, *before[at:]])


def split(content: bytes) -> list[bytes]:
    """The lines, each with its line feed."""
    lines = content.split(b"\n")
    return [*(line + b"\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]


_Piece = tuple[int, int, int, int]
"""The range of lines in the old content, and the lines of the new one in its place."""


def _pieces(before: Sequence[bytes], after: Sequence[bytes]) -> Iterator[_Piece]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return (opcode[1:] for opcode in matcher.get_opcodes() if opcode[0] != "equal")


def _hunk(before: Sequence[bytes], after: Sequence[bytes], piece: _Piece) -> Hunk:
    i1, i2, j1, j2 = piece
    start, end = max(0, i1 - CONTEXT), min(len(before), i2 + CONTEXT)
    lead, tail = before[start:i1], before[i2:end]
    head = f"@@ -{start + 1},{end - start} +{j1 - len(lead) + 1},{j2 - j1 + len(lead) + len(tail)} @@"
    marked = [(" ", lead), ("-", before[i1:i2]), ("+", after[j1:j2]), (" ", tail)]
    lines = [f"{mark}{_text(line)}" for mark, part in marked for line in part]
    return Hunk(i1, i2, j1, j2, (head, *lines))


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8", "replace")
