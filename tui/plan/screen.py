"""The plan, to be edited before it is carried out. Answers with its text, None where the user left."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import TextArea

from tui.i18n import _


class PlanScreen(ModalScreen[str | None]):
    """A task a line; what is indented below one are its notes."""

    DEFAULT_CSS = """
    PlanScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: 90%; padding: 0 1; background: $surface; border: round $accent;
            border-title-color: $text-accent; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        TextArea, TextArea:focus { height: 1fr; border: none; background: $surface; padding: 0; }
    }
    """
    BINDINGS = [
        Binding("escape", "leave", "Leave", priority=True),
        Binding("ctrl+s", "carry_out", "Carry out", priority=True),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = _("Plan: one task per line, notes indented below")
            box.border_subtitle = _("ctrl+s approves · Esc cancels")
            yield TextArea(self._text, show_line_numbers=False)

    def on_mount(self) -> None:
        """An idle screen paints nothing."""
        area = self.query_one(TextArea)
        area.cursor_blink = False
        area.focus()

    def action_carry_out(self) -> None:
        """Answer with the text."""
        self.dismiss(self.query_one(TextArea).text)

    def action_leave(self) -> None:
        """Answer with nothing."""
        self.dismiss(None)
