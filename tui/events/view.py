"""The event log on the screen: one line per event, of which only visible ones are formatted.

A view shows whichever model is attached, and keeps the reader's place in each. It follows the end until the cursor
leaves it; rows that are added or removed at the top move the scroll position along, so the lines that are being read
stay where they are. A new filter leaves the cursor on its event, or on the nearest.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from tui.commands import BY_ID, keyed
from tui.find.pane_search import RowFinder
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line
from tui.workspace.line_view import set_lines

if TYPE_CHECKING:
    from tui.events.model import EventsModel, Row, Rows

_MIN_WIDTH_OF_TIME = 56
_MIN_WIDTH_OF_SOURCE = 40

SOURCES = {"environment": "env"}
ACTIONS = {
    "list.up": "move(-1)",
    "list.down": "move(1)",
    "list.page_up": "move_page(-1)",
    "list.page_down": "move_page(1)",
    "list.home": "home",
    "list.end": "end",
    "list.open": "ask('open')",
    "events.jump": "ask('jump')",
    "events.copy": "ask('copy')",
    "list.find_next": "go_to_hit(1)",
    "list.find_prev": "go_to_hit(-1)",
}
"""The actions of the list keys."""


class _Place(NamedTuple):
    """The reader's place in one model, as ids of events."""

    cursor: int
    top: int


class EventsView(RowFinder, can_focus=True):
    """The event log."""

    HELP = keyed(
        _(
            "All events of the conversation. {list.open} opens one, {events.filter} "
            "filters, {events.jump} jumps between an action and its result."
        )
    )
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
        Binding(",".join(BY_ID[id].keys), action, show=False, id=f"events.{id.partition('.')[2]}")
        for id, action in ACTIONS.items()
    ]
    TITLE = _("Events")
    EMPTY = keyed(_("No events yet"))
    NOTHING_FOUND = keyed(_("No events match. Press {events.filter} to change the filter or {app.back} to clear it."))
    SEARCHING = _("No matches yet; searching earlier events.")

    class OlderWanted(Message):
        """The first loaded row is visible, and there are older events."""

    class ActionRequested(Message):
        """The user wants to `open` or `copy` the event under the cursor, or to `jump` from it."""

        def __init__(self, action: str, event_id: int | None) -> None:
            super().__init__()
            self.action = action
            self.event_id = event_id
            """None if there is no event."""

    class Moved(Message):
        """The cursor moved to another event."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._model: EventsModel | None = None
        self._shown: Rows | None = None
        self._places: WeakKeyDictionary[EventsModel, _Place] = WeakKeyDictionary()
        self._version = -1
        self._dropped = self._prepended = 0
        self._requested_before: int | None = None
        self._moved_to: int | None = None
        self._title = Content()
        self.cursor = 0
        self.following = True

    @property
    def width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def _rows(self) -> list[Row]:
        return self._shown.rows if self._shown is not None else []

    @property
    def row(self) -> Row | None:
        """The row under the cursor, if any."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def attach(self, model: EventsModel | None) -> None:
        """Show this model at the place where the reader left it; at its end the first time."""
        if model is not None and model is self._model:
            self.sync()
            return
        if self._model is not None and (place := self._place()) is not None:
            self._places[self._model] = place
        elif self._model is not None:
            self._places.pop(self._model, None)
        self._model = model
        self._requested_before = self._moved_to = None
        self._take_rows(self._places.get(model) if model is not None else None)
        self.sync()

    def _place(self) -> _Place | None:
        """Return the place of the reader; None if the end is followed."""
        if self.following or self.row is None:
            return None
        top = min(self.scroll_offset.y, len(self._rows) - 1)
        return _Place(self.row.id, self._rows[top].id)

    def _take_rows(self, place: _Place | None) -> None:
        """Show the model's current rows at this place in them; None follows the end."""
        self._shown = self._model.shown if self._model is not None else None
        self._version = -1
        self.following = place is None
        if self._shown is not None:
            self._dropped, self._prepended = self._shown.dropped, self._shown.prepended
        if self._shown is None or place is None:
            self.cursor = max(0, len(self._rows) - 1)
        else:
            self.cursor = min(self._shown.index_near(place.cursor), max(0, len(self._rows) - 1))
            set_lines(self, len(self._rows))
            self.scroll_to(y=self._shown.index_near(place.top), animate=False, immediate=True, force=True)

    def sync(self) -> None:
        """Show what changed in the model since the last call. Cheap if nothing did."""
        model = self._model
        if model is not None and self._version == model.version:
            return
        if model is not None and model.shown is not self._shown:
            self._take_rows(self._place())
        self._version = model.version if model else -1
        shift, shown = 0, self._shown
        if shown is not None:
            shift = (shown.prepended - self._prepended) - (shown.dropped - self._dropped)
            self._dropped, self._prepended = shown.dropped, shown.prepended
            if shift and not self.following:
                self.cursor = max(0, self.cursor + shift)
        set_lines(self, len(self._rows))
        if self.following:
            self.cursor = max(0, len(self._rows) - 1)
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)
        elif shift:
            self.scroll_to(y=max(0, self.scroll_offset.y + shift), animate=False, immediate=True, force=True)
        self.find_again()
        self.refresh()
        self._post_moved()

    def on_resize(self, event: events.Resize) -> None:
        set_lines(self, len(self._rows))
        if self.following:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    def show_count(self, count: int) -> None:
        """Show in the title how many events there are, and the filter with the number of its matches."""
        model, title = self._model, Content(f"{self.TITLE} {count}")
        if model is not None and model.filter is not None:
            found = str(len(model.rows))
            if model.is_searching:
                found = _("{n}, searched back to {id}…").format(n=found, id=model.searched)
            chip = f" {sanitize_line(str(model.filter), 40)} · {found} "
            title = Content.assemble(title, "  ", (chip, "$text-accent on $accent-muted"))
        if title != self._title:
            self._title = title
            self.border_title = title

    def move_cursor(self, to: int) -> None:
        """Move the cursor to a row and show it; on the last one the log follows the end again."""
        count = len(self._rows)
        if not count:
            return
        self.cursor = min(max(0, to), count - 1)
        self.following = self.cursor == count - 1
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, immediate=True, force=True)
        self.refresh()
        self._request_older()
        self._post_moved()

    def go_to(self, event_id: int) -> bool:
        """Move the cursor to an event. Returns whether it is among the rows."""
        self.sync()
        index = self._shown.index(event_id) if self._shown is not None else None
        if index is None:
            return False
        self.move_cursor(index)
        return True

    def _post_moved(self) -> None:
        here = self.row.id if self.row is not None else None
        if here != self._moved_to:
            self._moved_to = here
            self.post_message(self.Moved())

    def _request_older(self) -> None:
        model = self._model
        if model and self.scroll_offset.y <= 0 and model.wants_older and self._requested_before != model.oldest:
            self._requested_before = model.oldest
            self.post_message(self.OlderWanted())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Load the previous page when the reader scrolls to the first row."""
        super().watch_scroll_y(old_value, new_value)
        if new_value >= self.max_scroll_y:  # also when a taller view has scrolled it back
            self.following = self.following or (self._model is not None and self.cursor >= len(self._rows) - 1)
        elif new_value < old_value:
            self.following = False
        self._request_older()

    def action_move(self, rows: int) -> None:
        self.move_cursor(self.cursor + rows)

    def action_move_page(self, pages: int) -> None:
        self.move_cursor(self.cursor + pages * max(1, self.size.height - 1))

    def action_home(self) -> None:
        self.move_cursor(0)

    def action_end(self) -> None:
        self.move_cursor(len(self._rows) - 1)

    def action_ask(self, action: str) -> None:
        self.post_message(self.ActionRequested(action, self.row.id if self.row is not None else None))

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if line < len(self._rows):
            self.move_cursor(line)
            if event.chain == 2:
                self.action_ask("open")

    def row_count(self) -> int:
        return len(self._rows)

    def row_text(self, row: int) -> str:
        """Return its kind and summary; number and time are found by the filter."""
        return f"{self._rows[row].kind} {self._rows[row].summary}"

    def show_row(self, row: int) -> None:
        self.move_cursor(row)

    def render_line(self, y: int) -> Strip:
        width, base = self.width, self.rich_style
        index = y + self.scroll_offset.y
        if index >= len(self._rows):
            return self._blank(y, width, base, empty=not self._rows)
        style = base
        if index == self.cursor and self.has_focus:
            style += self._style("events--cursor")
        return self.with_hits(Strip(self._segments(index, style)).adjust_cell_length(width, style), index)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _blank(self, y: int, width: int, base: Style, empty: bool) -> Strip:
        if not empty or y >= 3:
            return Strip.blank(width, base)
        text = self.EMPTY
        if self._model is not None and self._model.filter is not None:
            text = self.SEARCHING if self._model.is_searching else self.NOTHING_FOUND
        lines = Text(text, end="").wrap(self.app.console, max(width, 12) - 2, overflow="fold")
        muted = base + self._style("events--muted")
        line = f" {lines[y].plain}" if y < len(lines) else ""
        return Strip([Segment(line, muted)]).adjust_cell_length(width, base)

    def _segments(self, index: int, base: Style) -> list[Segment]:
        assert self._shown is not None
        row, width = self._shown.rows[index], self.width
        muted, failed = base + self._style("events--muted"), base + self._style("events--failed")
        segments = [Segment(f"{row.id:>5} ", muted)]
        if width >= _MIN_WIDTH_OF_TIME:
            segments.append(Segment(time.strftime("%H:%M:%S ", time.localtime(row.at)), muted))
        if width >= _MIN_WIDTH_OF_SOURCE:
            name = f"events--{row.source}" if row.source in ("agent", "user") else "events--muted"
            segments.append(Segment(f"{SOURCES.get(row.source, row.source):<6}", base + self._style(name)))
        guide, near = self._shown.guide(index)
        segments.append(Segment(guide, muted))
        segments.append(
            Segment("✕ " if row.failed else "→ " if row.is_action else "• ", failed if row.failed else muted)
        )
        segments.append(Segment(sanitize_line(row.kind, 24) + " ", base + Style(bold=row.is_action)))
        if not near:
            segments.append(Segment(f"#{row.parent} ", muted))
        room = width - sum(cell_len(segment.text) for segment in segments) - 1
        segments.append(Segment(" " + sanitize_line(row.summary, room), failed if row.failed else muted))
        return segments
