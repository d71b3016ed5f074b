"""Two conversations side by side. A mixin of the app.

The one in focus is the app's current tab, and owns prompt, panes and footer; of the other only the chat is shown. Which
tab stands where is the workspace's to know; this only says what the user asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.commands import keyed
from tui.i18n import _
from tui.workspace.frame import Frame
from tui.workspace.layout import SPLIT

if TYPE_CHECKING:
    from tui.workspace.tab import Tab


class Split(Frame):
    """The commands for two conversations, as methods of the app."""

    _before: Tab | None = None
    """The tab that was shown before the current one."""

    def do_conv_split(self) -> None:
        tab = self.current
        if self.workspace.beside is not None:
            self.workspace.end_split()
        elif tab is None or len(self.open_tabs) < 2:
            self.flash(keyed(_("There is no other conversation to show beside this one; {conv.new} begins one.")))
        elif self.size.width < SPLIT:
            told = _("Two conversations side by side need {needed} columns; here are {width}.")
            self.flash(told.format(needed=SPLIT, width=self.size.width))
        else:
            index = self.open_tabs.index(tab)
            next_one = self.open_tabs[(index + 1) % len(self.open_tabs)]
            self.workspace.split(self._before if self._before in self.open_tabs else next_one)
        if tab is not None:
            self.wake(tab)

    def do_conv_other(self) -> None:
        if self.workspace.beside is None:
            self.flash(keyed(_("There is one conversation here; {conv.split} shows another beside it.")))
        else:
            self.show_tab(self.workspace.beside)

    def leave_split(self, tab: Tab) -> Tab | None:
        """Show one conversation where this tab is one of two that are shown. Answers with the one beside it."""
        beside = self.workspace.beside
        if beside is None or tab not in (beside, self.current):
            return None
        self.workspace.end_split()
        return None if tab is beside else beside

    def on_chats_other_chosen(self) -> None:
        """The other side was clicked."""
        if self.workspace.beside is not None:
            self.show_tab(self.workspace.beside)
