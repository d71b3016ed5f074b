"""One line of text: the field that every screen uses, and a dialog that asks for it. Texts handed in are clean."""

from __future__ import annotations

from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.i18n import _


class Field(Input):
    """Textual's Input without a blinking cursor, so that an idle screen paints nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cursor_blink = False


class LineScreen(ModalScreen[str | None]):
    """Asks for one line. Returns it, or None if the user cancels."""

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
    BINDINGS = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, title: str, placeholder: str, text: str = "", *, hidden: bool = False) -> None:
        """`hidden` shows dots instead of the text."""
        super().__init__()
        self._title, self._placeholder, self._text, self._hidden = title, placeholder, text, hidden

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("Enter takes it · Esc leaves")
            yield Field(self._text, placeholder=self._placeholder, password=self._hidden, compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)
