"""One line above the prompt: a command waits for input, and the key with which the user answers it."""

from __future__ import annotations

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui.i18n import _
from tui.shortcuts.command import key_of


class WaitsHint(Static):
    """Says that the command waits; a click is as good as the key."""

    DEFAULT_CSS = """
    WaitsHint {
        display: none; height: 1; padding: 0 1;
        border-left: outer $warning; background: $warning 8%;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    class Chosen(Message):
        """The user wants to answer."""

    def show(self, waits: bool) -> None:
        """Be there or not."""
        if waits is not self.display:
            self.display = waits
            key = key_of("terminal.take")
            told = _("takes control of the terminal while the agent waits")
            title = _("The command is waiting for input.")
            self.update(Content.assemble((title, "bold $text-warning"), "   ", (key, "bold"), f" {told}"))

    def on_click(self) -> None:
        """Answer it."""
        self.post_message(self.Chosen())
