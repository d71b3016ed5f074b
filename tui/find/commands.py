"""What the reader asks of the panes: find a text, copy the last answer. A mixin of the app's handlers."""

from __future__ import annotations

from textual.scroll_view import ScrollView

from tui.find.find_bar import Findable, FindBar, TallyChanged
from tui.i18n import _
from tui.workspace.frame import Frame


class Reading(Frame):
    """Reading, by the ids of the command table."""

    @property
    def find_bar(self) -> FindBar | None:
        """The line in which is written what to find."""
        return next(iter(self.workspace.query(FindBar)), None)

    async def do_find(self) -> None:
        """Search the pane in focus; from anywhere else, the chat."""
        workspace, bar = self.workspace, self.find_bar
        focused = workspace.focused
        name = focused.id if isinstance(focused, Findable) and focused.id else "chat"
        if bar is not None and (focused is bar.input or bar.view.id == name):
            bar.input.focus()
            return
        if bar is not None:
            await bar.remove()
        if not workspace.pane(name).display:
            workspace.look_at(name)
        pane = workspace.pane(name)
        assert isinstance(pane, ScrollView)
        await workspace.mount(FindBar(pane))

    def leave_find(self) -> bool:
        """Close the search that has the keys, and go on reading where it led. Answers whether there was one."""
        bar = self.find_bar
        if bar is None or self.workspace.focused not in (bar.input, bar.view):
            return False
        bar.view.focus()
        bar.remove()
        return True

    def on_tally_changed(self, message: TallyChanged) -> None:
        """A search went on."""
        bar = self.find_bar
        if bar is not None and bar.is_mounted:
            bar.tell()

    def do_answer_copy(self) -> None:
        """The last thing that the agent said, as it was written."""
        blocks = self.current.chat.blocks if self.current is not None else []
        answer = next((block for block in reversed(blocks) if block.is_answer), None)
        if answer is None:
            self.flash(_("The agent has not answered yet."))
        else:
            self.workspace.chat.copy(answer.text)
