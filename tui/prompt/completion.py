"""Completion: the list over the transcript that offers files, events, commands and earlier messages.

`trigger_at` says what the word at the cursor asks for: `@` a file, `#` an event, `/` at the very start a command.
`Completer` asks the source of that kind for rows and inserts the chosen one; an answer that comes after the word has
changed is dropped, and a list that the user closed stays closed until another word begins. `ListOverlay` draws the
rows. It floats over the transcript and never has the focus, so typing goes on; a click takes a row.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Offset, Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.terminal_io.sanitizer import sanitize_line

if TYPE_CHECKING:
    from tui.prompt.view import Prompt

# -- triggers ----------------------------------------------------------------------------------------------------------

QUERY_CHARS = 200
"""A longer word is no name that anyone types."""

_FILE = re.compile(r'(?:^|(?<=[\s(]))@(?:"([^"]*)|([^\s"]*))$')
_EVENT = re.compile(r"(?:^|(?<=[\s(]))#([^\s#]*)$")
_COMMAND = re.compile(r"/([^\s/]*)$")


class Kind(StrEnum):
    """What a word asks for. Values: the character that it starts with."""

    FILE = "@"
    EVENT = "#"
    COMMAND = "/"


class Trigger(NamedTuple):
    """A word that asks for a completion, from `start` to the cursor."""

    kind: Kind
    query: str
    row: int
    start: int

    @property
    def place(self) -> tuple[Kind, int, int]:
        """Identifies the word, however much of it has been typed."""
        return self.kind, self.row, self.start


def trigger_at(first: str, line: str, row: int, column: int) -> Trigger | None:
    """The trigger before the cursor. `first` is the text's first line, `line` the cursor's."""
    before = line[max(0, column - QUERY_CHARS) : column]
    offset = column - len(before)
    if row == 0 and offset == 0 and (found := _COMMAND.match(before)):
        return Trigger(Kind.COMMAND, found[1], row, 0)
    if found := _FILE.search(before):
        return Trigger(Kind.FILE, found[1] if found[1] is not None else found[2], row, offset + found.start())
    if not first.startswith("!") and (found := _EVENT.search(before)):  # in a shell, # begins a comment
        return Trigger(Kind.EVENT, found[1], row, offset + found.start())
    return None


# -- the list ----------------------------------------------------------------------------------------------------------

ROWS = 10
"""Shown at once; the rest is scrolled to."""
_LABEL_SHARE = 0.6
"""The share of the width that a label has beside a note."""
_GAP = 3
_MEASURED_CELLS = 200
"""Cells of a text that count for the width of its column."""
_NOTES_FROM = 60
"""Columns from which a note fits beside its label."""


class Row(NamedTuple):
    """One completion."""

    label: str
    note: str = ""
    value: str = ""
    """What is inserted; its meaning depends on the source."""
    runs_alone: bool = False
    """Whether it is a command that Enter behind its whole name carries out, though it takes arguments."""


class ListOverlay(Widget):
    """A list of rows with a cursor. Sanitises texts when it draws them."""

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
        """A row was clicked; the cursor is on it."""

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
        """The row under the cursor; None while the list is hidden."""
        return self.rows[self.cursor] if self.display and self.rows else None

    def show(self, rows: Sequence[Row], above: Region, *, query: str = "", heading: str = "") -> None:
        """Show these rows with the query highlighted and the cursor on the first one. Hides an empty list."""
        self.rows, self.heading, self._query = rows, heading, query.lower()
        self.cursor = self._top = 0
        self._widths = (
            max((cell_len(sanitize_line(row.label, _MEASURED_CELLS)) for row in rows), default=0),
            max((cell_len(sanitize_line(row.note, _MEASURED_CELLS)) for row in rows), default=0),
        )
        if not rows and not heading:
            self.hide()
            return
        self.place(above)

    def hide(self) -> None:
        self.rows, self.heading = (), ""
        self.display = False

    def place(self, above: Region) -> None:
        """Put the list above this region, as high as its rows need and the screen allows."""
        height = min(ROWS, len(self.rows)) + bool(self.heading)
        height = max(1, min(height, above.y))
        self._corner, self._width = Offset(above.x, max(0, above.y - height)), max(1, above.width)
        self.styles.width, self.styles.height, self.styles.offset = self._width, height, self._corner
        self.display = True
        self._scroll_to_cursor(height - bool(self.heading))
        self.refresh()

    def caret(self, cells: int) -> Offset:
        """The screen position behind that many cells of the heading."""
        return self._corner + Offset(min(1 + cells, max(0, self._width - 1)), 0)

    def move(self, step: int) -> None:
        """Move the cursor; it wraps around at the ends."""
        if self.rows:
            self.cursor = (self.cursor + step) % len(self.rows)
            self._scroll_to_cursor(self._room)
            self.refresh()

    def move_to(self, index: int) -> None:
        self.move(index - self.cursor)

    def move_page(self, step: int) -> None:
        """Move the cursor by a page; it stops at the ends."""
        if self.rows:
            self.move_to(max(0, min(len(self.rows) - 1, self.cursor + step * max(1, self._room))))

    @property
    def _room(self) -> int:
        return self.size.height - bool(self.heading)

    def _scroll_to_cursor(self, room: int) -> None:
        self._top = max(min(self._top, self.cursor), self.cursor - max(1, room) + 1)

    # -- drawing -------------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
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
        beside = width >= _NOTES_FROM and notes
        room = min(labels, max(width - notes - _GAP, int(width * _LABEL_SHARE))) if beside else width
        label = sanitize_line(row.label, room)
        note = sanitize_line(row.note, width - room - _GAP) if beside else ""
        gap = room + _GAP - cell_len(label) if note else 0
        muted = base + Style(color=self.get_component_rich_style("list--note").color)
        rest = width - cell_len(label) - gap - cell_len(note)
        return [
            *self._highlighted(label, base),
            Segment(" " * gap, base),
            Segment(note, muted),
            Segment(" " * rest, base),
        ]

    def _highlighted(self, label: str, base: Style) -> list[Segment]:
        """The label with the last occurrence of the query highlighted."""
        at = label.lower().rfind(self._query) if self._query else -1
        if at < 0 or len(label.lower()) != len(label):
            return [Segment(label, base)]
        hit = self.get_component_rich_style("list--hit")
        end = at + len(self._query)
        marked = base + Style(color=hit.color, bold=True)
        return [Segment(label[:at], base), Segment(label[at:end], marked), Segment(label[end:], base)]

    # -- mouse ---------------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = self._top + event.y - bool(self.heading)
        if 0 <= at < len(self.rows) and event.y >= bool(self.heading):
            self.move_to(at)
            self.post_message(self.Clicked())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move_to(min(len(self.rows) - 1, self.cursor + 1))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move_to(max(0, self.cursor - 1))


# -- completing --------------------------------------------------------------------------------------------------------

Source = Callable[[str], Awaitable[Sequence[Row]]]
"""Returns the rows for a query. Does not raise."""

WAIT_S = 0.5
"""How long Enter and Tab wait for the list of a word that was typed just before them."""


class Completer:
    """The completion of one prompt."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self.sources: dict[Kind, Source] = {}
        self._trigger: Trigger | None = None
        self._closed: tuple[Kind, int, int] | None = None
        """The place of the word whose list was closed."""
        self._shown: Trigger | None = None
        """The trigger whose rows are in the list."""
        self._answered = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether its list is visible."""
        return self._shown is not None and self._prompt.list.display

    def update(self) -> None:
        """Look at the word at the cursor again. Cheap if nothing changed."""
        trigger = self._find_trigger()
        if trigger == self._trigger:
            return
        self._trigger = trigger
        if trigger is None or trigger.kind not in self.sources:
            self._closed = None
            self._hide()
        elif trigger.place != self._closed:
            self._closed = None
            self._answered.clear()
            work: Any = partial(self._ask, trigger)  # a coroutine that is cancelled before its start would warn
            self._prompt.run_worker(work, group="list", exclusive=True, exit_on_error=False)

    def _find_trigger(self) -> Trigger | None:
        prompt = self._prompt
        if not prompt.has_focus or not prompt.selection.is_empty or not prompt.text:
            return None
        row, column = prompt.cursor_location
        return trigger_at(prompt.document[0], prompt.document[row], row, column)

    async def _ask(self, trigger: Trigger) -> None:
        rows = await self.sources[trigger.kind](trigger.query)
        if trigger != self._trigger or self._closed is not None:
            return
        self._shown = trigger if rows else None
        if rows:
            self._prompt.list.show(rows, self._prompt.list_anchor.region, query=trigger.query)
        else:
            self._prompt.list.hide()
        self._answered.set()

    def _hide(self) -> None:
        if self._shown is not None:
            self._shown = None
            self._prompt.list.hide()

    def close(self) -> bool:
        """Close the list and keep the text. Returns whether it was open."""
        was_open = self.is_open
        if was_open:
            self.suppress()
        return was_open

    def suppress(self) -> None:
        """Offer nothing for the word that is at the cursor now."""
        self._trigger = self._find_trigger()
        self._closed = self._trigger.place if self._trigger is not None else None
        self._hide()

    async def take(self, key: Literal["enter", "tab", "click"]) -> bool:
        """Replace the word with the row under the cursor. Returns False if the key is not for the list."""
        trigger = self._trigger
        if trigger is None or self._closed is not None or trigger.kind not in self.sources:
            return False
        if trigger.kind is Kind.COMMAND and key == "enter" and self._shown != trigger:
            return False  # a complete name needs no list
        try:
            async with asyncio.timeout(WAIT_S):
                await self._answered.wait()
        except TimeoutError:
            return False
        row = self._prompt.list.current
        if row is None or self._shown != trigger:
            return False
        if key == "enter" and trigger.kind is not Kind.COMMAND and row.value == trigger.query:
            return False  # nothing is left to complete
        if key == "enter" and row.runs_alone and row.value.rstrip() == trigger.query:
            return False
        self._insert(trigger, row, run=key != "tab" and trigger.kind is Kind.COMMAND and not row.value.endswith(" "))
        return True

    def _insert(self, trigger: Trigger, row: Row, *, run: bool) -> None:
        text = row.value.rstrip()
        match trigger.kind:
            case Kind.FILE:
                text = f'"{text}" ' if " " in text else f"{text} "
            case Kind.EVENT:
                text = f"#{text} "
            case Kind.COMMAND:
                text = f"/{text}" + ("" if run else " ")
        self._hide()
        prompt = self._prompt
        start = (trigger.row, trigger.start)
        result = prompt.replace(text, start, prompt.cursor_location, maintain_selection_offset=False)
        prompt.move_cursor(result.end_location)
        if run:
            prompt.submit()
