"""ChipText: the text area of the prompt, which treats a chip as one character.

The cursor moves past a chip, never into it, and a deletion removes all of a chip or nothing. Keys that belong to the
app are not bound here. Everything else is Textual's, such as undo and the hardware cursor for input methods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text
from textual.binding import Binding
from textual.document._document import EditResult, Location, Selection
from textual.widgets import TextArea

from tui.commands import BY_ID
from tui.prompt.attachments import Chips

if TYPE_CHECKING:
    from textual.document._edit import Edit

UNBOUND = frozenset(
    {"f6", "f7", "ctrl+c", "ctrl+x", "ctrl+d", "ctrl+v", "pageup", "pagedown", "shift+up", "shift+down", "up", "down"}
)
"""Keys of TextArea to which the app or the prompt gives another meaning."""
ACTIONS = {
    "prompt.up": "up",
    "prompt.down": "down",
    "prompt.search": "search",
    "prompt.paste": "paste_clipboard",
    "prompt.page_up": "scroll_chat('page_up')",
    "prompt.page_down": "scroll_chat('page_down')",
    "prompt.home": "scroll_chat('home')",
    "prompt.end": "scroll_chat('end')",
}
"""Actions of the prompt that carry out commands of the table."""


def editing_keys() -> list[Binding]:
    """TextArea's bindings without the UNBOUND keys."""
    bindings = []
    for binding in TextArea.BINDINGS:
        assert isinstance(binding, Binding)
        if keys := [key for key in binding.key.split(",") if key not in UNBOUND]:
            bindings.append(replace(binding, key=",".join(keys)))
    return bindings


def own_keys() -> list[Binding]:
    """The bindings of ACTIONS, with the commands' keys."""
    commands = (BY_ID[id] for id in ACTIONS)
    return [Binding(",".join(c.keys), ACTIONS[c.id], c.title, show=False, id=c.id) for c in commands if c.keys]


class ChipText(TextArea, inherit_bindings=False):
    """A text area with chips."""

    COMPONENT_CLASSES = {"prompt--chip"}
    DEFAULT_CSS = """
    ChipText > .prompt--chip { color: $text-accent; background: $accent-muted; }
    """

    chips: Chips

    def edited(self) -> None:
        """Called after every change of the text or the cursor."""

    def edit(self, edit: Edit) -> EditResult:
        result = super().edit(edit)
        self.edited()
        return result

    def _watch_selection(self, previous_selection: Selection, selection: Selection) -> None:
        super()._watch_selection(previous_selection, selection)
        self.edited()

    def insert_here(self, text: str) -> None:
        """Replace the selection, with the cursor behind the new text."""
        if (result := self._replace_via_keyboard(text, *self.selection)) is not None:
            self.move_cursor(result.end_location)

    def expand_chip(self) -> bool:
        """Replace the chip at the cursor with its pasted text. Returns whether there was one."""
        row, column = self.cursor_location
        for start, end in self.chips.spans(self.document[row]):
            text = self.chips.pasted_text(self.document[row][start:end])
            if text is not None and start <= column <= end:
                result = self.replace(text, (row, start), (row, end), maintain_selection_offset=False)
                self.move_cursor(result.end_location)
                return True
        return False

    # -- chips ---------------------------------------------------------------------------------------------------------

    def _outside(self, location: Location, *, after: bool) -> Location:
        """The location, moved out of a chip. The line below the last one, up to which lines are deleted, has none."""
        row, column = location
        if row >= self.document.line_count:
            return location
        for start, end in self.chips.spans(self.document[row]):
            if start < column < end:
                return row, end if after else start
        return location

    def _validate_selection(self, selection: Selection) -> Selection:
        """Keep the cursor out of chips: move it to the end that it did not come from."""
        start, end = super()._validate_selection(selection)
        came_from = self.selection.end
        end = self._outside(end, after=end > came_from)
        return Selection(end if selection.is_empty else self._outside(start, after=start > end), end)

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        start, end = sorted((start, end))
        return super()._delete_via_keyboard(self._outside(start, after=False), self._outside(end, after=True))

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        for start, end in self.chips.spans(line.plain):
            line.stylize(self.get_component_rich_style("prompt--chip"), start, end)
        return line
