"""The list of approval modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.dialogs.search_list import Finder, Row, ranked
from tui.i18n import _
from tui.workspace.mode_words import MODE_WORDS


class ModeScreen(Finder):
    """Choose an approval mode; the result is its name in the settings."""

    TITLE_TEXT = _("Approval mode")
    PLACEHOLDER = _("Type to narrow down, or choose what the agent may do without asking")

    def __init__(self, current: str, about: Mapping[str, str]) -> None:
        """`about` has the modes in their order, each with a sentence."""
        super().__init__()
        self._current, self._about = current, about

    def rows(self, query: str) -> Sequence[Row]:
        rows = [
            Row(mode, MODE_WORDS[mode], about, _("current") if mode == self._current else "", mode)
            for mode, about in self._about.items()
        ]
        return ranked(query, rows) if query else rows
