"""The history of sent messages, and the reverse search through it.

Typing narrows the search; the prompt's text does not change until a message is taken. While the search is active the
hardware cursor is behind its query, where an input method has to open its window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.cells import cell_len

from tui.commands import BY_ID
from tui.i18n import _
from tui.prompt.completion import Row

if TYPE_CHECKING:
    from textual import events

    from tui.prompt.view import Prompt

LIMIT = 1000
"""Messages of earlier sessions that are loaded: years of most people's."""
HEADING = _("History: {query}")
"""Ends with the query, so that the cursor is where the next letter goes."""
NOTHING = _("History: {query} (no match)")
SHOWN = 200
"""Rows: to find an older message the user types another letter."""
_STEPS = {"down": 1, "up": -1} | dict.fromkeys(BY_ID["prompt.search"].keys, 1)


def merge_history(earlier: Iterable[str], sent: list[str]) -> list[str]:
    """Each message once, the newest last. `earlier` is newest first, and may repeat what this session sent."""
    older = (text for text in earlier if text.strip() and text not in sent)
    return [*reversed(list(dict.fromkeys(older))), *sent]


def search_history(sent: list[str], query: str) -> list[str]:
    """The messages that contain the query, newest first, each once. Case counts only if the query has a capital."""
    ignores_case = query == query.lower()
    found = (text for text in reversed(sent) if query in (text.lower() if ignores_case else text))
    return list(dict.fromkeys(found))


class HistorySearch:
    """The reverse search of one prompt."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt
        self.is_active = False
        self._query = ""

    def begin(self) -> None:
        self.is_active, self._query = True, ""
        self._show()

    def refresh(self) -> None:
        """Search again, because messages of earlier sessions were loaded."""
        if self.is_active:
            self._show()

    def end(self) -> bool:
        """Close the search without a change. Returns whether it was active."""
        was_active, self.is_active = self.is_active, False
        if was_active:
            self._prompt.list.hide()
            self._prompt.move_hardware_cursor()
        return was_active

    def take(self) -> None:
        """Put the message under the cursor into the prompt."""
        row = self._prompt.list.current
        self.end()
        if row is not None:
            self._prompt.put(row.value)

    def add(self, text: str) -> None:
        self._query += "".join(character for character in text if character.isprintable())
        self._show()

    def on_key(self, event: events.Key) -> None:
        """Handle a key; an active search takes all of them."""
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
        found = search_history(self._prompt.sent, self._query)[:SHOWN]
        rows = [Row(" ".join(text.split()), value=text) for text in found]
        heading = HEADING.format(query=self._query)
        shown = heading if rows else NOTHING.format(query=self._query)
        self._prompt.list.show(rows, self._prompt.list_anchor.region, query=self._query, heading=shown)
        self._prompt.move_hardware_cursor(self._prompt.list.caret(cell_len(heading)))
