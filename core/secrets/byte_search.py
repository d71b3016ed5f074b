"""Finder: where any of many byte patterns stands, at the speed of a look at every fourth byte.

A pattern of 7 bytes or more covers, wherever it stands, at least one whole block of four bytes at a place that four
divides. For each pattern and each way to lie, one such block is remembered, the one that ordinary text has least; data
without any of these blocks has none of the patterns, and a set of integers tells that at once. Only where a block is
met are the patterns compared. Pure.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator

SHORTEST = 7
"""Bytes of a pattern; what is shorter need not cover a block."""
BLOCK = 4
SLICE_BLOCKS = 2048
"""Looked at in one go."""
_COMMON = frozenset(b"etaoinsrhldcu \n\r\t.,:/-_=0123456789")

Span = tuple[int, int]


class Finder:
    """Finds patterns, each of SHORTEST bytes at least."""

    def __init__(self, patterns: Iterable[bytes]) -> None:
        self.longest = 1
        """Bytes of the longest pattern; 1 where there is none."""
        self._patterns: list[bytes] = []
        """Sorted."""
        self._at: dict[int, list[tuple[bytes, int]]] = {}
        self._blocks: frozenset[int] = frozenset()
        self._beginnings: set[bytes] = set()
        """The first one to four bytes of each pattern."""
        self._first_blocks: set[int] = set()
        self.add(patterns)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def add(self, patterns: Iterable[bytes]) -> None:
        """Find these, too."""
        fresh = set(patterns).difference(self._patterns)
        for pattern in fresh:
            for block, offset in _blocks(pattern):
                self._at.setdefault(block, []).append((pattern, offset))
            self._beginnings.update(pattern[:size] for size in range(1, BLOCK + 1))
            self._first_blocks.add(_number(pattern[:BLOCK]))
        self._blocks = frozenset(self._at)
        self._patterns = sorted([*self._patterns, *fresh])
        self.longest = max(map(len, self._patterns), default=1)

    def is_in(self, data: bytes) -> bool:
        """Whether any pattern stands in the data."""
        return next(self._met(data), None) is not None

    def open_end(self, data: bytes) -> int:
        """Where the longest unfinished pattern begins at the end of the data; its length where there is none."""
        start = max(len(data) - self.longest + 1, 0)
        last = data[start:]
        if not any(self._may_begin(last[way:]) for way in range(BLOCK)):
            start = max(len(data) - BLOCK + 1, 0)
        for place in range(start, len(data)):
            if data[place : place + BLOCK] in self._beginnings and self._goes_on(data[place:]):
                return place
        return len(data)

    def _may_begin(self, data: bytes) -> bool:
        blocks = memoryview(data)[: len(data) // BLOCK * BLOCK].cast("I")
        return not self._first_blocks.isdisjoint(blocks)

    def _goes_on(self, data: bytes) -> bool:
        """Whether a pattern begins with all of the data and is longer."""
        place = bisect_right(self._patterns, data)
        return place < len(self._patterns) and self._patterns[place].startswith(data)

    def spans(self, data: bytes) -> list[Span]:
        """What the patterns cover, in order; those that overlap or touch are one."""
        return merged(self._met(data))

    def _met(self, data: bytes) -> Iterator[Span]:
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


def merged(spans: Iterable[Span]) -> list[Span]:
    """In order; those that overlap or touch are one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _blocks(pattern: bytes) -> Iterator[tuple[int, int]]:
    """For each of the four ways to lie, the block that is met then, and where in the pattern it stands."""
    for way in range(BLOCK):
        offsets = range(way, len(pattern) - BLOCK + 1, BLOCK)
        best = max(offsets, key=lambda offset: _rarity(pattern[offset : offset + BLOCK]))
        yield _number(pattern[best : best + BLOCK]), best


def _number(block: bytes) -> int:
    """The block as a memoryview of integers has it."""
    return int.from_bytes(block, sys.byteorder)


def _rarity(block: bytes) -> int:
    """How unlike ordinary text four bytes are."""
    kinds = {(97 <= byte <= 122, 65 <= byte <= 90, 48 <= byte <= 57) for byte in block}
    return 4 * len(kinds) + len(set(block)) - sum(byte in _COMMON for byte in block)
