"""Finding text in a pane: the query, the bar to type it in, the marks in the scrollbar, and panes that can be searched.

A pane searches its model and not its drawing, in slices, so that nothing stalls, and posts `TallyChanged`. The bar
takes the pane's last row, which the pane leaves free. `RowFinder` is the base of panes that draw one line per row of
their model; the chat has a search of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, cast, runtime_checkable

from rich.color import Color
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.widgets import Input, Static

from tui.commands import BY_ID
from tui.dialogs.dialog import Field
from tui.i18n import _

SLICE_S = 0.006
"""How long a slice of a search takes; a frame and a key fit between two."""
PAUSE_S = 0.002
ROWS_AT_ONCE = 256
"""Rows that are searched between two looks at the clock."""
MARK = "━"

Step = Literal[-1, 1]


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for: words, with any blanks between them."""

    text: str
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Query | None:
        """Parse what the user typed; None for blanks. A capital letter makes the search case-sensitive."""
        if not text.strip():
            return None
        words = r"\s+".join(re.escape(word) for word in text.split())
        return cls(text, re.compile(words, 0 if any(c.isupper() for c in text) else re.IGNORECASE))

    def count(self, text: str) -> int:
        return len(self.pattern.findall(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each match in a text."""
        return [match.span() for match in self.pattern.finditer(text)]


class Tally(NamedTuple):
    """How far a search is."""

    here: int = 0
    """The number of the current hit, from 1 on; 0 for none."""
    total: int = 0
    searching: bool = False
    note: str = ""
    """What has not been searched, and how to search it."""

    def __str__(self) -> str:
        found = _("{n} found").format(n=f"{self.total:,}") if self.total else _("no match")
        if self.here:
            found = f"{self.here:,}/{self.total:,}"
        if self.searching:
            found = _("{found}, searching").format(found=found) if self.total else _("searching")
        return f"{found} · {self.note}" if self.note else found


class TallyChanged(Message):
    """A search made progress; see the sender's `tally`."""


@runtime_checkable
class Findable(Protocol):
    """A pane that can be searched."""

    @property
    def tally(self) -> Tally: ...

    def find(self, query: Query | None) -> None:
        """Search for this and go to the nearest hit; None ends the search and removes its marks."""

    def go_to_hit(self, step: Step) -> None:
        """Go to the next or the previous hit."""


def with_marks(strip: Strip, spans: Sequence[tuple[int, int]], style: Style) -> Strip:
    """Put these spans of characters in another style; an end of -1 is the end of the row."""
    text = strip.text
    for start, end in spans:
        left, right = (
            strip.index_to_cell_position(at) if 0 <= at < len(text) else strip.cell_length for at in (start, end)
        )
        marked = [Segment(part, (old or Style()) + style, control) for part, old, control in strip.crop(left, right)]
        strip = Strip.join([strip.crop(0, left), Strip(marked), strip.crop(right)])
    return strip


def without_colour(style: Style) -> Style:
    """Return what of a style marks text that keeps its own colour."""
    return style.background_style + Style(bold=style.bold, underline=style.underline, reverse=style.reverse)


class FindInput(Field):
    """The input of the find bar."""

    BINDINGS: ClassVar = [
        Binding("down", "step(1)", show=False, id="find.down"),
        Binding(",".join(BY_ID["find.prev"].keys), "step(-1)", show=False, id="find.prev"),
        Binding(",".join(BY_ID["find.read"].keys), "to_pane", show=False, id="find.read"),
    ]

    def action_step(self, step: Step) -> None:
        cast(FindBar, self.parent).pane.go_to_hit(step)

    def action_to_pane(self) -> None:
        cast(FindBar, self.parent).view.focus()


class FindBar(Horizontal):
    """The line at the foot of a pane in which the user types what to find."""

    DEFAULT_CSS = """
    FindBar {
        layer: above; position: absolute; height: 1; background: $panel;
        & > Static { width: auto; height: 1; padding: 0 1; background: $panel; }
        & > .find--word { color: $text-accent; text-style: bold; }
        & > .find--tally { color: $text-muted; }
        & > FindInput { width: 1fr; min-width: 8; height: 1; border: none; padding: 0; background: $surface; }
    }
    """

    def __init__(self, view: ScrollView) -> None:
        super().__init__()
        self.view = view

    @property
    def pane(self) -> Findable:
        return cast(Findable, self.view)

    @property
    def input(self) -> FindInput:
        return self.query_one(FindInput)

    def compose(self) -> ComposeResult:
        yield Static(_("Find"), classes="find--word", markup=False)
        yield FindInput(compact=True, select_on_focus=True)
        yield Static("", classes="find--tally", markup=False)

    def on_mount(self) -> None:
        padding = self.view.styles.padding
        self.view.styles.padding = (padding.top, padding.right, 1, padding.left)
        self.input.focus()
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _screen: self._place())
        self._place()

    def on_unmount(self) -> None:
        if self.view.is_attached:
            self.view.styles.clear_rule("padding")
            self.pane.find(None)

    def _place(self) -> None:
        if not self.view.is_on_screen:
            self.remove()
            return
        region = self.view.region
        place = (region.x, region.bottom - 1)
        if (self.styles.offset.x.value, self.styles.offset.y.value) != place or self.outer_size.width != region.width:
            self.styles.offset = place
            self.styles.width = region.width

    def show_tally(self) -> None:
        self.query_one(".find--tally", Static).update(str(self.pane.tally) if self.input.value.strip() else "")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.pane.find(Query.parse(event.value))
        self.show_tally()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.pane.go_to_hit(1)

    def on_click(self, event: events.Click) -> None:
        event.stop()  # it is no click on the pane below


class _MarkedScrollBar(ScrollBarRender):
    """A scrollbar with marks at the rows of hits."""

    def __init__(self, marks: Callable[[int], Collection[int]], colour: Color | None, **options: Any) -> None:
        super().__init__(**options)
        self._marks = marks
        self._colour = colour

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        for bar in super().__rich_console__(console, options):
            yield Segments(self._marked(cast(Segments, bar).segments, height), new_lines=True)

    def _marked(self, segments: list[Segment], height: int) -> list[Segment]:
        marked = list(segments)
        for cell in self._marks(height):
            if 0 <= cell < len(marked):
                style = marked[cell].style or Style()
                background = style.color if style.reverse else style.bgcolor
                mark = Style(color=self._colour, bgcolor=background, meta=style.meta)
                marked[cell] = Segment(MARK * self.thickness, mark)
        return marked


def show_hit_map(view: ScrollView, marks: Callable[[int], Collection[int]] | None, colour: Color | None = None) -> None:
    """Mark the cells of the view's scrollbar that `marks` returns for its height; None removes the marks."""
    bar = view.vertical_scrollbar

    def renderer(**options: Any) -> ScrollBarRender:
        return _MarkedScrollBar(marks, colour, **options) if marks is not None else ScrollBarRender(**options)

    vars(bar)["renderer"] = renderer
    bar.refresh()


class RowFinder(ScrollView):
    """A view of rows that can be searched. Hits are rows: each counts once.

    A view implements `row_count` and `row_text`, passes each row that it draws to `with_hits`, and calls `find_again`
    when its rows have changed.
    """

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

    search_query: Query | None = None
    hit_row: int | None = None
    _hits: list[int] = []
    """Rows with hits, the last row first."""
    _searched_to = 0
    _searching = False

    def row_count(self) -> int:
        raise NotImplementedError

    def row_text(self, row: int) -> str:
        raise NotImplementedError

    @property
    def tally(self) -> Tally:
        rows = sorted(self._hits)
        known = self.hit_row is not None and self.hit_row in self._hits
        here = bisect_left(rows, self.hit_row) + 1 if known and self.hit_row is not None else 0
        return Tally(here, len(rows), self._searched_to > 0)

    def find(self, query: Query | None) -> None:
        """Search every row, and go to the last hit that is not below the screen."""
        self.search_query, self.hit_row = query, None
        show_hit_map(self, self._cells if query else None, self.get_component_rich_style("find--here").bgcolor)
        self._begin()
        self.refresh()

    def find_again(self) -> None:
        """Search again, because the rows have changed. The current hit stays."""
        if self.search_query is not None and not self._searching:
            self._begin()

    def _begin(self) -> None:
        self._hits = []
        self._searched_to = self.row_count() if self.search_query is not None else 0
        if self.search_query is not None and not self._searching:
            self._search_on()

    def _search_on(self) -> None:
        query = self.search_query
        self._searching = False
        if query is None:
            return
        until = monotonic() + SLICE_S
        self._searched_to = min(self._searched_to, self.row_count())
        while self._searched_to and monotonic() < until:
            first = max(0, self._searched_to - ROWS_AT_ONCE)
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
        if self.search_query is None or not self._hits:
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
        height = self.scrollable_content_region.height
        if not self.scroll_offset.y <= row < self.scroll_offset.y + height:
            self.scroll_to(y=max(0, row - height // 3), animate=False, immediate=True, force=True)

    def with_hits(self, strip: Strip, row: int) -> Strip:
        if self.search_query is None:
            return strip
        spans = self.search_query.spans(strip.text)
        if row == self.hit_row:
            return with_marks(strip, spans, self.get_component_rich_style("find--here"))
        return with_marks(strip, spans, without_colour(self.get_component_rich_style("find--hit")))

    def _cells(self, height: int) -> set[int]:
        total = max(1, self.row_count())
        return {row * height // total for row in self._hits}
