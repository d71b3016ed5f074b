"""The two widgets of the session manager: the rows that scroll, and the bar of chips above them.

Rows are drawn when they are in sight and at no other time, so their number costs nothing. Neither widget knows where
rows come from: a `Drawn` gives the lines, and whoever holds the view hears what is in sight and what was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from tui.i18n import _
from tui.sessions.filter_chips import KEYS, Chip, Shown
from tui.workspace.line_view import set_lines


class Drawn(Protocol):
    """What a view draws: rows of the same height."""

    height: int
    """Lines of a row."""

    def __len__(self) -> int: ...
    def lines(self, row: int, width: int) -> Sequence[Content]:
        """The lines of a row in `width` cells, `height` of them."""
        ...

    def stops(self, row: int) -> bool:
        """Whether the cursor may stand on it."""
        ...


class RowsView(ScrollView, can_focus=True):
    """Rows with a cursor. A click moves it, a double click opens."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--far-cursor"}
    DEFAULT_CSS = """
    RowsView {
        overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; background: $surface;
        & > .rows--cursor { background: $primary-muted; }
        & > .rows--far-cursor { background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home,g", "top", show=False),
        Binding("end,G", "end", show=False),
    ]

    class Moved(Message):
        """Another row is under the cursor, or the row is another one."""

    class Opened(Message):
        """The row under the cursor was chosen by a double click."""

    class InSight(Message):
        """Other rows are in sight."""

    def __init__(self, drawn: Drawn, empty: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.drawn = drawn
        self.empty = empty
        """What stands where no row is; clean."""
        self.cursor = 0

    @property
    def in_sight(self) -> tuple[int, int]:
        """The first and the last row on the screen."""
        top = self.scroll_offset.y
        return top // self.drawn.height, (top + max(1, self.size.height) - 1) // self.drawn.height

    def show(self, drawn: Drawn | None = None, *, cursor: int | None = None) -> None:
        """Draw anew, after rows have changed; the cursor is put where it is told."""
        self.drawn = drawn or self.drawn
        set_lines(self, len(self.drawn) * self.drawn.height)
        self.move_to(self.cursor if cursor is None else cursor)

    def redraw(self) -> None:
        """Draw what is in sight anew, and leave the reader where they are."""
        set_lines(self, len(self.drawn) * self.drawn.height)
        self.refresh()

    def move_to(self, row: int, step: int = 1) -> None:
        """Put the cursor on a row, or on the next in this direction on which it may stand."""
        count = len(self.drawn)
        row = max(0, min(row, count - 1))
        while 0 <= row < count and not self.drawn.stops(row):
            row += step
        if 0 <= row < count or not count:
            self.cursor = max(0, row)
        height = self.drawn.height
        self.scroll_to_region(
            Region(0, self.cursor * height, 1, height), animate=False, immediate=True, force=True, x_axis=False
        )
        self.refresh()
        self.post_message(self.Moved())
        self.post_message(self.InSight())

    def action_move(self, rows: int) -> None:
        """Move by rows."""
        self.move_to(self.cursor + rows, 1 if rows > 0 else -1)

    def action_page(self, pages: int) -> None:
        """Move by pages."""
        self.action_move(pages * max(1, self.size.height // self.drawn.height - 1))

    def action_top(self) -> None:
        """To the first row."""
        self.move_to(0)

    def action_end(self) -> None:
        """To the last row."""
        self.move_to(len(self.drawn) - 1, -1)

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a double click opens."""
        row = (event.y + self.scroll_offset.y) // self.drawn.height
        if row < len(self.drawn) and self.drawn.stops(row):
            self.move_to(row)
            if event.chain == 2:
                self.post_message(self.Opened())

    def on_resize(self) -> None:
        """Lines are made for a width, and the cursor stays in sight."""
        self.show()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """What comes into sight may have to be read."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.InSight())

    def watch_has_focus(self, has_focus: bool) -> None:
        """The cursor looks otherwise."""
        super().watch_has_focus(has_focus)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One visible line."""
        width = self.scrollable_content_region.width
        row, line = divmod(y + self.scroll_offset.y, self.drawn.height)
        style = self.visual_style
        if row >= len(self.drawn):
            text = Content.styled(self.empty, "$text-muted") if not len(self.drawn) and y == 0 else Content("")
        else:
            text = self.drawn.lines(row, width)[line]
            if row == self.cursor:
                name = "rows--cursor" if self.has_focus else "rows--far-cursor"
                style += self.get_visual_style(name, partial=True)
        strips = Visual.to_strips(self, text, width, 1, style, apply_selection=False)
        return (strips[0] if strips else Strip.blank(width)).adjust_cell_length(width, style.rich_style)


class ChipBar(Widget):
    """What is left out, as chips: a click turns one, a click on its cross takes it away."""

    DEFAULT_CSS = """
    ChipBar { height: auto; max-height: 3; background: $surface; }
    """

    class Turned(Message):
        """A chip was clicked; `away` where its cross was."""

        def __init__(self, chip: Chip, away: bool) -> None:
            super().__init__()
            self.chip = chip
            self.away = away

    class OrderWanted(Message):
        """The order was clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chips: Sequence[Shown] = ()
        self._order = self._tally = ""

    def show(self, chips: Sequence[Shown], order: str, tally: str) -> None:
        """Show these, the order where there is one, and how many there are; all clean."""
        if (self._chips, self._order, self._tally) != (chips, order, tally):
            self._chips, self._order, self._tally = chips, order, tally
            self.refresh(layout=True)

    def render(self) -> Content:
        """The chips in as many lines as they take; the order and the tally behind them."""
        parts: list[Content] = []
        for chip, name, value, is_set in self._chips:
            style = f"bold $text-accent on $accent-muted @click=turn('{chip}')" if is_set else f"@click=turn('{chip}')"
            parts.append(
                Content.assemble(
                    (f"{KEYS[chip]} ", "$text-muted"),
                    (f"{name}: {value}", style),
                    (" ×", f"bold $text-error on $accent-muted @click=away('{chip}')") if is_set else "",
                )
            )
        if self._order:
            parts.append(Content.assemble(("o ", "$text-muted"), (f"{_('by')} {self._order}", "@click=sort")))
        parts.append(Content.styled(self._tally, "bold"))
        lines, used = Content(""), 0
        for part in parts:
            cells = cell_len(part.plain)
            if used and used + 3 + cells > max(20, self.size.width or self.container_size.width):
                lines, used = lines + "\n", 0
            elif used:
                lines, used = lines + "   ", used + 3
            lines, used = lines + part, used + cells
        return lines

    def on_resize(self) -> None:
        """Chips go to the next line where there is no room."""
        self.refresh(layout=True)

    def action_turn(self, chip: str) -> None:
        self.post_message(self.Turned(Chip(chip), away=False))

    def action_away(self, chip: str) -> None:
        self.post_message(self.Turned(Chip(chip), away=True))

    def action_sort(self) -> None:
        self.post_message(self.OrderWanted())
