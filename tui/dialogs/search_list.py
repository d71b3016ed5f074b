"""A list that is searched by typing, as in the palette and the model picker.

The cost of filtering and drawing depends on the rows that are shown, at most `SHOWN`, not on how many there are. Rows
are clean text. A click highlights a row, a second one chooses it; Enter chooses, Esc closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from tui.dialogs.dialog import Field
from tui.dialogs.modal import Modal
from tui.i18n import _

SHOWN = 150
"""The most rows in the list: more than anybody reads, few enough to be drawn within a frame."""
_GAP = 2
_NOTE_FROM = 12
"""A note is shown if it has at least so many cells."""


class Row(NamedTuple):
    """One line of the list; a heading if it has no key."""

    key: str
    title: str
    note: str = ""
    right: str = ""
    """Shown at the right edge: keys, figures."""
    words: str = ""
    """More words by which the row is found."""


class Clickable(OptionList):
    """A list in which a click highlights a row and a double click chooses it."""

    DEFAULT_CSS = """
    Clickable {
        scrollbar-size-vertical: 1; scrollbar-gutter: stable; text-wrap: nowrap; text-overflow: ellipsis;
        & > .option-list--option { padding: 0; }
        & > .option-list--option-highlighted { background: $primary-muted; color: $foreground; text-style: none; }
        &:focus > .option-list--option-highlighted { background: $primary-muted; color: $foreground; text-style: none; }
        &:focus { background-tint: $foreground 0%; }
    }
    """

    async def _on_click(self, event: events.Click) -> None:
        event.prevent_default()  # Textual's own list chooses at once
        number = event.style.meta.get("option")
        if number is None or number < 0 or self.get_option_at_index(number).disabled:
            return
        self.highlighted = number
        if event.chain > 1:
            self.action_select()


class Finder(Modal[str | None]):
    """Searches rows. Returns the key of the chosen one, or None."""

    DEFAULT_CSS = """
    Finder {
        align: center top; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: auto; max-height: 90%; margin-top: 2; padding: 0 1;
            background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        Input, Input:focus { height: 1; border: none; background: $panel; padding: 0 1; margin-bottom: 1; }
        Clickable { height: auto; max-height: 100%; border: none; background: $surface; padding: 0; }
        Clickable:focus { border: none; }
    }
    Finder.-low > Vertical { margin-top: 0; width: 100%; max-height: 100%; }
    Finder.-low Input { margin-bottom: 0; }
    """
    TITLE_TEXT: ClassVar[str] = ""
    PLACEHOLDER: ClassVar[str] = _("Type to narrow down")
    COLUMN: ClassVar[int] = 0
    """The column where notes begin; 0 puts them right behind the title."""
    EMPTY: ClassVar[str] = _("Nothing matches.")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Leave"),
        Binding("up", "move('cursor_up')", show=False, priority=True),
        Binding("down", "move('cursor_down')", show=False, priority=True),
        Binding("pageup", "move('page_up')", show=False, priority=True),
        Binding("pagedown", "move('page_down')", show=False, priority=True),
    ]

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self.TITLE_TEXT
            box.border_subtitle = _("↑ ↓ move · Enter chooses · Esc closes")
            yield Field(placeholder=self.PLACEHOLDER, id="find")
            yield Clickable(markup=False, id="found")

    def rows(self, query: str) -> Sequence[Row]:
        """The rows that match a query, the best first."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.query_one("#find", Input).focus()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 16, "-low")
        self.call_after_refresh(self.show)

    def on_input_changed(self, event: Input.Changed) -> None:
        self.show(keep=False)

    def show(self, keep: bool = True) -> None:
        """Fill the list; `keep` leaves the highlight on its row. Does nothing while the screen is being removed."""
        if not self.display:
            return
        found = self.query_one(Clickable)
        before = found.highlighted_option.id if keep and found.highlighted_option else None
        rows = self.rows(self.query_one("#find", Input).value.strip())
        width = found.scrollable_content_region.width or self.size.width
        options = [
            Option(line(row, width, self.COLUMN), id=row.key or None, disabled=not row.key) for row in rows[:SHOWN]
        ]
        if len(rows) > SHOWN:
            more = _("… and {count} more. Type to narrow down.").format(count=f"{len(rows) - SHOWN:,}")
            options.append(Option(Content.styled(more, "$text-muted"), disabled=True))
        if not options:
            options.append(Option(Content.styled(self.EMPTY, "$text-muted"), disabled=True))
        found.clear_options()
        found.add_options(options)
        ids = [option.id for option in options]
        first = next((number for number, id in enumerate(ids) if id is not None), None)
        found.highlighted = ids.index(before) if before in ids and before is not None else first

    def on_input_submitted(self) -> None:
        self.query_one(Clickable).action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_move(self, how: str) -> None:
        """Move the highlight while the text field keeps the focus."""
        getattr(self.query_one(Clickable), f"action_{how}")()


def ranked(query: str, rows: Iterable[Row]) -> list[Row]:
    """The rows that contain every word of the query, the best first.

    The best are those whose title begins with the query, and those that have each of its words among their own words;
    then come those with a word of the title that begins so, other titles, and the notes.
    """
    sought = query.casefold()
    words = sought.split()
    found: list[tuple[int, Row]] = []
    for row in rows:
        title, own = row.title.casefold(), row.words.casefold()
        if title.startswith(sought) or (own and set(words) <= set(own.split())):
            found.append((0, row))
        elif all(word in title for word in words):
            found.append((1 if f" {words[0] if words else ''}" in title else 2, row))
        elif all(word in f"{title} {row.note} {row.right} {own}".casefold() for word in words):
            found.append((3, row))
    return [row for place, row in sorted(found, key=lambda pair: pair[0])]


def line(row: Row, width: int, column: int = 0) -> Content:
    """A row in `width` cells. The note is dropped first, then the text at the right, then the title is cut.

    Notes begin at `column` if the title is shorter.
    """
    if not row.key:
        return Content.assemble((elided(row.title, width), "bold $text-accent"), (f"  {row.note}", "$text-muted"))
    right = row.right if cell_len(row.title) + cell_len(row.right) + _GAP <= width else ""
    title = elided(row.title, width)
    if row.note and column + _GAP + _NOTE_FROM + cell_len(right) < width:
        title += " " * max(0, column - cell_len(title))
    room = width - cell_len(title) - cell_len(right) - _GAP * (1 + bool(right))
    note = elided(row.note, room) if room >= _NOTE_FROM else ""
    used = cell_len(title) + cell_len(right) + (cell_len(note) + _GAP if note else 0)
    parts = [(title, "bold")]
    if note:
        parts.append((" " * _GAP + note, "$text-muted"))
    parts += [(" " * max(0, width - used), ""), (right, "$text-secondary")]
    return Content.assemble(*parts)


def elided(text: str, width: int) -> str:
    """A text in at most `width` cells, cut at its end."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""
