"""The cards above the prompt: queued messages, and problems."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tui.i18n import _
from tui.shortcuts.command import key_of


class Queue(Static):
    """The queued messages, in order."""

    DEFAULT_CSS = """
    Queue {
        display: none; height: auto; max-height: 4; padding: 0 1;
        border-left: outer $secondary; background: $secondary 8%; color: $text-muted;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._texts: list[str] = []

    def show(self, texts: list[str]) -> None:
        """Show clean texts, a line each; none takes it away."""
        if texts == self._texts:
            return
        self._texts = texts
        self.display = bool(texts)
        parts: list[tuple[str, str]] = []
        for text in texts:
            queued = "\n" * bool(parts) + _("queued:") + " "
            parts += [(queued, "bold $text-secondary"), (text, "$foreground")]
        remedy = _("{key} takes it back").format(key=key_of("queue.drop"))
        self.update(Content.assemble(*parts, (f"   {remedy}", "$text-muted")))


class Notice(Static):
    """One clear message about what went wrong and what to do next. Esc takes it away."""

    DEFAULT_CSS = """
    Notice {
        display: none; height: auto; max-height: 8; padding: 0 1;
        border-left: outer $error; background: $error 8%; color: $foreground;
    }
    """

    def show(self, text: str) -> None:
        """Show a clean text."""
        self.update(Content(text))
        self.display = True

    def clear(self) -> None:
        """Take it away."""
        self.display = False
