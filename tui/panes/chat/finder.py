"""Finder: the transcript as something that can be searched (`tui.widgets.find.Findable`).

The search goes through the model's text; only the hits in sight are looked for in what is drawn. Where a hit is gone
to, its block unfolds. Part of `ChatView`.
"""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING

from textual.message import Message

from tui.i18n import _
from tui.panes.chat.canvas import Canvas
from tui.panes.chat.column import Anchor
from tui.panes.chat.pieces import PieceKind
from tui.panes.chat.search import BlockSearch, Hit, Span, drawn_hits
from tui.widgets.find import PAUSE_S, SLICE_S, Query, Step, Tally, TallyChanged, ground_of, show_hit_map, with_marks

if TYPE_CHECKING:
    from textual.strip import Strip

    from tui.panes.chat.column import Row
    from tui.panes.chat.model import ChatModel
    from tui.panes.chat.pieces import Piece

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
        note = _("older events are not loaded, ↑ loads them") if loads else ""
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
        strip = with_marks(strip, others, ground_of(self.styles_used["hit"]))
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
