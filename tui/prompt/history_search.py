"""Search: the reverse search through what was sent. Typing narrows; the prompt's text stands still until one is taken.

While it is on, the hardware cursor stands behind the search's words, where an input method has to open its window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from tui.commands import BY_ID
from tui.i18n import _
from tui.prompt.completion_list import Row
from tui.prompt.prompt_history import narrowed

if TYPE_CHECKING:
    from textual import events

    from tui.prompt.view import Prompt

HEADING = _("History: {query}")
"""Ends with the query, so that the cursor stands where the next letter goes."""
NOTHING = _("History: {query} (no match)")
SHOWN = 200
"""Rows: whoever has not found it by then types another letter."""
_STEPS = {"down": 1, "up": -1} | dict.fromkeys(BY_ID["prompt.search"].keys, 1)


class Search:
    """The reverse search of one prompt."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self.is_on = False
        self._query = ""

    def begin(self) -> None:
        """Show what was sent, the newest first."""
        self.is_on, self._query = True, ""
        self._show()

    def refresh(self) -> None:
        """There is more to be found."""
        if self.is_on:
            self._show()

    def end(self) -> bool:
        """Leave everything as it was. Answers whether there was a search."""
        was, self.is_on = self.is_on, False
        if was:
            self._prompt.list.hide()
            self._prompt.show_caret()
        return was

    def take(self) -> None:
        """Have the one under the cursor in the prompt."""
        row = self._prompt.list.current
        self.end()
        if row is not None:
            self._prompt.put(row.value)

    def add(self, text: str) -> None:
        """Narrow by more characters."""
        self._query += "".join(character for character in text if character.isprintable())
        self._show()

    def key(self, event: events.Key) -> None:
        """Take a key; every key is the search's."""
        match event.key:
            case "enter" | "tab":
                self.take()
            case "escape" | "ctrl+g":
                self.end()
            case "backspace":
                self._query = self._query[:-1]
                self._show()
            case "ctrl+u":
                self._query = ""
                self._show()
            case key if key in _STEPS:
                self._prompt.list.move(_STEPS[key])
            case "pageup" | "pagedown":
                self._prompt.list.move_page(1 if event.key == "pagedown" else -1)
            case _ if event.character is not None and event.is_printable:
                self.add(event.character)

    def _show(self) -> None:
        found = narrowed(self._prompt.sent, self._query)[:SHOWN]
        rows = [Row(" ".join(text.split()), value=text) for text in found]
        heading = HEADING.format(query=self._query)
        shown = heading if rows else NOTHING.format(query=self._query)
        self._prompt.list.show(rows, self._prompt.room_above, query=self._query, heading=shown)
        self._prompt.show_caret(self._prompt.list.caret(cell_len(heading)))
