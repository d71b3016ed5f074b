"""ChatView: the transcript on the screen.

Draws line by line what `Column` says and nothing else, so a frame costs what is in sight, however long the
conversation is. Follows the end until the reader moves; then the reader's row stays where it is, whatever
grows above or below. Changes are drawn at most FRAMES_PER_S times a second, only their rows, and an idle
view draws nothing. Imports no `core`: a model is handed in by `attach`, and the view keeps its place in
each of them.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Literal
from weakref import WeakKeyDictionary

from rich.segment import Segment
from textual.binding import Binding
from textual.geometry import Offset, Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.panes.chat.column import Anchor, Column
from tui.panes.chat.overlays import with_chip, with_cursor, with_selection
from tui.panes.chat.render import COLUMN, Renderer
from tui.panes.chat.roles import CHAT_CSS, ROLES
from tui.panes.growing import set_lines

if TYPE_CHECKING:
    from rich.style import Style
    from textual import events
    from textual.selection import Selection

    from tui.panes.chat.blocks import Block
    from tui.panes.chat.model import ChatModel

FRAMES_PER_S = 20
EMPTY = "Say below what you want done. What is said and done will stand here."
SELECTED_ROWS = 10_000
"""Rows that one selection can copy; a larger one is a matter for export."""

Where = Literal["line_up", "line_down", "page_up", "page_down", "home", "end"]


class Place:
    """Where the reader is in one model."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.top: Anchor | None = None
        """What stands on top; None follows the end."""
        self.cursor: Block | None = None
        self.last_seen = 0
        """The serial of the newest block when the end was last in sight."""


class ChatView(ScrollView, can_focus=True):
    """The transcript of the attached model."""

    HELP = "The conversation. Arrow keys move from block to block; space unfolds one, c copies it."
    BORDER_TITLE = "Chat"
    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chat--{role}" for role in ROLES}
    DEFAULT_CSS = CHAT_CSS
    BINDINGS: ClassVar = [
        Binding("up,k", "cursor_up", "Block above", show=False, id="chat.cursor_up"),
        Binding("down,j", "cursor_down", "Block below", show=False, id="chat.cursor_down"),
        Binding("space,enter", "fold", "Fold", id="chat.fold"),
        Binding("c", "copy_block", "Copy block", id="chat.copy"),
        Binding("pageup,b", "go('page_up')", "Page up", show=False, id="chat.page_up"),
        Binding("pagedown,f", "go('page_down')", "Page down", show=False, id="chat.page_down"),
        Binding("home,g", "go('home')", "First", show=False, id="chat.home"),
        Binding("end,G", "go('end')", "Newest", id="chat.end"),
    ]

    class OlderWanted(Message):
        """The reader is near the top, and the log has older events than the model."""

    class Copied(Message):
        """A block was copied to the clipboard."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._model: ChatModel | None = None
        self.place: Place | None = None
        self._places: WeakKeyDictionary[ChatModel, Place] = WeakKeyDictionary()
        self.renderer: Renderer | None = None
        self.styles_used: dict[str, Style] = {}
        self._moving = False
        self._flush_wanted = False
        self._flushed_at = 0.0
        self._chip_shown = 0
        self._asked_before: int | None = None

    # What is shown

    def attach(self, model: ChatModel | None) -> None:
        """Show another conversation, at the place where the reader left it; None shows nothing."""
        if self._model is not None:
            self._model.changed = None
        self._model, self.place, self._asked_before = model, None, None
        if model is not None:
            model.changed = self._model_changed
        self._open_place()
        self.refresh()

    @property
    def follows(self) -> bool:
        """Whether the end stays in sight."""
        return self.place is None or self.place.top is None

    @property
    def current(self) -> bool:
        """Whether all changes of the model are on the screen."""
        return not self._flush_wanted

    @property
    def unseen(self) -> int:
        """How many blocks came since the reader left the end."""
        if self.place is None or self.place.top is None or not self.place.column.model.blocks:
            return 0
        return self.place.column.model.blocks[-1].serial - self.place.last_seen

    @property
    def cursor(self) -> Block | None:
        """The block under the block cursor."""
        return self.place.cursor if self.place is not None else None

    def _open_place(self) -> None:
        model, renderer = self._model, self.renderer
        if model is None or renderer is None:
            return
        renderer.pictures = model.pictures
        place = self._places.get(model)
        if place is None:
            place = self._places[model] = Place(Column(model, renderer))
        else:
            place.column.restyle(renderer)
            place.column.sync()
        self.place = place
        self._settle()

    def on_resize(self) -> None:
        self._restyle()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._restyle()

    def _restyle(self) -> None:
        """Draw anew where the width or the theme is another one."""
        width = self.scrollable_content_region.width
        if width <= 0 or not self.is_mounted:
            return
        styles = {role: self.get_component_rich_style(f"chat--{role}") for role in ROLES}
        if self.renderer is not None and self.renderer.width == width and styles == self.styles_used:
            self._settle()
            return
        self.styles_used = styles
        self.renderer = Renderer(width, styles, getattr(self.app, "reading_width", COLUMN))
        self._open_place()
        self.refresh()

    # What changes

    def _model_changed(self) -> None:
        if self._flush_wanted:
            return
        self._flush_wanted = True
        wait_s = self._flushed_at + 1 / FRAMES_PER_S - monotonic()
        if wait_s > 0:
            self.set_timer(wait_s, self.flush)
        else:
            self.call_next(self.flush)

    def flush(self) -> None:
        """Draw what changed since the last frame."""
        self._flush_wanted = False
        self._flushed_at = monotonic()
        place = self.place
        if place is None:
            return
        top = self.scroll_offset.y
        dirty = place.column.sync()
        self._settle()
        height = self.size.height
        if dirty is None:
            self.refresh()
        elif self.scroll_offset.y == top and dirty < top + height:
            first = max(0, dirty - top)
            self.refresh(Region(0, first, self.size.width, height - first))
        self._refresh_chip()

    def _refresh_chip(self) -> None:
        if self.unseen != self._chip_shown:
            self.refresh(Region(0, self.size.height - 1, self.size.width, 1))

    def _settle(self) -> None:
        """Make exact what is in sight, and put the scroll position where the reader is."""
        place = self.place
        height = self.scrollable_content_region.height
        if place is None or height <= 0:
            return
        column = place.column
        top = column.settle(place.top, height)
        if place.top is None and column.model.blocks:
            place.last_seen = column.model.blocks[-1].serial
        total = column.heights.total
        self._moving = True
        try:
            set_lines(self, total)
            if round(self.scroll_y) != top:
                self.scroll_target_y = self.scroll_y = top
        finally:
            self._moving = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._moving and round(old_value) != round(new_value):
            self._hold(round(new_value))

    def _hold(self, row: int) -> None:
        """Have the reader at a row, or at the end where that is as far as it goes."""
        place = self.place
        if place is None:
            return
        last = place.column.heights.total - self.scrollable_content_region.height
        place.top = None if row >= last else place.column.anchor(max(0, row))
        self._settle()
        self._refresh_chip()
        self._ask_for_older()

    def _ask_for_older(self) -> None:
        model = self._model
        if model is None or not model.first_id or model.first_id == self._asked_before:
            return
        if self.scroll_offset.y < self.size.height and not self.follows:
            self._asked_before = model.first_id
            self.post_message(self.OlderWanted())

    # What is drawn

    def render_line(self, y: int) -> Strip:
        width, height = self.scrollable_content_region.size
        row = self.scroll_offset.y + y
        place, renderer = self.place, self.renderer
        if place is None or renderer is None or not len(place.column.heights):
            return self._empty_line(y, width, height)
        found = place.column.strip(row)
        if found is None:
            return Strip.blank(width, self.styles_used["text"])
        strip, serial = found
        cursor = place.cursor if self.has_focus else None
        if cursor is not None and cursor.serial == serial and row < place.column.extent(serial)[1] - 1:
            strip = with_cursor(strip, renderer.left - 1, self.styles_used["cursor"])
        if (selection := self.text_selection) is not None and (span := selection.get_span(row)) is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = with_selection(strip, span, style)
        strip = strip.apply_offsets(0, row)
        if y == height - 1:
            self._chip_shown = self.unseen
            if self._chip_shown:
                strip = with_chip(strip, f" ↓ {self._chip_shown} new ", self.styles_used["chip"])
        return strip

    def _empty_line(self, y: int, width: int, height: int) -> Strip:
        if y != height // 2 or not self.styles_used:
            return Strip.blank(width, self.styles_used.get("text"))
        text = EMPTY.center(width)
        return Strip([Segment(text, self.styles_used["muted"])]).adjust_cell_length(width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected rows as text, without the margin."""
        place, renderer = self.place, self.renderer
        if place is None or renderer is None:
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else place.column.heights.total - 1
        lines = []
        for row in range(first, min(last + 1, first + SELECTED_ROWS)):
            found, span = place.column.strip(row), selection.get_span(row)
            if found is not None and span is not None:
                start, end = span
                text = found[0].text[max(start, renderer.left) : None if end == -1 else end]
                lines.append(text.rstrip())
        return "\n".join(lines), "\n"

    # What the reader does

    def action_go(self, where: Where) -> None:
        self.go(where)

    def go(self, where: Where) -> None:
        """Scroll, as the prompt does for its user too."""
        place = self.place
        if place is None:
            return
        page = max(1, self.scrollable_content_region.height - 2)
        row = self.scroll_offset.y
        match where:
            case "line_up":
                self.go_to_row(row - 1)
            case "line_down":
                self.go_to_row(row + 1)
            case "page_up":
                self.go_to_row(row - page)
            case "page_down":
                self.go_to_row(row + page)
            case "home":
                self.go_to_row(0)
            case "end":
                self.go_to_row(place.column.heights.total)

    def go_to_row(self, row: int) -> None:
        """Have a row on top; one at or beyond the last screen means to follow the end."""
        self._hold(row)
        self.refresh(self.size.region)

    def action_cursor_up(self) -> None:
        self._move_cursor(-1)

    def action_cursor_down(self) -> None:
        self._move_cursor(1)

    def _move_cursor(self, step: Literal[-1, 1]) -> None:
        """Go to the next block; a block that is longer than the screen is read through first."""
        place = self.place
        if place is None or not place.column.model.blocks:
            return
        blocks = place.column.model.blocks
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if place.cursor is None:
            self._select(blocks[-1])
            return
        first, end = place.column.extent(place.cursor.serial)
        unread = top < end - height if step > 0 else first < top
        if end - first > height and first < top + height and top < end and unread:
            self.go_to_row(top + step * max(1, height // 2))
            return
        index = place.cursor.serial - place.column.base + step
        if 0 <= index < len(blocks):
            self._select(blocks[index])
        else:
            self.go("end" if step > 0 else "home")

    def _select(self, block: Block) -> None:
        """Put the block cursor on a block and bring it into sight."""
        assert self.place is not None
        column, self.place.cursor = self.place.column, block
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        column.anchor(column.extent(block.serial)[0])
        first, end = column.extent(block.serial)
        if first < top:
            self._hold(first)
        elif end > top + height:
            self._hold(min(first, end - height))
        self.refresh(self.size.region)

    def action_fold(self) -> None:
        """Fold or unfold the block under the cursor, which stays where it is."""
        place = self.place
        if place is None or place.cursor is None or not place.cursor.can_fold:
            return
        if place.top is None and place.column.heights.total > self.scrollable_content_region.height:
            place.top = place.column.anchor(self.scroll_offset.y)
        place.column.model.toggle(place.cursor)

    def action_copy_block(self) -> None:
        block = self.cursor
        if block is not None:
            text = block.plain()
            self.app.copy_to_clipboard(text)
            self.post_message(self.Copied(text))

    def on_click(self, event: events.Click) -> None:
        place = self.place
        if place is None:
            return
        offset = event.get_content_offset(self) or Offset(0, 0)
        if self.unseen and offset.y == self.scrollable_content_region.height - 1:
            self.go("end")
            return
        found = place.column.strip(self.scroll_offset.y + offset.y)
        if found is not None and 0 <= (index := found[1] - place.column.base) < len(place.column.model.blocks):
            place.cursor = place.column.model.blocks[index]
            self.refresh(self.size.region)

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self.refresh(self.size.region)
