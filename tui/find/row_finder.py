"""RowFinder: a pane of plain rows as something that can be searched (`tui.find.find_bar.Findable`).

For views that draw one line per row of their model. A view says how many rows there are, what a row says, and calls
`with_hits` where it draws one; when its rows have changed, it calls `find_again`.
"""

from __future__ import annotations

from bisect import bisect_left
from time import monotonic
from typing import TYPE_CHECKING

from textual.scroll_view import ScrollView

from tui.find.find_bar import PAUSE_S, SLICE_S, Query, Step, Tally, TallyChanged, ground_of, show_hit_map, with_marks

if TYPE_CHECKING:
    from textual.strip import Strip

AT_ONCE = 256
"""Rows that are searched between two looks at the clock."""


class RowFinder(ScrollView):
    """The part of a view of rows that finds text. Hits are rows: each counts once."""

    DEFAULT_CSS = """
    RowFinder {
        & > .find--hit { background: $warning 30%; text-style: underline; }
        & > .find--here { background: $warning; color: $background; text-style: bold underline; }
        &:ansi {
            & > .find--hit { background: ansi_default; text-style: bold underline reverse; }
            & > .find--here { color: ansi_black; background: $warning; }
        }
    }
    """
    COMPONENT_CLASSES = {"find--hit", "find--here"}

    looked_for: Query | None = None
    hit_row: int | None = None
    """The hit that the reader is at."""
    _hits: list[int] = []
    """Rows with hits, the last one first."""
    _searched_to = 0
    _searching = False

    def row_count(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def row_text(self, row: int) -> str:
        """What a row says."""
        raise NotImplementedError

    @property
    def tally(self) -> Tally:
        rows = sorted(self._hits)
        known = self.hit_row is not None and self.hit_row in self._hits
        here = bisect_left(rows, self.hit_row) + 1 if known and self.hit_row is not None else 0
        return Tally(here, len(rows), self._searched_to > 0)

    def find(self, query: Query | None) -> None:
        """Look for this in every row, and go to the last hit up to what is in sight."""
        self.looked_for, self.hit_row = query, None
        show_hit_map(self, self._cells if query else None, self.get_component_rich_style("find--here").bgcolor)
        self._begin()
        self.refresh()

    def find_again(self) -> None:
        """The rows have changed: restart a search that is still running, at the current place."""
        if self.looked_for is not None and not self._searching:
            self._begin()

    def _begin(self) -> None:
        self._hits = []
        self._searched_to = self.row_count() if self.looked_for is not None else 0
        if self.looked_for is not None and not self._searching:
            self._search_on()

    def _search_on(self) -> None:
        query = self.looked_for
        self._searching = False
        if query is None:
            return
        until = monotonic() + SLICE_S
        self._searched_to = min(self._searched_to, self.row_count())
        while self._searched_to and monotonic() < until:
            first = max(0, self._searched_to - AT_ONCE)
            rows = range(self._searched_to - 1, first - 1, -1)
            self._hits += [row for row in rows if query.pattern.search(self.row_text(row))]
            self._searched_to = first
        if self.hit_row is None and self._hits:
            bottom = self.scroll_offset.y + self.scrollable_content_region.height
            row = next((row for row in self._hits if row < bottom), None)
            if row is not None or not self._searched_to:
                self._go_to(self._hits[-1] if row is None else row)
        if self._searched_to:
            self._searching = True
            self.set_timer(PAUSE_S, self._search_on)
        self.vertical_scrollbar.refresh()
        self.post_message(TallyChanged())

    def go_to_hit(self, step: Step) -> None:
        """Go to the next row with a hit or the one before, round the ends."""
        if self.looked_for is None or not self._hits:
            return
        rows = sorted(self._hits)
        here = rows[-1] if self.hit_row is None else self.hit_row
        at = bisect_left(rows, here + (step > 0)) - (step < 0)
        self._go_to(rows[at % len(rows)])
        self.post_message(TallyChanged())

    def action_go_to_hit(self, step: Step) -> None:
        self.go_to_hit(step)

    def _go_to(self, row: int) -> None:
        self.hit_row = row
        self.show_row(row)
        self.refresh()

    def show_row(self, row: int) -> None:
        """Bring a row into sight, a third down the screen."""
        height = self.scrollable_content_region.height
        if not self.scroll_offset.y <= row < self.scroll_offset.y + height:
            self.scroll_to(y=max(0, row - height // 3), animate=False, immediate=True, force=True)

    def with_hits(self, strip: Strip, row: int) -> Strip:
        """A row as it is drawn, with its hits marked."""
        if self.looked_for is None:
            return strip
        spans = self.looked_for.spans(strip.text)
        if row == self.hit_row:
            return with_marks(strip, spans, self.get_component_rich_style("find--here"))
        return with_marks(strip, spans, ground_of(self.get_component_rich_style("find--hit")))

    def _cells(self, height: int) -> set[int]:
        total = max(1, self.row_count())
        return {row * height // total for row in self._hits}
