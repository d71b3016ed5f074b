"""Search for many byte patterns at once.

A pattern of 7 bytes or more covers, at every position, at least one whole block of four bytes whose offset is a
multiple of four. For each pattern and each alignment one such block is indexed, the one that is rarest in ordinary
text. Data without any of these blocks has none of the patterns, which a set of integers answers quickly. Patterns are
compared only where a block is found.

A breakable pattern is also found with one line end in it. One of its halves is whole then, so blocks of both halves
are indexed. Pure.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator

SHORTEST = 7
"""Minimum length of a pattern; a shorter one may not cover a block."""
BREAKABLE = 2 * SHORTEST
"""Minimum length of a breakable pattern."""
BLOCK = 4
COMPARED = 48
"""Bytes at the beginning of a pattern whose blocks are compared to find the rarest."""
SLICE_BLOCKS = 2048
"""Blocks that are tested at once."""
_COMMON = frozenset(b"etaoinsrhldcu \n\r\t.,:/-_=0123456789")

Span = tuple[int, int]


class Finder:
    """Finds patterns of at least SHORTEST bytes."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        self.longest = 1
        """Bytes of the longest pattern; 1 if there is none."""
        self._patterns: list[bytes] = []
        """Sorted."""
        self._breakable: set[bytes] = set()
        self._longest_breakable = 0
        self._at: dict[int, list[tuple[bytes, int]]] = {}
        self._blocks: frozenset[int] = frozenset()
        self._beginnings: set[bytes] = set()
        """The first one to four bytes of each pattern."""
        self._first_blocks: set[int] = set()
        self.add(patterns)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def add(self, patterns: Iterable[bytes], breakable: Iterable[bytes] = ()) -> None:
        """Add patterns; `breakable` ones that are long enough are also found with one line end in them."""
        broken = {pattern for pattern in breakable if len(pattern) >= BREAKABLE} - self._breakable
        fresh = {*patterns, *broken}.difference(self._patterns)
        self._breakable |= broken
        for pattern in fresh | broken:
            middle = (len(pattern) + 1) // 2 if pattern in broken else len(pattern)
            for start in range(0, len(pattern), middle):
                for block, offset in _blocks(pattern[start : start + middle]):
                    self._at.setdefault(block, []).append((pattern, start + offset))
            self._beginnings.update(pattern[:size] for size in range(1, BLOCK + 1))
            self._first_blocks.add(_number(pattern[:BLOCK]))
        self._blocks = frozenset(self._at)
        self._patterns = sorted([*self._patterns, *fresh])
        self.longest = max(map(len, self._patterns), default=1)
        self._longest_breakable = max(map(len, self._breakable), default=0)

    def is_in(self, data: bytes) -> bool:
        """Whether the data contains any pattern."""
        return next(self._matches(data), None) is not None

    def open_end(self, data: bytes) -> int:
        """Where the longest incomplete pattern at the end of the data begins; its length if there is none."""
        place, longest = self._open_end(data), self._longest_breakable
        end = len(data) - data.endswith(b"\r")
        line_end = end if end < len(data) else data.rfind(b"\n", max(end - longest, 0))
        if line_end < 0 or not longest:
            return place
        start = max(line_end - longest, 0)
        first = data[start:line_end].removesuffix(b"\r")
        begin = self._open_end(first + data[line_end + 1 :])
        return min(place, start + begin) if begin < len(first) else place

    def _open_end(self, data: bytes) -> int:
        start = max(len(data) - self.longest + 1, 0)
        last = data[start:]
        if not any(self._may_begin(last[way:]) for way in range(BLOCK)):
            start = max(len(data) - BLOCK + 1, 0)
        for place in range(start, len(data)):
            if data[place : place + BLOCK] in self._beginnings and self._continues(data[place:]):
                return place
        return len(data)

    def _may_begin(self, data: bytes) -> bool:
        blocks = memoryview(data)[: len(data) // BLOCK * BLOCK].cast("I")
        return not self._first_blocks.isdisjoint(blocks)

    def _continues(self, data: bytes) -> bool:
        """Whether a pattern starts with all of the data and is longer."""
        place = bisect_right(self._patterns, data)
        return place < len(self._patterns) and self._patterns[place].startswith(data)

    def spans(self, data: bytes) -> list[Span]:
        """The spans of all matches in order; spans that overlap or touch are merged."""
        return merged(self._matches(data))

    def _matches(self, data: bytes) -> Iterator[Span]:
        if not self._blocks or len(data) < SHORTEST:
            return
        blocks = memoryview(data)[: len(data) // BLOCK * BLOCK].cast("I")
        for start in range(0, len(blocks), SLICE_BLOCKS):
            few = blocks[start : start + SLICE_BLOCKS]
            if not self._blocks.isdisjoint(few):
                yield from self._compared(data, few, start)

    def _compared(self, data: bytes, few: memoryview[int], start: int) -> Iterator[Span]:
        begun, end = start * BLOCK, (start + len(few)) * BLOCK
        for block in self._blocks.intersection(few):
            wanted, place = block.to_bytes(BLOCK, sys.byteorder), begun - 1
            while (place := data.find(wanted, place + 1, end)) >= 0:
                if place % BLOCK == 0:
                    yield from self._around(data, block, place)

    def _around(self, data: bytes, block: int, place: int) -> Iterator[Span]:
        for pattern, offset in self._at[block]:
            begin = place - offset
            if begin >= 0 and data.startswith(pattern, begin):
                yield begin, begin + len(pattern)
            elif pattern in self._breakable:
                yield from _broken(data, pattern, begin, place)


def _broken(data: bytes, pattern: bytes, begin: int, place: int) -> Iterator[Span]:
    """Match a pattern with one line end in it.

    `place` is where a block of it was found, and `begin` where it would begin if the line end is behind the block.
    """
    before = data.rfind(b"\n", max(begin, 0), place)
    behind = data.find(b"\n", place, max(begin, 0) + len(pattern) + 1)
    for line_end in (before, behind):
        first_end = line_end - (data[line_end - 1 : line_end] == b"\r")
        size = line_end + 1 - begin if line_end < place else first_end - begin
        first_begin = first_end - size
        last_end = line_end + 1 + len(pattern) - size
        is_inside = line_end >= 0 and first_begin >= 0 and 0 < size < len(pattern)
        if is_inside and data[first_begin:first_end] + data[line_end + 1 : last_end] == pattern:
            yield first_begin, last_end


def merged(spans: Iterable[Span]) -> list[Span]:
    """The spans in order; those that overlap or touch are merged."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _blocks(pattern: bytes) -> Iterator[tuple[int, int]]:
    """The rarest block of each of the four alignments, with its offset in the pattern."""
    for way in range(BLOCK):
        offsets = range(way, min(len(pattern), COMPARED) - BLOCK + 1, BLOCK)
        best = max(offsets, key=lambda offset: _rarity(pattern[offset : offset + BLOCK]))
        yield _number(pattern[best : best + BLOCK]), best


def _number(block: bytes) -> int:
    """The block as an element of a memoryview of integers."""
    return int.from_bytes(block, sys.byteorder)


def _rarity(block: bytes) -> int:
    """How rare four bytes are in ordinary text."""
    kinds = {(97 <= byte <= 122, 65 <= byte <= 90, 48 <= byte <= 57) for byte in block}
    return 4 * len(kinds) + len(set(block)) - sum(byte in _COMMON for byte in block)
