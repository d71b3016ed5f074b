"""Dialogs with a list of answers. The harmless answer comes first and is highlighted at first.

They take no key in their first moments, because it may have been meant for something else.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.screen import ScreenResultType

from tui.dialogs.answer_list import DIGITS, AnswerRow, Effect, QuestionList, Row
from tui.dialogs.modal import Modal

if TYPE_CHECKING:
    from tui.app import HandloomApp

GUARD_S = 0.4
"""Longer than the time between two keys of a person who types, shorter than it takes to read a question. The setting
`screen.question_guard_ms` changes it."""
HELD_GUARDS = 2
"""A repeated key counts as held down for this many guards: 0.8 s, where X11 repeats a key for the first time after
0.66 s and others sooner."""


@dataclass(frozen=True, slots=True)
class LastKey:
    """The key that was pressed last, and when, in seconds of any clock."""

    key: str = ""
    at: float = float("-inf")


@dataclass(slots=True)
class KeyGuard:
    """Decides which keys a question takes."""

    guard_s: float = GUARD_S
    """How long it takes no key; 0 takes every one."""
    appeared_at: float = float("inf")
    """When the question was drawn; until then it takes nothing."""
    last: LastKey = LastKey()
    was_taken: bool = False
    """Whether the last key was an answer."""

    def restart(self, at: float) -> None:
        """Start again because the user sees something new: the keys that were pressed so far are no answer to it."""
        self.appeared_at, self.was_taken = at, False

    def takes(self, key: str, at: float) -> bool:
        """Whether a key that is pressed at this moment can be an answer. Call it once for each key."""
        is_early = at - self.appeared_at < self.guard_s
        is_repeat = key == self.last.key and at - self.last.at < self.guard_s * HELD_GUARDS
        self.was_taken = self.guard_s == 0 or (not is_early and (self.was_taken or not is_repeat))
        self.last = LastKey(key, at)
        return self.was_taken


SENDS = "enter"
TEXT_WITHIN_S = 1.0
"""A key that follows a letter sooner belongs to a text: the user believes to be typing into the prompt."""
HARMLESS = frozenset({"escape", "pageup", "pagedown", "ctrl+c", "ctrl+q"})
"""Keys that a dialog always gets: they leave, scroll, or ask another question."""


class GuardedScreen(Modal[ScreenResultType]):
    """A dialog with a key guard. Subclasses call `is_taken` once for each key, and ignore a key that is not taken.

    Those that act through bindings set `guards_bindings`; then the app asks before it gives them a key.
    """

    guards_bindings: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.guard = KeyGuard()
        self._typed_at = float("-inf")
        """When the last letter without a meaning here was pressed."""

    @property
    def _handloom(self) -> HandloomApp:
        return cast("HandloomApp", self.app)

    def on_screen_resume(self) -> None:
        """Start the guard when the dialog has been drawn."""
        self.guard.guard_s = self._handloom.options.screen.question_guard_ms / 1000
        self.guard.last = self._handloom.last_key
        self.call_after_refresh(lambda: self.guard.restart(self._handloom.clock()))

    @property
    def ignores_letters(self) -> bool:
        """Whether letters mean nothing here, so that a user who types them means the prompt."""
        return not self.guards_bindings

    def is_taken(self, event: events.Key) -> bool:
        """Whether a key can be an answer. Call it once for each key."""
        at = self._handloom.clock() - max(0.0, time.monotonic() - event.time)
        is_taken = self.guard.takes(event.key, at)
        if event.is_printable and event.key not in DIGITS and self.ignores_letters:
            self._typed_at = at
        return is_taken and (not self.guard.guard_s or at - self._typed_at > TEXT_WITHIN_S)

    def accepts(self, event: events.Key) -> bool:
        """Whether the app may give this key to the dialog and its bindings. Call it once for each key."""
        return not self.guards_bindings or event.key in HARMLESS or self.is_taken(event)


class AnswersScreen(GuardedScreen[ScreenResultType]):
    """Returns `result` of the chosen row; for Esc, that of the first row.

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
        raise NotImplementedError

    def answer_rows(self) -> Iterable[AnswerRow]:
        return (AnswerRow(at, row) for at, row in enumerate(self._answers.rows))

    def on_mount(self) -> None:
        self._highlight(self._answers)

    def on_resize(self) -> None:
        self._highlight(self._answers)  # keeps it visible

    def _highlight(self, answers: QuestionList) -> None:
        self._answers = answers
        for at, row in enumerate(self.query(AnswerRow)):
            row.show(highlighted=at == answers.at)
            if at == answers.at:
                self.call_after_refresh(row.scroll_visible, animate=False)

    def on_key(self, event: events.Key) -> None:
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
        """Scroll by pages, for subclasses with a long text."""

    def on_answer_row_clicked(self, message: AnswerRow.Clicked) -> None:
        self._highlight(self._answers.highlighting(message.at))


class YesNoScreen(AnswersScreen[bool]):
    """Two answers: False for the first, True for the second."""

    def __init__(self, no: str, yes: str) -> None:
        super().__init__((Row(Effect.DENY, no), Row(Effect.ALLOW, yes)))

    def result(self, row: Row) -> bool:
        return row.effect is Effect.ALLOW
