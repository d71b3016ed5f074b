"""A dialog that asks for one line of text. Answers with it, None where the user left. Texts handed in are clean."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.dialogs.input_field import Field
from tui.i18n import _


class LineScreen(ModalScreen[str | None]):
    """One line, which may be given to begin with."""

    DEFAULT_CSS = """
    LineScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 64; height: auto; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        Input, Input:focus { height: 1; border: none; background: $panel; padding: 0 1; }
    }
    """
    BINDINGS = [Binding("escape", "leave", "Leave")]

    def __init__(self, title: str, placeholder: str, text: str = "", *, hidden: bool = False) -> None:
        """`hidden` shows dots in the place of what is typed."""
        super().__init__()
        self._hidden = hidden
        self._title, self._placeholder, self._text = title, placeholder, text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("Enter takes it · Esc leaves")
            yield Field(self._text, placeholder=self._placeholder, password=self._hidden, compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with the line."""
        event.stop()
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Answer with nothing."""
        self.dismiss(None)
