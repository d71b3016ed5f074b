"""A guarded dialog with two answers. The harmless one comes first and is highlighted at the start."""

from __future__ import annotations

from collections.abc import Iterable

from textual import events

from tui.model.question_list import Does, QuestionList, Row
from tui.screens.guarded import SENDS, GuardedScreen
from tui.widgets.question import AnswerRow


class YesNoScreen(GuardedScreen[bool]):
    """Answers with True only for the second answer. Subclasses compose the text and `answer_rows`."""

    DEFAULT_CSS = """
    YesNoScreen {
        AnswerRow { height: auto; }
        AnswerRow.-at { text-style: bold; background: $warning 25%; }
    }
    """

    def __init__(self, no: str, yes: str) -> None:
        super().__init__()
        self._answers = QuestionList((Row(Does.DENY, no), Row(Does.ALLOW, yes)))

    def answer_rows(self) -> Iterable[AnswerRow]:
        """The widgets of the two answers."""
        return (AnswerRow(at, row) for at, row in enumerate(self._answers.rows))

    def on_mount(self) -> None:
        """Show the highlight."""
        self._highlight(self._answers)

    def _highlight(self, answers: QuestionList) -> None:
        self._answers = answers
        for at, row in enumerate(self.query(AnswerRow)):
            row.show(highlighted=at == answers.at)

    def on_key(self, event: events.Key) -> None:
        """Move the highlight, take the highlighted answer, leave, or scroll."""
        event.stop()
        if event.key == "escape":
            self.dismiss(False)
        elif not self.is_taken(event):
            pass
        elif event.key == SENDS:
            self.dismiss(self._answers.row.does is Does.ALLOW)
        elif event.key in ("pageup", "pagedown"):
            self.scroll_text(1 if event.key == "pagedown" else -1)
        elif (moved := self._answers.moved(event.key)) is not None:
            self._highlight(moved)

    def scroll_text(self, pages: int) -> None:
        """Scroll the text by pages, where a subclass has a long one."""

    def on_answer_row_clicked(self, message: AnswerRow.Clicked) -> None:
        """Highlight the answer."""
        self._highlight(self._answers.highlighting(message.at))
