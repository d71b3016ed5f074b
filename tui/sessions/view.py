"""The two widgets of the session manager: the scrolling rows, and the bar of filter chips above them.

Only visible rows are drawn, so their number costs nothing. A `RowSource` has the lines.
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
from tui.sessions.filter_chips import KEYS, Chip, ChipLabel
from tui.workspace.line_view import set_lines


class RowSource(Protocol):
    """The rows that a view draws, all of the same height."""

    height: int
    """Lines of a row."""

    def __len__(self) -> int: ...
    def lines(self, row: int, width: int) -> Sequence[Content]:
        """The lines of a row in `width` cells, `height` of them."""

    def is_selectable(self, row: int) -> bool:
        """Whether the cursor may be on it."""
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
        """The cursor moved, or its row changed."""

    class Opened(Message):
        """The row under the cursor was double-clicked."""

    class VisibleRowsChanged(Message):
        """Other rows became visible."""

    def __init__(self, rows: RowSource, empty: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows = rows
        self.empty = empty
        """Shown without rows; sanitised."""
        self.cursor = 0

    @property
    def visible_rows(self) -> tuple[int, int]:
        """The first and the last visible row."""
        top = self.scroll_offset.y
        return top // self.rows.height, (top + max(1, self.size.height) - 1) // self.rows.height

    def show(self, rows: RowSource | None = None, *, cursor: int | None = None) -> None:
        """Draw again after rows have changed, and move the cursor."""
        self.rows = self.rows if rows is None else rows  # a source without rows is false
        set_lines(self, len(self.rows) * self.rows.height)
        self.move_to(self.cursor if cursor is None else cursor)

    def redraw(self) -> None:
        set_lines(self, len(self.rows) * self.rows.height)
        self.refresh()

    def move_to(self, row: int, step: int = 1) -> None:
        """Move the cursor to a row, or to the next selectable one in this direction."""
        count = len(self.rows)
        row = max(0, min(row, count - 1))
        while 0 <= row < count and not self.rows.is_selectable(row):
            row += step
        if 0 <= row < count or not count:
            self.cursor = max(0, row)
        height = self.rows.height
        self.scroll_to_region(
            Region(0, self.cursor * height, 1, height), animate=False, immediate=True, force=True, x_axis=False
        )
        self.refresh()
        self.post_message(self.Moved())
        self.post_message(self.VisibleRowsChanged())

    def action_move(self, rows: int) -> None:
        self.move_to(self.cursor + rows, 1 if rows > 0 else -1)

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height // self.rows.height - 1))

    def action_top(self) -> None:
        self.move_to(0)

    def action_end(self) -> None:
        self.move_to(len(self.rows) - 1, -1)

    def on_click(self, event: events.Click) -> None:
        row = (event.y + self.scroll_offset.y) // self.rows.height
        if row < len(self.rows) and self.rows.is_selectable(row):
            self.move_to(row)
            if event.chain == 2:
                self.post_message(self.Opened())

    def on_resize(self) -> None:
        self.show()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.VisibleRowsChanged())

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        row, line = divmod(y + self.scroll_offset.y, self.rows.height)
        style = self.visual_style
        if row >= len(self.rows):
            text = Content.styled(self.empty, "$text-muted") if not len(self.rows) and y == 0 else Content("")
        else:
            text = self.rows.lines(row, width)[line]
            if row == self.cursor:
                name = "rows--cursor" if self.has_focus else "rows--far-cursor"
                style = self.get_visual_style(name)  # a partial one has no background if that is opaque
        strips = Visual.to_strips(self, text, width, 1, style, apply_selection=False)
        return (strips[0] if strips else Strip.blank(width)).adjust_cell_length(width, style.rich_style)


class ChipBar(Widget):
    """The filters as chips: a click changes one, a click on its cross removes it."""

    DEFAULT_CSS = """
    ChipBar { height: auto; max-height: 3; background: $surface; }
    """

    class Clicked(Message):
        """A chip or its cross was clicked."""

        def __init__(self, chip: Chip, remove: bool) -> None:
            super().__init__()
            self.chip = chip
            self.remove = remove

    class OrderClicked(Message):
        """The order was clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chips: Sequence[ChipLabel] = ()
        self._order = self._tally = ""

    def show(self, chips: Sequence[ChipLabel], order: str, counts: str) -> None:
        """Show these sanitised texts."""
        if (self._chips, self._order, self._tally) != (chips, order, counts):
            self._chips, self._order, self._tally = chips, order, counts
            self.refresh(layout=True)

    def render(self) -> Content:
        parts: list[Content] = []
        for chip, name, value, is_set in self._chips:
            style = f"bold $text-accent on $accent-muted @click=turn('{chip}')" if is_set else f"@click=turn('{chip}')"
            parts.append(
                Content.assemble(
                    (f"{KEYS[chip]} ", "$text-muted"),
                    (f"{name}: {value}", style),
                    (" ×", f"bold $text-error on $accent-muted @click=remove('{chip}')") if is_set else "",
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
        self.refresh(layout=True)

    def action_turn(self, chip: str) -> None:
        self.post_message(self.Clicked(Chip(chip), remove=False))

    def action_remove(self, chip: str) -> None:
        self.post_message(self.Clicked(Chip(chip), remove=True))

    def action_sort(self) -> None:
        self.post_message(self.OrderClicked())
