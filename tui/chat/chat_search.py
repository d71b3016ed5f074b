"""Search in the transcript: counts the matches in all blocks, and finds their place in what is drawn.

`BlockSearch` searches the text of blocks, folded or not, and keeps only counts, so that a match in every one of
100,000 blocks costs little. It works in portions, from the newest block back, and takes in blocks that are added later.
`Finder` implements `tui.find.pane_search.Findable` for `ChatView`: only matches on the screen are located in what is
drawn, and a block unfolds when the user goes to a match in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
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


SAID_BY_US = frozenset({PieceKind.BLANK, PieceKind.HIDDEN, PieceKind.DIFF_GAP, PieceKind.PICTURE})
"""Pieces that are no text of the block."""
LOOKED_AT = 256
"""Pieces whose hits are remembered; a screen shows a few dozen."""
TRIES = 4
"""A hit's row is exact once what is drawn above it is; each try draws that."""


class Finder(Canvas):
    """The part of the transcript's view that finds text."""

    class OlderWanted(Message, namespace="chat_view"):
        """The reader is near the top, and the log has older events than the model."""

        def __init__(self, view: object) -> None:
            super().__init__()
            self.view = view
            """Which of two chats."""

    search: BlockSearch | None = None
    """What is looked for at the moment."""
    hit: Hit | None = None
    """The hit that the reader is at."""
    _here: tuple[int, int, int] | None = None
    """The same in what is drawn: serial, piece, number in the piece."""
    _drawn: OrderedDict[Piece, list[list[Span]]] = OrderedDict()
    _searching = False
    _told = Tally()
    _from = 0
    """The block that was on top when the reader began to search."""
    _goes_first = False
    """The first hit is still to be gone to."""
    _going_back = False
    """Pages before are loaded, one after the other, until there is a hit in one."""
    _asked_from: int | None = None
    """The oldest event that was loaded when the page before it was asked for."""

    @property
    def tally(self) -> Tally:
        search, model = self.search, self._model
        if search is None or model is None:
            return Tally()
        here = search.number(self.hit) if self.hit is not None else 0
        loads = bool(model.first_id) and not self._going_back
        note = _("earlier events are not loaded; ↑ loads them") if loads else ""
        return Tally(here, search.total, not search.complete or self._going_back, note)

    def find(self, query: Query | None) -> None:
        """Look for this in every block, and go to the first hit from the top of the screen on."""
        model = self._model
        if self.search is None and self.place is not None:
            self._from = self._top_serial()  # each letter of what is looked for begins there
        self.hit = self._here = None
        self._goes_first, self._going_back = query is not None, False
        self._drawn = OrderedDict()
        self.search = BlockSearch(model, query) if model is not None and query is not None else None
        self._show_map()
        self.refresh()
        self._told = Tally()
        if self.search is not None and not self._searching:
            self._search_on()

    def attach(self, model: ChatModel | None) -> None:
        query = self.search.query if self.search is not None else None
        self.search = None
        super().attach(model)
        if query is not None:
            self.find(query)

    def _search_on(self) -> None:
        """One portion of the search; the next one comes after whatever else waits."""
        search = self.search
        self._searching = search is not None
        if search is None:
            return
        if not self.current:
            self.flush()  # a hit is gone to in what is drawn
        search.go_on(monotonic() + SLICE_S, monotonic)
        place = self.place
        if self._goes_first and place is not None and search.total:
            hit = search.nearest(self._from)
            if search.complete or (hit is not None and hit.serial >= self._from):
                self._goes_first = self._going_back = False
                self._go_to(hit)
        elif search.complete and not self._going_back:
            self._goes_first = False  # what is said later does not take the reader along
        if search.complete and self._going_back:
            self._go_back(search)
        self._searching = not search.complete
        if self._searching:
            self.set_timer(PAUSE_S, self._search_on)
        self.vertical_scrollbar.refresh()
        if self.tally != self._told:
            self._told = self.tally
            self.post_message(TallyChanged())

    def _go_back(self, search: BlockSearch) -> None:
        """Go to the hit before, in a page that has just come; without one, ask for the page before that."""
        assert self._model is not None
        first = self._model.first_id
        is_new = self._asked_from != first
        self._going_back = bool(first) and (not is_new or search.is_first(self.hit))
        if not self._going_back and self.hit is not None:
            self._go_to(search.beside(self.hit, -1))
        elif self._going_back and is_new:
            self._asked_from = first
            self.post_message(self.OlderWanted(self))

    def _top_serial(self) -> int:
        assert self.place is not None
        column = self.place.column
        return column.anchor(self.scroll_offset.y).serial

    def before_sync(self, model: ChatModel) -> None:
        """What changed is searched again."""
        if self.search is not None:
            self.search.again(model.touched)

    def after_sync(self) -> None:
        """What is new is searched for the first time."""
        if self.search is not None and not self._searching:
            self._search_on()

    def go_to_hit(self, step: Step) -> None:
        """Go to the next hit or the one before; before the first one stands what has not been loaded yet."""
        search, model = self.search, self._model
        if search is None or model is None:
            return
        if step < 0 and model.first_id and search.is_first(self.hit):
            self._going_back, self._asked_from, self._goes_first = True, None, self.hit is None
            self._go_back(search)
        elif self.place is not None:
            hit = search.nearest(self._top_serial()) if self.hit is None else search.beside(self.hit, step)
            self._go_to(hit)
        self.post_message(TallyChanged())

    def _go_to(self, hit: Hit | None) -> None:
        """Put the block cursor on a hit's block, unfold it where the hit is folded away, and show the hit."""
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
        """The piece of its block that a hit is in, and which one it is there."""
        assert self.place is not None
        assert self.search is not None
        nth = hit.nth
        for number, piece in enumerate(self.place.column.pieces(hit.serial)):
            if piece.kind not in SAID_BY_US:
                count = self.search.query.count(piece.text)
                if nth < count:
                    return number, nth
                nth -= count
        return 0, nth

    def _show(self, anchor: Anchor) -> None:
        """Bring a row into sight, a third down the screen."""
        assert self.place is not None
        column, height = self.place.column, self.scrollable_content_region.height
        for _try in range(TRIES):
            row = column.row(anchor)
            if self.scroll_offset.y <= row < self.scroll_offset.y + height:
                break
            self._hold(row - height // 3)
        self.refresh(self.size.region)

    # What is drawn

    def overlaid(self, found: Row, row: int) -> Strip:
        strip = super().overlaid(found, row)
        if self.search is None or found.piece.kind in SAID_BY_US:
            return strip
        others: list[tuple[int, int]] = []
        here: list[tuple[int, int]] = []
        for nth, spans in enumerate(self._hits_in(found.piece)):
            marked = [(start, end) for at, start, end in spans if at == found.at]
            (here if (found.serial, found.number, nth) == self._here else others).extend(marked)
        strip = with_marks(strip, others, without_colour(self.styles_used["hit"]))
        return with_marks(strip, here, self.styles_used["hit-here"])

    def _hits_in(self, piece: Piece) -> list[list[Span]]:
        assert self.search is not None
        assert self.place is not None
        known = self._drawn.get(piece)
        if known is None:
            known = self._drawn[piece] = drawn_hits(self.place.column.rows_of(piece), self.search.query)
            if len(self._drawn) > LOOKED_AT:
                self._drawn.popitem(last=False)
        return known

    def _restyle(self) -> None:
        self._drawn = OrderedDict()  # rows are others at another width
        super()._restyle()
        if self.search is not None:
            self._show_map()

    def _show_map(self) -> None:
        here = self.styles_used.get("hit-here")
        show_hit_map(self, self._hit_cells if self.search else None, here.bgcolor if here else None)

    def _hit_cells(self, height: int) -> set[int]:
        if self.search is None or self.place is None:
            return set()
        column = self.place.column
        return self.search.cells(height, column.heights, column.base)
