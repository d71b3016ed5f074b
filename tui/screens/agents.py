"""An agent of the project, to be read before it may work. Answers with True for a yes."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.i18n import _
from tui.model.question_list import Does, QuestionList, Row
from tui.screens.guarded import SENDS, GuardedScreen
from tui.widgets.question import AnswerRow


class ReadFirstScreen(GuardedScreen[bool]):
    """The whole file, scrollable, and two answers. Texts handed in are clean."""

    DEFAULT_CSS = """
    ReadFirstScreen {
        align: center middle; background: $background 60%;
        & > Vertical {
            width: 90%; max-width: 110; height: 90%; padding: 0 1; background: $surface; border: round $warning;
            border-title-color: $text-warning; border-title-style: bold; border-subtitle-color: $text-muted;
        }
        VerticalScroll { height: 1fr; background: $surface; scrollbar-size-vertical: 1; }
        AnswerRow { height: auto; }
        AnswerRow.-at { text-style: bold; background: $warning 25%; }
    }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text
        rows = (Row(Does.DENY, _("Do not use it")), Row(Does.ALLOW, _("Let it work, as long as it stays as it is")))
        self._answers = QuestionList(rows)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = _("↑ ↓ choose · Enter answers · PgUp PgDn scroll · Esc cancels")
            told = _("This project brings an agent. It would direct the model with these words; read them first.")
            yield Static(Content.assemble((told, "$text-warning"), "\n"))
            with VerticalScroll(can_focus=False):
                yield Static(Content(self._text))
            for at, row in enumerate(self._answers.rows):
                yield AnswerRow(at, row)

    def on_mount(self) -> None:
        """Show the highlight."""
        self._highlight(self._answers)

    def _highlight(self, answers: QuestionList) -> None:
        self._answers = answers
        for at, row in enumerate(self.query(AnswerRow)):
            row.show(highlighted=at == answers.at)

    def on_key(self, event: events.Key) -> None:
        """Scroll, move the highlight, take the highlighted answer, or leave."""
        event.stop()
        text = self.query_one(VerticalScroll)
        if event.key == "escape":
            self.dismiss(False)
        elif not self.is_taken(event):
            pass
        elif event.key == SENDS:
            self.dismiss(self._answers.row.does is Does.ALLOW)
        elif event.key in ("pageup", "pagedown"):
            pages = 1 if event.key == "pagedown" else -1
            text.scroll_relative(y=pages * max(1, text.size.height - 1), animate=False)
        elif (moved := self._answers.moved(event.key)) is not None:
            self._highlight(moved)

    def on_answer_row_clicked(self, message: AnswerRow.Clicked) -> None:
        """Highlight the answer."""
        self._highlight(self._answers.highlighting(message.at))
