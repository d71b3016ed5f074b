"""The question above the prompt, with its list of answers.

The prompt keeps the focus, so that letters always go there, and passes the keys that belong to a question
(`takes_key`). Arrows and digits move the highlight while the prompt is empty; Enter on the empty prompt chooses the
highlighted row, which `tui.approval.approvals` carries out. Keys of the first moments are ignored
(`tui.dialogs.choice_dialog`). This module stores and answers nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui.approval.answers import Asked
from tui.dialogs.answer_list import DIGITS, MOVES, AnswerRow, QuestionList, Row
from tui.dialogs.choice_dialog import GUARD_S, KeyGuard, LastKey
from tui.i18n import _
from tui.shortcuts.command import keyed

if TYPE_CHECKING:
    from rich.style import Style

    from tui.chat.view import Where

WHY_LINES = 4
"""Longer reasons are shown in the body, which scrolls, so that the answers stay visible."""
LONG_LINES = 3
"""Bodies that are longer say how long they are."""
LONG_CHARACTERS = 400
TEXT_WITHIN_S = 1.0
"""A character that follows digits within this time makes them text, such as "2 files"."""
TOO_EARLY = _("The question has just appeared, so the key was ignored. Read it, then press the key again.")
BLANK = _("The prompt contained only spaces, which were removed. Press Enter again to choose the highlighted answer.")
Styles = Callable[[], Mapping[str, "Style"]]


class DiffBody(Static):
    """A diff, drawn as in the chat."""

    def __init__(self, head: str, lines: Sequence[str], path: str, styles: Styles) -> None:
        super().__init__()
        self._head, self._lines, self._path, self._styles = head, lines, path, styles

    def on_resize(self, event: events.Resize) -> None:
        """Draw it for the new width."""
        from tui.chat.diff_view import DiffLines
        from tui.chat.diffs import pieces
        from tui.chat.event_text import language_of  # with the first question, not with the first frame

        styles = self._styles()
        if not styles:
            return
        draw = DiffLines(styles, event.size.width, split=False)
        text = Text(self._head, end="", no_wrap=False)
        for piece in pieces(self._lines, language_of(self._path), split=False):
            for line in draw.lines(piece):
                text.append("\n")
                text.append_text(_joined(line))
        self.update(text)


def _joined(line: Sequence[Segment]) -> Text:
    return Text.assemble(*((segment.text, segment.style or "") for segment in line), end="")


class QuestionView(Vertical):
    """One question with its list of answers."""

    DEFAULT_CSS = """
    QuestionView {
        height: auto; padding: 0 1;
        border-left: outer $warning; background: $warning 8%;
        & > .question--title { height: auto; text-style: bold; color: $text-warning; }
        & > .question--body { height: auto; max-height: 25vh; background: $surface; scrollbar-size-vertical: 1; }
        & > .question--why, & > .question--note { height: auto; color: $text-muted; }
        & > .question--note.-warning { color: $text-error; }
        & > .question--message { height: auto; color: $text-accent; text-style: bold; }
        & > .question--rows { height: auto; max-height: 30vh; scrollbar-size-vertical: 1; }
        & > .question--typed { height: auto; color: $text-muted; }
        & > .-empty { display: none; }
        & .question--whole, & .question--reasons { display: none; color: $text-muted; }
        &.-reads-on > .question--why { max-height: 4; }
        &.-reads-on .question--reasons { display: block; }
        &.-typing > .question--typed { color: $text-accent; text-style: bold; }
        &.-denies { border-left: outer $error; background: $error 8%; }
        &.-denies > .question--title { color: $text-error; }
        AnswerRow { height: auto; }
        AnswerRow.-at { text-style: bold; background: $warning 25%; }
        &.-typing AnswerRow { color: $text-muted; }
        &.-typing AnswerRow.-at { text-style: none; background: transparent; }
    }
    """

    class Taken(Message):
        """Enter was pressed on a highlighted row."""

        def __init__(self, view: QuestionView, row: Row) -> None:
            super().__init__()
            self.view, self.row = view, row

    def __init__(
        self,
        asked: Asked,
        answers: QuestionList,
        *,
        clock: Callable[[], float] = time.monotonic,
        guard_s: float = GUARD_S,
        styles: Styles = dict,
    ) -> None:
        """`styles` returns the styles of the chat, for diffs."""
        super().__init__()
        self.asked, self.answers = asked, answers
        self.pattern = asked.question.pattern if asked.question is not None else ""
        """The pattern that rows store."""
        self.is_answered = False
        """Whether an answer is being carried out; then keys are ignored."""
        self.guard = KeyGuard(guard_s)
        self._clock, self._styles = clock, styles
        self._rows: list[AnswerRow] = []
        self._digits, self._digit_at = "", float("-inf")
        """The last digits, which may be the beginning of a text, and the time of the last one."""
        self._before_digits = answers
        self._message = self._hidden = ""
        self._is_built = False
        """Whether the widgets exist. Keys can arrive earlier."""

    def compose(self) -> ComposeResult:
        yield Static(classes="question--title")
        yield VerticalScroll(classes="question--body", can_focus=False)
        yield Static(classes="question--why")
        yield VerticalScroll(classes="question--rows", can_focus=False)
        yield Static(classes="question--note")
        yield Static(classes="question--typed")
        yield Static(classes="question--message")

    def on_mount(self) -> None:
        """Show everything, and start the guard after the first drawing."""
        self._is_built = True
        self._show_asked()
        self._show_rows()
        self.say(self._message)
        body = self.query_one(".question--body", VerticalScroll)
        for changed in ("scroll_y", "virtual_size", "show_vertical_scrollbar"):
            self.watch(body, changed, self._say_what_is_hidden, init=False)
        self.call_after_refresh(self._fit_why)  # the size may have come before this, and no other follows
        self.call_after_refresh(self.restart_guard)

    def restart_guard(self) -> None:
        """Ignore keys for a moment, because something new is shown."""
        self.guard.restart(self._clock())

    def note_key(self, last: LastKey) -> None:
        """Set the last key before the question appeared."""
        self.guard.last = last

    # -- what is shown ---------------------------------------------------------------------------------------------

    def change(self, answers: QuestionList, asked: Asked | None = None) -> None:
        """Show another list of answers, and other texts if given."""
        self.answers, self._digits = answers, ""
        if asked is not None:
            self.asked = asked
        if not self._is_built:
            return
        if asked is not None:
            self._show_asked()
        self._show_rows()
        self.say("")
        self.restart_guard()

    def _show_asked(self) -> None:
        asked = self.asked
        self._line("title", asked.title)
        self._fit_why()
        body = self.query_one(".question--body", VerticalScroll)
        if body.children:  # the action is the same, only the rule has changed
            body.query_one(".question--whole", Static).update(Content(asked.why))
            body.query_one(".question--reasons", Static).update(Content(asked.reasons))
            return
        question = asked.question
        if question is not None and question.diff:
            head = asked.body.partition("\n")[0]
            body.mount(DiffBody(head, question.diff, question.path, self._styles))
        else:
            body.mount(Static(Content(asked.body)))
        body.mount(Static(Content(asked.why), classes="question--whole"))
        body.mount(Static(Content(asked.reasons), classes="question--reasons"))

    def _show_rows(self) -> None:
        rows = self.query_one(".question--rows", VerticalScroll)
        for old in rows.children:
            old.display = False  # removal comes later, and until then they would push the new ones out of sight
        rows.remove_children()
        self._rows = [AnswerRow(at, row) for at, row in enumerate(self.answers.rows)]
        rows.mount(*self._rows)
        rows.scroll_home(animate=False, immediate=True)
        above = self.answers.above is not None
        note = [self.asked.note] if self.asked.is_warning or not above else []
        note += [keyed(_("{app.back} goes back."))] if above else []
        self._line("note", "\n".join(note))
        self.query_one(".question--note").set_class(self.asked.is_warning, "-warning")
        self._show_typed()
        self.set_class(any(row.denies for row in self.answers.rows) and above, "-denies")
        self._show_highlight()

    def _show_highlight(self) -> None:
        for at, row in enumerate(self._rows):
            row.show(highlighted=at == self.answers.at, marked=not self.has_class("-typing"))
        self._keep_in_sight()

    def _keep_in_sight(self) -> None:
        """Scroll to the highlighted row, once what has changed is laid out."""
        self.call_after_refresh(self._rows[self.answers.at].come_into_sight)

    def on_resize(self) -> None:
        """Keep the highlighted row in sight."""
        if self._is_built:
            self._fit_why()
            self._keep_in_sight()
            self.call_after_refresh(self._say_what_is_hidden)

    def _fit_why(self) -> None:
        """Move long reasons into the body. Before the first layout there is no width, and nothing is known."""
        if not self.query(".question--why"):
            return  # it was removed before the refresh that this waited for
        if width := self.content_size.width:
            self.set_class(Content(self.asked.why).get_height({}, width) > WHY_LINES, "-reads-on")
        self._line("why", self.asked.short_why if self.has_class("-reads-on") else self.asked.why)

    def _say_what_is_hidden(self) -> None:
        """Say how many lines are below what is shown, where the line with the length is not."""
        if not self.query(".question--why"):
            return  # it was removed
        body, why = self.query_one(".question--body", VerticalScroll), self.query_one(".question--why")
        is_said = not body.show_vertical_scrollbar or (self.asked.length and why.display)
        left = 0 if is_said else round(body.max_scroll_y - body.scroll_y)
        text = keyed(_("Lines not shown: {n} ({prompt.page_down})."), n=left) if left > 0 else ""
        if text != self._hidden:
            self._hidden = text
            self.set_class(bool(text), "-hides")
            self._show_typed()

    def _show_typed(self) -> None:
        self._line("typed", " ".join(filter(None, (self._hidden, self.answers.typed))))

    def _line(self, name: str, text: str) -> None:
        line = self.query_one(f".question--{name}", Static)
        line.update(Content(text))
        line.set_class(not text, "-empty")

    def say(self, text: str) -> None:
        """Show a message next to the list; an empty text removes it."""
        self._message = text
        if not self._is_built:
            return
        self._line("message", text)
        self.set_class(bool(text), "-message")
        self._keep_in_sight()

    def say_blank(self) -> None:
        """Explain that Enter has only emptied the prompt."""
        self.restart_guard()
        self.say(BLANK)

    def show_typing(self, *, is_typing: bool) -> None:
        """Show whether Enter would send the text in the prompt."""
        if is_typing is not self.has_class("-typing"):
            self.set_class(is_typing, "-typing")
            if self._is_built:
                self._show_highlight()

    # -- keys ------------------------------------------------------------------------------------------------------

    def takes_key(self, event: events.Key, text: str, *, sends: bool) -> bool:
        """Handle a key of the prompt. Returns whether it belongs to the question. `sends` is true for Enter.

        Call it once for each key. With text in the prompt, only an Enter of the first moments belongs to the question:
        it is ignored, and the text stays. A digit of the first moments is not written into an empty prompt, because
        the next Enter would then deny.
        """
        if self.is_answered:  # a late digit is not text
            return not text and event.key in MOVES
        at = self._clock() - max(0.0, time.monotonic() - event.time)  # when it was pressed, however late it came
        is_taken = self.guard.takes(event.key, at) and self._is_built
        self._note_digit(event, at, text)
        if sends:
            if not is_taken:
                self.say(TOO_EARLY)
                return True
            if not text:
                self.say("")
                self.post_message(self.Taken(self, self.answers.row))
            return not text
        if text or event.key not in MOVES:
            return False
        if not is_taken:
            self.say(TOO_EARLY)
            return True
        moved = self.answers.moved(event.key)
        if moved is None:  # no row has this number, so it is text
            self._digits = self._digits[:-1]
            return False
        self.answers = moved
        self.say("")
        self._show_highlight()
        return True

    def _note_digit(self, event: events.Key, at: float, text: str) -> None:
        is_late = at - self._digit_at > TEXT_WITHIN_S
        if event.key in DIGITS and not text:
            if is_late or not self._digits:
                self._digits, self._before_digits = "", self.answers
            self._digits, self._digit_at = self._digits + event.key, at
        elif is_late or not event.is_printable:
            self._digits = ""

    def digits_of_text(self) -> str:
        """The digits that begin the text which a key continues; resets the highlight.

        Call it after `takes_key` for a key that does not belong to the question.
        """
        digits, self._digits = self._digits, ""
        if digits and self.answers is not self._before_digits:
            self.answers = self._before_digits
            self._show_highlight()
        return digits

    def step_back(self) -> bool:
        """Return to the previous list. Returns whether there was one."""
        if self.answers.above is None:
            return False
        self.change(self.answers.above)
        return True

    def on_answer_row_clicked(self, message: AnswerRow.Clicked) -> None:
        """Highlight the row."""
        message.stop()
        if not self.is_answered and message.at < len(self.answers.rows):
            self.answers = self.answers.highlighting(message.at)
            self._show_highlight()

    # -- reading ---------------------------------------------------------------------------------------------------

    def scroll_body(self, where: Where) -> bool:
        """Scroll the body. Returns whether it can be scrolled."""
        if not self._is_built:
            return False
        body = self.query_one(".question--body", VerticalScroll)
        if body.max_scroll_y <= 0:
            return False
        match where:
            case "line_up" | "line_down":
                body.scroll_relative(y=1 if where == "line_down" else -1, animate=False)
            case "page_up":
                body.scroll_page_up(animate=False)
            case "page_down":
                body.scroll_page_down(animate=False)
            case "home":
                body.scroll_home(animate=False)
            case "end":
                body.scroll_end(animate=False)
        return True
