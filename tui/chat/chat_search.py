"""Search in the chat: counts the hits in all blocks, and locates visible ones in what is drawn.

`BlockSearch` searches the text of blocks, folded or not, and keeps only counts, so that hits in 100,000 blocks cost
little. It works in slices, from the newest block back, and includes blocks that are added later. `Finder` implements
`tui.find.pane_search.Findable` for `ChatView`; a block unfolds when the user goes to a hit in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from textual.message import Message

from tui.chat.block_layout import Anchor
from tui.chat.canvas import Canvas
from tui.chat.overlays import parts_of
from tui.chat.text_pieces import PieceKind
from tui.find.pane_search import (
    PAUSE_S,
    SLICE_S,
    Query,
    Step,
    Tally,
    TallyChanged,
    show_hit_map,
    with_marks,
    without_colour,
)
from tui.i18n import _

if TYPE_CHECKING:
    from textual.strip import Strip

    from tui.chat.block_layout import Heights, Row
    from tui.chat.blocks import Block
    from tui.chat.model import ChatModel
    from tui.chat.text_pieces import Piece

CHARS_AT_ONCE = 64 * 1024
"""Characters that are searched between two looks at the clock; a millisecond."""
MARKED_BLOCKS, MARKED_HITS = 200, 100
"""Up to so many blocks with hits, each hit is marked in the scrollbar, and so many hits of a block."""
ROW_CHARS = 80
"""About how many characters a row has."""
BLOCK_COST = 1024
"""The cost of searching an empty block, in characters."""

Span = tuple[int, int, int]
"""A row of a piece, and the first and last character."""


class Hit(NamedTuple):
    """A hit, as the serial of its block and its number in the block."""

    serial: int
    nth: int


class BlockSearch:
    """A search for one text in one model."""

    def __init__(self, model: ChatModel, query: Query) -> None:
        self.query = query
        self.total = 0
        self._model = model
        self._moves = model.moves
        self._counts: dict[int, int] = {}
        self._serials: list[int] | None = None
        self._sums: list[int] = []
        """Hits up to each of the serials; empty until needed."""
        self._places: dict[int, list[float]] = {}
        """How far down the text of a block each hit is, from 0 to 1."""
        self._first = model.blocks[-1].serial + 1 if model.blocks else 0
        self._last = self._first - 1

    @property
    def is_complete(self) -> bool:
        blocks = self._model.blocks
        return not blocks or (blocks[0].serial >= self._first and blocks[-1].serial <= self._last)

    @property
    def is_stale(self) -> bool:
        """Whether an undo or a redo has moved blocks since: their serials mean others now."""
        return self._moves != self._model.moves

    def work(self, until: float) -> None:
        while not self.is_complete:
            left = CHARS_AT_ONCE
            while left > 0 and (block := self._next()) is not None:
                self._search(block)
                left -= len(block.text) + BLOCK_COST
            if monotonic() >= until:
                return

    def _next(self) -> Block | None:
        """Return the next block to search: new ones first, then back to the oldest."""
        blocks = self._model.blocks
        if self.is_complete:
            return None
        base = blocks[0].serial
        if blocks[-1].serial > self._last:
            self._last += 1
            return blocks[self._last - base]
        self._first -= 1
        return blocks[self._first - base]

    def search_again(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            if self._first <= block.serial <= self._last:
                self._search(block)

    def _search(self, block: Block) -> None:
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
        """The serials of blocks with hits, in order."""
        if self._serials is None:
            self._serials, self._sums = sorted(self._counts), []
        return self._serials

    def nearest(self, serial: int) -> Hit | None:
        """Return the first hit from this block on; else the last one before it."""
        at = bisect_left(self.serials, serial)
        if at < len(self.serials):
            return Hit(self.serials[at], 0)
        return self._last_of(self.serials[-1]) if self.serials else None

    def neighbour(self, hit: Hit, step: Step) -> Hit | None:
        """Return the next or the previous hit, wrapping around the ends."""
        nth = hit.nth + step
        if 0 <= nth < self._counts.get(hit.serial, 0):
            return Hit(hit.serial, nth)
        if not self.serials:
            return None
        at = bisect_left(self.serials, hit.serial + (step > 0)) - (step < 0)
        serial = self.serials[at % len(self.serials)]
        return Hit(serial, 0) if step > 0 else self._last_of(serial)

    def is_first(self, hit: Hit | None) -> bool:
        """Whether there is no hit before this one; None if there is no current hit yet."""
        if hit is None:
            return not self.serials
        return hit.nth == 0 and (not self.serials or hit.serial <= self.serials[0])

    def _last_of(self, serial: int) -> Hit:
        return Hit(serial, self._counts[serial] - 1)

    def number(self, hit: Hit) -> int:
        """Return the number of this hit among all, from 1 on."""
        at = bisect_left(self.serials, hit.serial)
        if not self._sums:
            self._sums = list(accumulate(self._counts[serial] for serial in self.serials))
        return (self._sums[at - 1] if at else 0) + hit.nth + 1

    def cells(self, height: int, heights: Heights, base: int) -> set[int]:
        """Return the cells of a scrollbar of this height that have hits.

        With many hits only whole blocks are considered, so the cost depends on the height only.
        """
        total = max(1, heights.total)
        if len(self.serials) <= MARKED_BLOCKS:
            return {row * height // total for row in self._rows(heights, base)}
        marked = set()
        for cell in range(height):
            first, _ = heights.find(cell * total // height)
            last, _ = heights.find(max(0, (cell + 1) * total // height - 1))
            at = bisect_left(self.serials, base + first)
            if at < len(self.serials) and self.serials[at] <= base + last:
                marked.add(cell)
        return marked

    def _rows(self, heights: Heights, base: int) -> Iterator[int]:
        """Estimate the rows of hits: as far down their block as down its text."""
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
        """Return how far down a text the hits are, from 0 to 1; a short line counts as a row."""
        size = len(text) + ROW_CHARS * text.count("\n")
        found: list[float] = []
        at = above = 0
        for match in islice(self.query.pattern.finditer(text), MARKED_HITS):
            above += text.count("\n", at, match.start())
            at = match.start()
            found.append((at + ROW_CHARS * above) / size)
        return found


def drawn_hits(strips: Sequence[Strip], query: Query) -> list[list[Span]]:
    """Locate the hits in the rows of a piece; a hit may go on in the next row."""
    lines: dict[str, list[str]] = {}
    places: dict[str, list[tuple[int, int, int]]] = {}
    """By side: where a part begins in the joined text, its row, and where it begins in the row."""
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


NOT_SEARCHED = frozenset({PieceKind.BLANK, PieceKind.HIDDEN, PieceKind.DIFF_GAP, PieceKind.PICTURE})
"""Pieces that are no text of the block."""
CACHED_PIECES = 256
"""Pieces whose hits are kept; a screen shows a few dozen."""
MAX_SCROLLS = 4
"""A hit's row is exact once what is above it on the screen was drawn, which each scrolling does."""


class Finder(Canvas):
    """The part of the chat pane that finds text."""

    class OlderWanted(Message, namespace="chat_view"):
        """The reader is near the top, and there are older events that are not loaded."""

        def __init__(self, view: object) -> None:
            super().__init__()
            self.view = view

    search: BlockSearch | None = None
    hit: Hit | None = None
    _here: tuple[int, int, int] | None = None
    """The current hit in what is drawn: serial, piece, number in the piece."""
    _drawn: OrderedDict[Piece, list[list[Span]]] = OrderedDict()
    _searching = False
    _posted_tally = Tally()
    _start_serial = 0
    """The block that was on top when the search began."""
    _goes_to_first = False
    """Whether the first hit is still to be gone to."""
    _reads_back = False
    """Whether older pages are loaded until one has a hit."""
    _oldest_requested: int | None = None
    """The oldest loaded event when an older page was requested."""

    @property
    def tally(self) -> Tally:
        search, model = self.search, self._model
        if search is None or model is None:
            return Tally()
        here = search.number(self.hit) if self.hit is not None else 0
        loads = bool(model.first_id) and not self._reads_back
        note = _("earlier events are not loaded; ↑ loads them") if loads else ""
        return Tally(here, search.total, not search.is_complete or self._reads_back, note)

    def find(self, query: Query | None) -> None:
        """Search every block, and go to the first hit from the top of the screen on."""
        model = self._model
        if self.search is None and self.place is not None:
            self._start_serial = self._top_serial()  # each typed letter searches from there
        self.hit = self._here = None
        self._goes_to_first, self._reads_back = query is not None, False
        self._drawn = OrderedDict()
        self.search = BlockSearch(model, query) if model is not None and query is not None else None
        self._show_map()
        self.refresh()
        self._posted_tally = Tally()
        if self.search is not None and not self._searching:
            self._search_on()

    def attach(self, model: ChatModel | None) -> None:
        query = self.search.query if self.search is not None else None
        self.search = None
        super().attach(model)
        if query is not None:
            self.find(query)

    def _search_on(self) -> None:
        """Search for one slice, and continue after whatever else waits."""
        self._searching = self.search is not None
        if self._searching and not self.is_current:
            self.flush()  # going to a hit needs what is drawn
        search = self.search
        if search is None:
            return
        search.work(monotonic() + SLICE_S)
        place = self.place
        if self._goes_to_first and place is not None and search.total:
            hit = search.nearest(self._start_serial)
            if search.is_complete or (hit is not None and hit.serial >= self._start_serial):
                self._goes_to_first = self._reads_back = False
                self._go_to(hit)
        elif search.is_complete and not self._reads_back:
            self._goes_to_first = False  # later messages do not move the reader
        if search.is_complete and self._reads_back:
            self._read_back(search)
        self._searching = not search.is_complete
        if self._searching:
            self.set_timer(PAUSE_S, self._search_on)
        self.vertical_scrollbar.refresh()
        if self.tally != self._posted_tally:
            self._posted_tally = self.tally
            self.post_message(TallyChanged())

    def _read_back(self, search: BlockSearch) -> None:
        """Go to the previous hit, in a page that was just loaded; if there is none, request the page before."""
        assert self._model is not None
        first = self._model.first_id
        is_new = self._oldest_requested != first
        self._reads_back = bool(first) and (not is_new or search.is_first(self.hit))
        if not self._reads_back and self.hit is not None:
            self._go_to(search.neighbour(self.hit, -1))
        elif self._reads_back and is_new:
            self._oldest_requested = first
            self.post_message(self.OlderWanted(self))

    def _top_serial(self) -> int:
        assert self.place is not None
        column = self.place.column
        return column.anchor(self.scroll_offset.y).serial

    def flush(self) -> None:
        """Draw what changed, and search it again."""
        if self.search is not None and self.search.is_stale and self._model is not None:
            self.hit = self._here = None
            self._drawn = OrderedDict()
            self.search = BlockSearch(self._model, self.search.query)
        if self.search is not None and self.place is not None:
            self.search.search_again(self.place.column.model.touched)
        super().flush()
        if self.search is not None and self.place is not None and not self._searching:
            self._search_on()

    def go_to_hit(self, step: Step) -> None:
        """Go to the next or previous hit; before the first one, older events are loaded."""
        if not self.is_current:
            self.flush()
        search, model = self.search, self._model
        if search is None or model is None:
            return
        if step < 0 and model.first_id and search.is_first(self.hit):
            self._reads_back, self._oldest_requested, self._goes_to_first = True, None, self.hit is None
            self._read_back(search)
        elif self.place is not None:
            hit = search.nearest(self._top_serial()) if self.hit is None else search.neighbour(self.hit, step)
            self._go_to(hit)
        self.post_message(TallyChanged())

    def _go_to(self, hit: Hit | None) -> None:
        """Put the block cursor on a hit's block, unfold it if that hides the hit, and show the hit."""
        place, search = self.place, self.search
        if hit is None or place is None or search is None:
            return
        column = place.column
        block = column.block(hit.serial - column.base)
        self.hit, place.cursor = hit, block
        number, nth = self._piece_of(hit)
        drawn = self._hits_in(column.pieces(hit.serial)[number])
        if block.folded and block.can_fold and nth >= len(drawn):
            column.model.toggle(block)
            self.flush()
            number, nth = self._piece_of(hit)
            drawn = self._hits_in(column.pieces(hit.serial)[number])
        nth = min(nth, len(drawn) - 1)
        self._here = (hit.serial, number, nth)
        self._show(Anchor(hit.serial, number, drawn[nth][0][0] if drawn else 0))

    def _piece_of(self, hit: Hit) -> tuple[int, int]:
        """Return the piece of a hit, and the number of the hit in it."""
        assert self.place is not None
        assert self.search is not None
        nth = hit.nth
        for number, piece in enumerate(self.place.column.pieces(hit.serial)):
            if piece.kind not in NOT_SEARCHED:
                count = self.search.query.count(piece.text)
                if nth < count:
                    return number, nth
                nth -= count
        return 0, nth

    def _show(self, anchor: Anchor) -> None:
        assert self.place is not None
        column, height = self.place.column, self.scrollable_content_region.height
        for _try in range(MAX_SCROLLS):
            row = column.row(anchor)
            if self.scroll_offset.y <= row < self.scroll_offset.y + height:
                break
            self._scroll_to_row(row - height // 3)
        self.refresh(self.size.region)

    def with_overlays(self, shown: Row, row: int) -> Strip:
        strip = super().with_overlays(shown, row)
        if self.search is None or shown.piece.kind in NOT_SEARCHED:
            return strip
        others: list[tuple[int, int]] = []
        here: list[tuple[int, int]] = []
        for nth, spans in enumerate(self._hits_in(shown.piece)):
            marked = [(start, end) for at, start, end in spans if at == shown.at]
            (here if (shown.serial, shown.number, nth) == self._here else others).extend(marked)
        strip = with_marks(strip, others, without_colour(self.styles_used["hit"]))
        return with_marks(strip, here, self.styles_used["hit-here"])

    def _hits_in(self, piece: Piece) -> list[list[Span]]:
        assert self.search is not None
        assert self.place is not None
        known = self._drawn.get(piece)
        if known is None:
            known = self._drawn[piece] = drawn_hits(self.place.column.rows_of(piece), self.search.query)
            if len(self._drawn) > CACHED_PIECES:
                self._drawn.popitem(last=False)
        return known

    def _restyle(self) -> None:
        self._drawn = OrderedDict()  # rows change with the width
        super()._restyle()
        if self.search is not None:
            self._show_map()

    def _show_map(self) -> None:
        here = self.styles_used.get("hit-here")
        show_hit_map(self, self._hit_cells if self.search else None, here.bgcolor if here else None)

    def _hit_cells(self, height: int) -> set[int]:
        if self.search is None or self.place is None or self.search.is_stale:
            return set()
        column = self.place.column
        return self.search.cells(height, column.heights, column.base)
