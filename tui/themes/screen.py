"""The theme picker: the theme under the cursor is on the screen at once; Esc brings back the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.widgets import OptionList

from tui.dialogs.dialog import Choice, ChoiceScreen
from tui.i18n import _


class ThemeScreen(ChoiceScreen):
    """Choose a theme by looking at it."""

    DEFAULT_CSS = """
    ThemeScreen { background: transparent; align: right middle; & > Vertical { width: 100%; max-width: 46; } }
    """

    def __init__(self, choices: Sequence[Choice], show: Callable[[str], None]) -> None:
        super().__init__(_("Theme"), choices, empty=_("No theme has this name."))
        self._before = choices[0].key
        self._show = show

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Look at it."""
        if event.option_id is not None:
            self._show(event.option_id)

    def action_leave(self) -> None:
        """Have the one from before again."""
        self._show(self._before)
        super().action_leave()
