"""Finding text in a pane: what is looked for, what a pane has to be able to do, the line to write in, the map of hits.

A pane searches its model and not its drawing, in portions, so that nothing stalls; it tells by `TallyChanged` how far
it is. The bar stands on the pane's last row, which the pane leaves free as long as the bar is there. Knows no pane in
particular.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
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
from tui.dialogs.input_field import Field
from tui.i18n import _

SLICE_S = 0.006
"""How long a search works at a stretch; a frame and a key fit between two stretches."""
PAUSE_S = 0.002
MARK = "━"

Step = Literal[-1, 1]


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for: words as they are written, blanks of any kind and number between them."""

    text: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> Query | None:
        """The query that the user wrote; None for none. A capital letter makes it mind capitals."""
        if not text.strip():
            return None
        words = r"\s+".join(re.escape(word) for word in text.split())
        return cls(text, re.compile(words, 0 if any(c.isupper() for c in text) else re.IGNORECASE))

    def count(self, text: str) -> int:
        """How often it occurs in a text."""
        return len(self.pattern.findall(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where it occurs in a text."""
        return [match.span() for match in self.pattern.finditer(text)]


class Tally(NamedTuple):
    """The state of a search."""

    here: int = 0
    """Which hit the reader is at, from 1 on; 0 for none."""
    total: int = 0
    searching: bool = False
    note: str = ""
    """What has not been searched, and how it will be."""

    def __str__(self) -> str:
        found = _("{n} found").format(n=f"{self.total:,}") if self.total else _("no hit")
        if self.here:
            found = f"{self.here:,}/{self.total:,}"
        if self.searching:
            found = _("{found}, searching").format(found=found) if self.total else _("searching")
        return f"{found} · {self.note}" if self.note else found


class TallyChanged(Message):
    """A search went on; the sender's `tally` says how far."""


@runtime_checkable
class Findable(Protocol):
    """A pane that can be searched."""

    @property
    def tally(self) -> Tally: ...

    def find(self, query: Query | None) -> None:
        """Look for this from now on, and go to the nearest hit; None ends the search and takes its marks away."""

    def go_to_hit(self, step: Step) -> None:
        """Go to the next hit, or the one before."""


def with_marks(strip: Strip, spans: Sequence[tuple[int, int]], style: Style) -> Strip:
    """A row with the characters of these spans in another style; an end of -1 is the end of the row."""
    text = strip.text
    for start, end in spans:
        cells = (strip.index_to_cell_position(at) if 0 <= at < len(text) else strip.cell_length for at in (start, end))
        left, right = cells
        marked = [Segment(part, (own or Style()) + style, control) for part, own, control in strip.crop(left, right)]
        strip = Strip.join([strip.crop(0, left), Strip(marked), strip.crop(right)])
    return strip


def ground_of(style: Style) -> Style:
    """What of a style marks text that keeps its own colour."""
    return style.background_style + Style(bold=style.bold, underline=style.underline, reverse=style.reverse)


class FindInput(Field):
    """The words that are looked for."""

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
    """The line at a pane's foot in which the user writes what to find."""

    DEFAULT_CSS = """
    FindBar {
        layer: above; position: absolute; height: 1; background: $panel;
        & > Static { width: auto; height: 1; padding: 0 1; background: $panel; }
        & > .find--word { color: $text-accent; text-style: bold; }
        & > .find--tally { color: $text-muted; }
        & > FindInput { width: 1fr; min-width: 8; height: 1; border: none; padding: 0; background: $surface; }
    }
    """

    def __init__(self, view: ScrollView, text: str = "") -> None:
        super().__init__()
        self.view = view
        self._text = text

    @property
    def pane(self) -> Findable:
        """The pane that is searched."""
        return cast(Findable, self.view)

    @property
    def input(self) -> FindInput:
        return self.query_one(FindInput)

    def compose(self) -> ComposeResult:
        """A word, the input, and how far the search is."""
        yield Static(_("Find"), classes="find--word", markup=False)
        yield FindInput(self._text, compact=True, select_on_focus=True)
        yield Static("", classes="find--tally", markup=False)

    def on_mount(self) -> None:
        """Take the pane's last row."""
        padding = self.view.styles.padding
        self.view.styles.padding = (padding.top, padding.right, 1, padding.left)
        self.input.focus()
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _screen: self._place())
        self._place()

    def on_unmount(self) -> None:
        """Give the row back, and end the search."""
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
        """Show the state of the search."""
        self.query_one(".find--tally", Static).update(str(self.pane.tally) if self.input.value.strip() else "")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Every letter restarts the search."""
        event.stop()
        self.pane.find(Query.of(event.value))
        self.show_tally()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on to the next hit."""
        event.stop()
        self.pane.go_to_hit(1)

    def on_click(self, event: events.Click) -> None:
        """A click on the bar is not one on what lies below."""
        event.stop()


class _MarkedBar(ScrollBarRender):
    """A scrollbar with marks at the rows of hits."""

    def __init__(self, marks: Callable[[int], Collection[int]], colour: Color | None, **how: Any) -> None:
        super().__init__(**how)
        self._marks = marks
        self._colour = colour

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        for bar in super().__rich_console__(console, options):
            yield Segments(self._marked(cast(Segments, bar).segments, height), new_lines=True)

    def _marked(self, segments: list[Segment], height: int) -> list[Segment]:
        found = list(segments)
        for cell in self._marks(height):
            if 0 <= cell < len(found):
                style = found[cell].style or Style()
                ground = style.color if style.reverse else style.bgcolor
                mark = Style(color=self._colour, bgcolor=ground, meta=style.meta)
                found[cell] = Segment(MARK * self.thickness, mark)
        return found


def show_hit_map(view: ScrollView, marks: Callable[[int], Collection[int]] | None, colour: Color | None = None) -> None:
    """Have the cells that `marks` names for a height marked in the view's scrollbar; None takes the marks away."""
    bar = view.vertical_scrollbar

    def marked(**how: Any) -> ScrollBarRender:
        return _MarkedBar(marks, colour, **how) if marks is not None else ScrollBarRender(**how)

    vars(bar)["renderer"] = marked
    bar.refresh()
