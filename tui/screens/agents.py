"""An agent of the project, to be read before it may work. Answers with True for a yes."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.i18n import _


class ReadFirstScreen(ModalScreen[bool]):
    """The whole file, scrollable, and a yes or no. Texts handed in are clean."""

    DEFAULT_CSS = """
    ReadFirstScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: 90%; padding: 0 1; background: $surface; border: round $warning;
            border-title-color: $text-warning; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        VerticalScroll { height: 1fr; background: $surface; scrollbar-size-vertical: 1; }
    }
    """
    BINDINGS = [Binding("y", "answer(True)", "Yes"), Binding("n,escape", "answer(False)", "No")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("y lets it work, as long as it stays like this · n does not · ↑ ↓ scroll")
            told = _("This project brings an agent. It would direct the model with these words; read them first.")
            yield Static(Content.assemble((told, "$text-warning"), "\n"))
            with VerticalScroll():
                yield Static(Content(self._text))

    def on_mount(self) -> None:
        """The text is read by keys."""
        self.query_one(VerticalScroll).focus()

    def action_answer(self, answer: bool) -> None:
        """Answer."""
        self.dismiss(answer)
