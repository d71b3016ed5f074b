"""An agent of the project, to be read before it may work. Answers with True for a yes."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.dialogs.choice_dialog import YesNoScreen
from tui.i18n import _


class ReadFirstScreen(YesNoScreen):
    """The whole file, scrollable, and two answers. Texts handed in are clean."""

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

    def __init__(self, title: str, text: str) -> None:
        super().__init__(_("Do not use it"), _("Allow this agent until its file changes"))
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("↑ ↓ choose · Enter answers · PgUp PgDn scroll · Esc cancels")
            text = _("This project defines an agent. Its instructions would direct the model; read them first.")
            yield Static(Content.assemble((text, "$text-warning"), "\n"))
            with VerticalScroll(can_focus=False):
                yield Static(Content(self._text))
            yield from self.answer_rows()

    def scroll_text(self, pages: int) -> None:
        """Scroll the file by pages."""
        text = self.query_one(VerticalScroll)
        text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)
