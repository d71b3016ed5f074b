"""BlockSearch: in which blocks of a model a text stands, and how often.

Searches the text of blocks, folded or not, and keeps only counts, so that a hit in every one of 100,000 blocks costs
little. Works in portions, from the newest block back; takes in what comes later at either end. Hits are named by the
serial of their block and their number in it. Knows no drawing but for where hits stand in drawn rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

from tui.panes.chat.overlays import parts_of

if TYPE_CHECKING:
    from textual.strip import Strip

    from tui.panes.chat.blocks import Block
    from tui.panes.chat.heights import Heights
    from tui.panes.chat.model import ChatModel
    from tui.widgets.find import Query, Step

AT_ONCE = 64 * 1024
"""Characters that are searched between two looks at the clock; a millisecond."""
EXACT_BLOCKS, EXACT_HITS = 200, 100
"""How many blocks with hits are shown hit by hit on the map, and how many hits of each."""
ROW = 80
"""About how many characters a row of text has."""
A_BLOCK = 1024
"""What a block costs by itself, in characters."""

Span = tuple[int, int, int]
"""Row of a piece, and the characters of it from where to where."""


class Hit(NamedTuple):
    """One place where the text stands."""

    serial: int
    nth: int


class BlockSearch:
    """A search for one text in one model."""

    def __init__(self, model: ChatModel, query: Query) -> None:
        self.query = query
        self.total = 0
        self._model = model
        self._counts: dict[int, int] = {}
        self._serials: list[int] | None = None
        self._sums: list[int] = []
        """Hits up to each of the serials; empty until asked for."""
        self._places: dict[int, list[float]] = {}
        """Of blocks with hits, how far down their text each one stands, from 0 to 1."""
        self._low = model.blocks[-1].serial + 1 if model.blocks else 0
        self._high = self._low - 1

    @property
    def complete(self) -> bool:
        """Whether every block has been searched."""
        blocks = self._model.blocks
        return not blocks or (blocks[0].serial >= self._low and blocks[-1].serial <= self._high)

    def go_on(self, until: float, clock: Callable[[], float]) -> None:
        """Search blocks until then."""
        while not self.complete:
            left = AT_ONCE
            while left > 0 and (block := self._next()) is not None:
                self._look_at(block)
                left -= len(block.text) + A_BLOCK
            if clock() >= until:
                return

    def _next(self) -> Block | None:
        """The next block to search: new ones first, then back to the oldest."""
        blocks = self._model.blocks
        if self.complete:
            return None
        base = blocks[0].serial
        if blocks[-1].serial > self._high:
            self._high += 1
            return blocks[self._high - base]
        self._low -= 1
        return blocks[self._low - base]

    def again(self, blocks: Iterable[Block]) -> None:
        """Search blocks once more that changed."""
        for block in blocks:
            if self._low <= block.serial <= self._high:
                self._look_at(block)

    def _look_at(self, block: Block) -> None:
        count = self.query.count(block.title) + self.query.count(block.text)
        before = self._counts.get(block.serial, 0)
        self._places.pop(block.serial, None)
        if count == before:
            return
        self.total += count - before
        self._serials = None
        if count:
            self._counts[block.serial] = count
        else:
            del self._counts[block.serial]

    @property
    def serials(self) -> list[int]:
        """The blocks with hits, in order."""
        if self._serials is None:
            self._serials, self._sums = sorted(self._counts), []
        return self._serials

    def nearest(self, serial: int) -> Hit | None:
        """The first hit from this block on; else the last one before it."""
        at = bisect_left(self.serials, serial)
        if at < len(self.serials):
            return Hit(self.serials[at], 0)
        return self._last_of(self.serials[-1]) if self.serials else None

    def beside(self, hit: Hit, step: Step) -> Hit | None:
        """The hit after this one or before it, round the ends."""
        nth = hit.nth + step
        if 0 <= nth < self._counts.get(hit.serial, 0):
            return Hit(hit.serial, nth)
        if not self.serials:
            return None
        at = bisect_left(self.serials, hit.serial + (step > 0)) - (step < 0)
        serial = self.serials[at % len(self.serials)]
        return Hit(serial, 0) if step > 0 else self._last_of(serial)

    def is_first(self, hit: Hit | None) -> bool:
        """Whether no hit stands before this one; None stands for where there is none yet."""
        if hit is None:
            return not self.serials
        return hit.nth == 0 and (not self.serials or hit.serial <= self.serials[0])

    def _last_of(self, serial: int) -> Hit:
        return Hit(serial, self._counts[serial] - 1)

    def number(self, hit: Hit) -> int:
        """Which of all hits this one is, from 1 on."""
        at = bisect_left(self.serials, hit.serial)
        if not self._sums:
            self._sums = list(accumulate(self._counts[serial] for serial in self.serials))
        return (self._sums[at - 1] if at else 0) + hit.nth + 1

    def cells(self, height: int, heights: Heights, base: int) -> set[int]:
        """The cells of a scrollbar of this height that stand for rows of hits.

        With many hits only whole blocks are looked at, so it costs what the scrollbar is long.
        """
        total = max(1, heights.total)
        if len(self.serials) <= EXACT_BLOCKS:
            return {row * height // total for row in self._rows(heights, base)}
        found = set()
        for cell in range(height):
            first, _ = heights.find(cell * total // height)
            last, _ = heights.find(max(0, (cell + 1) * total // height - 1))
            at = bisect_left(self.serials, base + first)
            if at < len(self.serials) and self.serials[at] <= base + last:
                found.add(cell)
        return found

    def _rows(self, heights: Heights, base: int) -> Iterator[int]:
        """About which rows the hits stand in: as far down their block as down its text."""
        for serial in self.serials:
            top, tall = heights.top(serial - base), heights[serial - base]
            block = self._model.blocks[serial - self._model.blocks[0].serial]
            title = bool(block.title)
            places = self._places.get(serial)
            if places is None:
                places = self._places[serial] = self._places_in(block.text)
            if self.query.pattern.search(block.title):
                yield top
            for place in places:
                yield top + title + int(place * max(1, tall - 1 - title))

    def _places_in(self, text: str) -> list[float]:
        """How far down a text the hits stand, from 0 to 1, as a line that ends early takes a row too."""
        size = len(text) + ROW * text.count("\n")
        found: list[float] = []
        at = above = 0
        for match in islice(self.query.pattern.finditer(text), EXACT_HITS):
            above += text.count("\n", at, match.start())
            at = match.start()
            found.append((at + ROW * above) / size)
        return found


def drawn_hits(strips: Sequence[Strip], query: Query) -> list[list[Span]]:
    """Where the text stands in the rows of a piece, hit by hit; a hit may go on in the next row."""
    lines: dict[str, list[str]] = {}
    places: dict[str, list[tuple[int, int, int]]] = {}
    """By side: where in the joined text a part begins, its row, and where in the row it begins."""
    sizes: dict[str, int] = {}
    for row, strip in enumerate(strips):
        begun = set()
        for at, text, side in parts_of(strip):
            known = lines.setdefault(side, [])
            if side not in begun and known:
                known.append("\n")
                sizes[side] += 1
            begun.add(side)
            places.setdefault(side, []).append((sizes.setdefault(side, 0), row, at))
            known.append(text)
            sizes[side] += len(text)
    found = []
    for side, known in lines.items():
        whole = "".join(known)
        for start, end in query.spans(whole):
            found.append(list(_rows_of(places[side], start, end, len(whole))))
    return sorted(found)


def _rows_of(places: list[tuple[int, int, int]], start: int, end: int, size: int) -> Iterable[Span]:
    begins = [begin for begin, _, _ in places]
    ends = [*begins[1:], size]
    for at in range(max(0, bisect_left(begins, start + 1) - 1), len(places)):
        begin, row, x = places[at]
        if begin >= end:
            return
        left, right = max(start, begin), min(end, ends[at])
        if left < right:
            yield row, x + left - begin, x + right - begin
