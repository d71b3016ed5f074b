"""The list over the transcript: what may be taken into the prompt. Used for files, events, commands and the past.

It floats: it takes no room from what it lies on, keeps inside the screen, and is moved and emptied by whoever shows
it. It has no keys and never the focus, so typing goes on where it was; a click takes a row. Draws the rows in sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Offset, Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.terminal_io.sanitizer import sanitize_line

ROWS = 10
"""Shown at once; more is scrolled to."""
_LABEL_SHARE = 0.6
"""Of the width, where a note wants the rest."""
_GAP = 3
_MEASURED = 200
"""Cells of a text that count for the width of its column."""
_BESIDE = 60
"""Columns from which a note fits beside its label."""


class Row(NamedTuple):
    """One thing that can be taken."""

    label: str
    note: str = ""
    value: str = ""
    """What is taken; for whoever filled the list."""


class ListOverlay(Widget):
    """A list of rows, one of them under the cursor. Texts are made clean where they are drawn."""

    COMPONENT_CLASSES = {"list--row", "list--cursor", "list--note", "list--hit", "list--heading"}
    DEFAULT_CSS = """
    ListOverlay {
        display: none; position: absolute; layer: above; padding: 0 1; background: $panel; color: $foreground;
        & > .list--row { color: $foreground; background: $panel; }
        & > .list--note { color: $text-muted; }
        & > .list--hit { color: $text-accent; text-style: bold; }
        & > .list--cursor { background: $primary-muted; color: $foreground; text-style: bold; }
        & > .list--heading { color: $text-primary; text-style: bold; background: $panel; }
    }
    """

    class Clicked(Message):
        """A row was clicked; it is under the cursor then."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.cursor = 0
        self.heading = ""
        self._query = ""
        self._top = 0
        self._widths = (0, 0)
        """Cells of the longest label and of the longest note."""
        self._corner = Offset(0, 0)
        self._width = 0

    @property
    def current(self) -> Row | None:
        """The row under the cursor, where the list is shown."""
        return self.rows[self.cursor] if self.display and self.rows else None

    def show(self, rows: Sequence[Row], above: Region, *, query: str = "", heading: str = "") -> None:
        """Show these rows, the cursor on the first, with the query marked in them. Nothing to show hides the list."""
        self.rows, self.heading, self._query = rows, heading, query.lower()
        self.cursor = self._top = 0
        self._widths = (
            max((cell_len(sanitize_line(row.label, _MEASURED)) for row in rows), default=0),
            max((cell_len(sanitize_line(row.note, _MEASURED)) for row in rows), default=0),
        )
        if not rows and not heading:
            self.hide()
            return
        self.place(above)

    def hide(self) -> None:
        """Take it away."""
        self.rows, self.heading = (), ""
        self.display = False

    def place(self, above: Region) -> None:
        """Lie upon what is above this region of the screen, as high as the rows are and the screen allows."""
        height = min(ROWS, len(self.rows)) + bool(self.heading)
        height = max(1, min(height, above.y))
        self._corner, self._width = Offset(above.x, max(0, above.y - height)), max(1, above.width)
        self.styles.width, self.styles.height, self.styles.offset = self._width, height, self._corner
        self.display = True
        self._keep_in_sight(height - bool(self.heading))
        self.refresh()

    def caret(self, cells: int) -> Offset:
        """Where on the screen the heading has had that many cells: what is typed is meant for there."""
        return self._corner + Offset(min(1 + cells, max(0, self._width - 1)), 0)

    def move(self, step: int) -> None:
        """Move the cursor; past an end it comes in at the other."""
        if self.rows:
            self.cursor = (self.cursor + step) % len(self.rows)
            self._keep_in_sight(self._room)
            self.refresh()

    def move_to(self, index: int) -> None:
        """Put the cursor on a row."""
        self.move(index - self.cursor)

    def move_page(self, step: int) -> None:
        """Move the cursor by what is shown at once, and stop at the ends."""
        if self.rows:
            self.move_to(max(0, min(len(self.rows) - 1, self.cursor + step * max(1, self._room))))

    @property
    def _room(self) -> int:
        return self.size.height - bool(self.heading)

    def _keep_in_sight(self, room: int) -> None:
        self._top = max(min(self._top, self.cursor), self.cursor - max(1, room) + 1)

    # -- drawing -------------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """One line of the heading or of the rows in sight."""
        width = self.size.width
        if self.heading and y == 0:
            style = self.get_component_rich_style("list--heading")
            return Strip([Segment(set_cell_size(sanitize_line(self.heading, width), width), style)], width)
        at = self._top + y - bool(self.heading)
        base = self.get_component_rich_style("list--row")
        if not 0 <= at < len(self.rows):
            return Strip.blank(width, base)
        if at == self.cursor:
            base += self.get_component_rich_style("list--cursor")
        return Strip(self._segments(self.rows[at], width, base), width)

    def _segments(self, row: Row, width: int, base: Style) -> list[Segment]:
        labels, notes = self._widths
        beside = width >= _BESIDE and notes
        room = min(labels, max(width - notes - _GAP, int(width * _LABEL_SHARE))) if beside else width
        label = sanitize_line(row.label, room)
        note = sanitize_line(row.note, width - room - _GAP) if beside else ""
        gap = room + _GAP - cell_len(label) if note else 0
        muted = base + Style(color=self.get_component_rich_style("list--note").color)
        rest = width - cell_len(label) - gap - cell_len(note)
        return [*self._marked(label, base), Segment(" " * gap, base), Segment(note, muted), Segment(" " * rest, base)]

    def _marked(self, label: str, base: Style) -> list[Segment]:
        """The label with the query in it marked, where it stands in one piece: the last time, where a name is."""
        at = label.lower().rfind(self._query) if self._query else -1
        if at < 0 or len(label.lower()) != len(label):
            return [Segment(label, base)]
        hit = self.get_component_rich_style("list--hit")
        end = at + len(self._query)
        marked = base + Style(color=hit.color, bold=True)
        return [Segment(label[:at], base), Segment(label[at:end], marked), Segment(label[end:], base)]

    # -- mouse ---------------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """Take a row."""
        event.stop()
        at = self._top + event.y - bool(self.heading)
        if 0 <= at < len(self.rows) and event.y >= bool(self.heading):
            self.move_to(at)
            self.post_message(self.Clicked())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move on."""
        event.stop()
        self.move_to(min(len(self.rows) - 1, self.cursor + 1))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move back."""
        event.stop()
        self.move_to(max(0, self.cursor - 1))
