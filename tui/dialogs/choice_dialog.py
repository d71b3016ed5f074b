"""Guarded dialogs with a list of answers. The harmless answer comes first and is highlighted at the start.

A dialog whose answers are highlighted and taken with Enter, and which takes no key in its first moments.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from textual import events
from textual.screen import ModalScreen, ScreenResultType

from tui.dialogs.key_guard import KeyGuard

if TYPE_CHECKING:
    from tui.app import HandloomApp

from collections.abc import Iterable, Sequence

from tui.approval.answer_list import Does, QuestionList, Row
from tui.approval.view import AnswerRow

SENDS = "enter"


class GuardedScreen(ModalScreen[ScreenResultType]):
    """A dialog with a guard. Subclasses ask `is_taken` once for each key, and answer with no key that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.guard = KeyGuard()

    @property
    def _frame(self) -> HandloomApp:
        return cast("HandloomApp", self.app)

    def on_screen_resume(self) -> None:
        """Start the guard when the dialog has been drawn."""
        self.guard.guard_s = self._frame.options.screen.question_guard_ms / 1000
        self.guard.last = self._frame.last_key
        self.call_after_refresh(lambda: self.guard.restart(self._frame.clock()))

    def is_taken(self, event: events.Key) -> bool:
        """Whether a key can be an answer."""
        return self.guard.takes(event.key, self._frame.clock() - max(0.0, time.monotonic() - event.time))


class AnswersScreen(GuardedScreen[ScreenResultType]):
    """Answers with `result` of the row that is taken, with the one of the first row for Esc.

    Subclasses compose the text and `answer_rows`.
    """

    DEFAULT_CSS = """
    AnswersScreen {
        AnswerRow { height: auto; }
        AnswerRow.-at { text-style: bold; background: $warning 25%; }
    }
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._answers = QuestionList(tuple(rows))

    def result(self, row: Row) -> ScreenResultType:
        """What a row answers with."""
        raise NotImplementedError

    def answer_rows(self) -> Iterable[AnswerRow]:
        """The widgets of the answers."""
        return (AnswerRow(at, row) for at, row in enumerate(self._answers.rows))

    def on_mount(self) -> None:
        """Show the highlight."""
        self._highlight(self._answers)

    def on_resize(self) -> None:
        """Keep the highlight in sight."""
        self._highlight(self._answers)

    def _highlight(self, answers: QuestionList) -> None:
        self._answers = answers
        for at, row in enumerate(self.query(AnswerRow)):
            row.show(highlighted=at == answers.at)
            if at == answers.at:
                self.call_after_refresh(row.scroll_visible, animate=False)

    def on_key(self, event: events.Key) -> None:
        """Move the highlight, take the highlighted answer, leave, or scroll."""
        event.stop()
        if event.key == "escape":
            self.dismiss(self.result(self._answers.rows[0]))
        elif not self.is_taken(event):
            pass
        elif event.key == SENDS:
            self.dismiss(self.result(self._answers.row))
        elif event.key in ("pageup", "pagedown"):
            self.scroll_text(1 if event.key == "pagedown" else -1)
        elif (moved := self._answers.moved(event.key)) is not None:
            self._highlight(moved)

    def scroll_text(self, pages: int) -> None:
        """Scroll the text by pages, where a subclass has a long one."""

    def on_answer_row_clicked(self, message: AnswerRow.Clicked) -> None:
        """Highlight the answer."""
        self._highlight(self._answers.highlighting(message.at))


class YesNoScreen(AnswersScreen[bool]):
    """Two answers: False for the first, True for the second."""

    def __init__(self, no: str, yes: str) -> None:
        super().__init__((Row(Does.DENY, no), Row(Does.ALLOW, yes)))

    def result(self, row: Row) -> bool:
        """Whether the second answer was taken."""
        return row.does is Does.ALLOW
