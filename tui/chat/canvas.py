"""Draws the chat and keeps the reader's place in it.

Draws line by line what `Column` says, so a frame costs what is visible, however long the conversation is. Follows the
end until the reader scrolls; then the reader's row stays in place, whatever grows above or below. Changes are drawn at
most FRAMES_PER_S times a second, only their rows, and an idle view draws nothing. Imports no `core`: a model is passed
to `attach`, and the view keeps its place in each model.
"""

from __future__ import annotations

import re
import textwrap
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.chat.block_layout import Anchor, Column, Row
from tui.chat.overlays import selected_text, side_at, with_chip, with_cursor
from tui.chat.renderer import COLUMN, ROLES, Renderer
from tui.find.pane_search import with_marks
from tui.i18n import _
from tui.workspace.line_view import set_lines

if TYPE_CHECKING:
    from rich.style import Style
    from textual.selection import Selection

    from tui.chat.blocks import Block
    from tui.chat.model import ChatModel

FRAMES_PER_S = 20
EMPTY = _("No messages yet")
MAX_SELECTED_ROWS = 10_000
"""Rows that one selection can copy; for more there is the export."""
AUTO_SPLIT_WIDTH = 120
"""Cells of the pane from which diffs are shown side by side, unless the reader chose otherwise."""
MIN_SPLIT_WIDTH = 60
"""Below this, two sides are too narrow to read."""


class ReaderPlace:
    """The reader's place in one model."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.top: Anchor | None = None
        """The row on top; None follows the end."""
        self.cursor: Block | None = None
        self.last_seen = 0
        """The serial of the newest block when the end was last visible."""


class Canvas(ScrollView, can_focus=True):
    """Draws the attached model."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._model: ChatModel | None = None
        self.place: ReaderPlace | None = None
        self._places: WeakKeyDictionary[ChatModel, ReaderPlace] = WeakKeyDictionary()
        self.renderer: Renderer | None = None
        self.styles_used: dict[str, Style] = {}
        self.side_by_side: bool | None = None
        """Whether diffs are shown side by side; None decides by the width."""
        self._moving = False
        self._flush_wanted = False
        self._flushed_at = 0.0
        self._chip_shown = 0
        self._empty = EMPTY

    def show_empty(self, text: str) -> None:
        """Show a text where no conversation is."""
        self._empty = text
        self.refresh()

    def attach(self, model: ChatModel | None) -> None:
        """Show another conversation at the place where the reader left it; None shows nothing."""
        if self._model is not None:
            self._model.changed = None
        self._model, self.place = model, None
        if model is not None:
            self._empty = EMPTY
            model.changed = self._model_changed
        self._open_place()
        self.refresh()

    @property
    def follows(self) -> bool:
        return self.place is None or self.place.top is None

    @property
    def is_current(self) -> bool:
        """Whether all changes of the model are on the screen."""
        return not self._flush_wanted

    @property
    def unseen(self) -> int:
        """The number of blocks that were added since the reader left the end."""
        if self.place is None or self.place.top is None or not self.place.column.model.blocks:
            return 0
        return max(0, self.place.column.model.blocks[-1].serial - self.place.last_seen)

    @property
    def cursor(self) -> Block | None:
        return self.place.cursor if self.place is not None else None

    def _open_place(self) -> None:
        model, renderer = self._model, self.renderer
        if model is None or renderer is None:
            return
        renderer.pictures = model.pictures
        place = self._places.get(model)
        if place is None:
            place = self._places[model] = ReaderPlace(Column(model, renderer))
        else:
            place.column.restyle(renderer)
            place.column.sync()
        self.place = place
        self._settle()

    def on_mount(self) -> None:
        # A theme's component styles may change after `notify_style_update`: those of 16 colours do.
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self.call_after_refresh(self._restyle))

    def on_resize(self) -> None:
        self._restyle()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._restyle()

    def _restyle(self) -> None:
        """Draw everything again if the width or the theme has changed."""
        width = self.scrollable_content_region.width
        if width <= 0 or not self.is_mounted:
            return
        styles = {role: self.get_component_rich_style(f"chat--{role}") for role in ROLES}
        split = width >= MIN_SPLIT_WIDTH and (
            width >= AUTO_SPLIT_WIDTH if self.side_by_side is None else self.side_by_side
        )
        drawn = (self.renderer.width, self.renderer.split) if self.renderer is not None else None
        if drawn == (width, split) and styles == self.styles_used:
            self._settle()
            return
        self.styles_used = styles
        self.renderer = Renderer(width, styles, getattr(self.app, "reading_width", COLUMN), split=split)
        self._open_place()
        self.refresh()

    def _model_changed(self) -> None:
        if self._flush_wanted:
            return
        self._flush_wanted = True
        period_s = max(getattr(self.app, "period_s", float)(), 1 / FRAMES_PER_S)  # the app's, where it has a pace
        wait_s = self._flushed_at + period_s - monotonic()
        if wait_s > 0:
            self.set_timer(wait_s, self.flush)
        else:
            self.call_next(self.flush)

    def flush(self) -> None:
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
        """Measure what is visible, and scroll to the place of the reader."""
        place = self.place
        height = self.scrollable_content_region.height
        if place is None:
            return
        column = place.column
        if height <= 0:
            set_lines(self, column.heights.total)  # Textual scrolls to the end of these lines when the pane grows again
            return
        top = column.settle(place.top, height)
        if column.model.blocks:
            newest = column.model.blocks[-1].serial  # lower than what was seen, after an undo
            place.last_seen = newest if place.top is None else min(place.last_seen, newest)
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
            self._scroll_to_row(round(new_value))

    def _scroll_to_row(self, row: int) -> None:
        """Scroll to a row, or to the end if the row is beyond the last screen."""
        place = self.place
        if place is None:
            return
        last = place.column.heights.total - self.scrollable_content_region.height
        place.top = None if row >= last else place.column.anchor(max(0, row))
        self._settle()
        self._refresh_chip()

    def render_line(self, y: int) -> Strip:
        width, height = self.scrollable_content_region.size
        row = self.scroll_offset.y + y
        place, renderer = self.place, self.renderer
        if place is None or renderer is None or not len(place.column.heights):
            return self._empty_line(y, width, height)
        shown = place.column.strip(row)
        if shown is None:
            return Strip.blank(width, self.styles_used["text"])
        strip = self.with_overlays(shown, row)
        if (selection := self.text_selection) is not None and (span := selection.get_span(row)) is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = with_marks(strip, [span], style)
        # A copy, because Textual caches in a strip what it makes of it, and drawn strips are kept for long.
        strip = Strip(list(strip), strip.cell_length).apply_offsets(0, row)
        if y == height - 1:
            self._chip_shown = self.unseen
            if self._chip_shown:
                new = _("↓ {n} new").format(n=self._chip_shown)
                strip = with_chip(strip, f" {new} ", self.styles_used["chip"])
        return strip

    def with_overlays(self, shown: Row, row: int) -> Strip:
        place, renderer = self.place, self.renderer
        cursor = place.cursor if place is not None and self.has_focus else None
        if renderer is None or place is None or cursor is None or cursor.serial != shown.serial:
            return shown.strip
        if row >= place.column.extent(shown.serial)[1] - 1:
            return shown.strip
        return with_cursor(shown.strip, renderer.left_of(shown.piece) - 1, self.styles_used["cursor"])

    def _empty_line(self, y: int, width: int, height: int) -> Strip:
        text = self._empty
        chars = max(1, width * len(text) // cell_len(text))
        sentences = [text] if cell_len(text) <= width else re.split(r"(?<=[.。])\s*(?=\S)", text)
        lines = [line for sentence in sentences for line in textwrap.wrap(sentence, chars)]
        if not 0 <= (at := y - height // 2) < len(lines) or not self.styles_used:
            return Strip.blank(width, self.styles_used.get("text"))
        line = lines[at].center(width - cell_len(lines[at]) + len(lines[at]))
        return Strip([Segment(line, self.styles_used["muted"])]).adjust_cell_length(width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without margins, line numbers and other gutters."""
        place = self.place
        if place is None:
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else place.column.heights.total - 1
        began = place.column.strip(first)
        side = side_at(began.strip, selection.start.x if selection.start is not None else 0) if began else ""
        lines = []
        for row in range(first, min(last + 1, first + MAX_SELECTED_ROWS)):
            shown, span = place.column.strip(row), selection.get_span(row)
            if shown is not None and span is not None:
                lines.append(selected_text(shown.strip, span, side))
        return "\n".join(lines), "\n"

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self.refresh(self.size.region)
