"""The event log on the screen: one line per event, only the visible ones ever formatted.

A view shows whichever model is attached. It follows the end until the cursor leaves it; what is put in or pushed out
at the top moves the scroll position along, so the lines that are being read stay where they are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.commands import BY_ID
from tui.panes.growing import set_lines
from tui.text import sanitize_line

if TYPE_CHECKING:
    from tui.panes.events.model import EventsModel, Row

_TIME_FROM = 56
"""Columns from which the time fits beside the rest."""
_SOURCE_FROM = 40

SOURCES = {"environment": "env"}
ACTIONS = {
    "up": "move(-1)",
    "down": "move(1)",
    "page_up": "move_page(-1)",
    "page_down": "move_page(1)",
    "home": "home",
    "end": "end",
    "open": "open",
}
"""What the keys of a list do here."""


class EventsView(ScrollView, can_focus=True):
    """The event log."""

    COMPONENT_CLASSES = {"events--muted", "events--agent", "events--user", "events--failed", "events--cursor"}
    DEFAULT_CSS = """
    EventsView {
        overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        & > .events--muted { color: $text-muted; }
        & > .events--agent { color: $text-primary; }
        & > .events--user { color: $text-secondary; }
        & > .events--failed { color: $text-error; }
        & > .events--cursor { background: $primary-muted; }
    }
    """
    BINDINGS = [
        Binding(",".join(BY_ID[f"list.{name}"].keys), action, show=False, id=f"events.{name}")
        for name, action in ACTIONS.items()
    ]
    EMPTY = "Every event of this conversation will stand here, one line each. Enter opens one."

    class OlderWanted(Message):
        """The first loaded line is on the screen, and there is more before it."""

    class Opened(Message):
        """The user wants to see an event in full."""

        def __init__(self, event_id: int) -> None:
            super().__init__()
            self.event_id = event_id

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._model: EventsModel | None = None
        self._version = -1
        self._dropped = self._prepended = 0
        self._asked_before: int | None = None
        self.cursor = 0
        self.following = True

    @property
    def width(self) -> int:
        """Columns of a line: those beside the scrollbar."""
        return self.scrollable_content_region.width

    def attach(self, model: EventsModel | None) -> None:
        """Show this model from now on, at its end."""
        self._model = model
        self._asked_before = None
        self.following = True
        if model is not None:
            self._dropped, self._prepended = model.dropped, model.prepended
        self._version = -1
        self.sync()

    def sync(self) -> None:
        """Take over what changed in the model since the last call. Cheap when nothing did."""
        model = self._model
        rows = model.rows if model else []
        if model is not None and self._version == model.version:
            return
        self._version = model.version if model else -1
        if model is not None:
            shift = (model.prepended - self._prepended) - (model.dropped - self._dropped)
            self._dropped, self._prepended = model.dropped, model.prepended
            if shift and not self.following:
                self.cursor = max(0, self.cursor + shift)
        else:
            shift = 0
        set_lines(self, len(rows))
        if self.following:
            self.cursor = max(0, len(rows) - 1)
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)
        elif shift:
            self.scroll_to(y=max(0, self.scroll_offset.y + shift), animate=False, immediate=True, force=True)
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Lines fit the width, so nothing scrolls sideways."""
        set_lines(self, len(self._model.rows) if self._model else 0)
        if self.following:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    def move_cursor(self, to: int) -> None:
        """Put the cursor on a line and show it; on the last one the log follows the end again."""
        count = len(self._model.rows) if self._model else 0
        if not count:
            return
        self.cursor = min(max(0, to), count - 1)
        self.following = self.cursor == count - 1
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, immediate=True, force=True)
        self.refresh()
        self._want_older()

    def _want_older(self) -> None:
        model = self._model
        if model and self.scroll_offset.y <= 0 and model.wants_older and self._asked_before != model.oldest:
            self._asked_before = model.oldest
            self.post_message(self.OlderWanted())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Reading back to the first line loads the page before it."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value:
            self.following = False
        elif new_value >= self.max_scroll_y and self._model and self.cursor >= len(self._model.rows) - 1:
            self.following = True
        self._want_older()

    def action_move(self, lines: int) -> None:
        """Move the cursor by lines."""
        self.move_cursor(self.cursor + lines)

    def action_move_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.move_cursor(self.cursor + pages * max(1, self.size.height - 1))

    def action_home(self) -> None:
        """To the oldest line that is loaded."""
        self.move_cursor(0)

    def action_end(self) -> None:
        """To the newest line, following it from now on."""
        self.move_cursor(len(self._model.rows) - 1 if self._model else 0)

    def action_open(self) -> None:
        """Show the event under the cursor in full."""
        if self._model and self.cursor < len(self._model.rows):
            self.post_message(self.Opened(self._model.rows[self.cursor].id))

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a double click opens."""
        line = event.y + self.scroll_offset.y
        if self._model and line < len(self._model.rows):
            self.move_cursor(line)
            if event.chain == 2:
                self.action_open()

    def render_line(self, y: int) -> Strip:
        """Format one visible line."""
        width, base = self.width, self.rich_style
        rows = self._model.rows if self._model else []
        index = y + self.scroll_offset.y
        if index >= len(rows):
            return self._blank(y, width, base, empty=not rows)
        row = rows[index]
        style = base
        if index == self.cursor and self.has_focus:
            style += self.get_component_rich_style("events--cursor", partial=True)
        segments = self._segments(row, style)
        return Strip(segments).adjust_cell_length(width, style)

    def _blank(self, y: int, width: int, base: Style, empty: bool) -> Strip:
        if not empty or y >= 3:
            return Strip.blank(width, base)
        muted = base + self.get_component_rich_style("events--muted", partial=True)
        words, lines = self.EMPTY.split(), [" "]
        for word in words:
            if len(lines[-1]) + len(word) >= max(width, 12):
                lines.append(" ")
            lines[-1] += word + " "
        return Strip([Segment(lines[y] if y < len(lines) else "", muted)]).adjust_cell_length(width, base)

    def _segments(self, row: Row, base: Style) -> list[Segment]:
        width = self.width
        muted = base + self.get_component_rich_style("events--muted", partial=True)
        segments = [Segment(f"{row.id:>5} ", muted)]
        if width >= _TIME_FROM:
            segments.append(Segment(time.strftime("%H:%M:%S ", time.localtime(row.at)), muted))
        if width >= _SOURCE_FROM:
            name = f"events--{row.source}" if row.source in ("agent", "user") else "events--muted"
            segments.append(
                Segment(
                    f"{SOURCES.get(row.source, row.source):<6}",
                    base + self.get_component_rich_style(name, partial=True),
                )
            )
        mark = "✕ " if row.failed else "→ " if row.is_action else "• "
        failed = base + self.get_component_rich_style("events--failed", partial=True)
        segments.append(Segment("  " * row.depth + mark, failed if row.failed else muted))
        segments.append(Segment(sanitize_line(row.kind, 24) + " ", base + Style(bold=row.is_action)))
        room = width - sum(cell_len(segment.text) for segment in segments) - 1
        segments.append(Segment(" " + sanitize_line(row.summary, room), failed if row.failed else muted))
        return segments
