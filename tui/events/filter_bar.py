"""The input at the foot of the event log for a filter, and a line below with completions or the error.

Tab completes, Enter applies, Esc closes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from tui.dialogs.dialog import Field
from tui.events.event_filter import FIELDS, FLAGS, SOURCES, Filter, FilterError, parse
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line

_LAST_WORD = re.compile(r"[^\s()]*\Z")
_VALUES = re.compile(r"-?(type|kind|source)(?:!=|[=:])(?:.*,)?")
"""A field whose values are known, up to the value that is being typed."""
MAX_OPTIONS = 40


class Completion(NamedTuple):
    """How a line may go on."""

    start: int
    """Where the text that is replaced begins."""
    options: tuple[str, ...]

    def applied(self, line: str) -> str:
        return line[: self.start] + self.options[0] if self.options else line


def complete(line: str, kinds: Sequence[str]) -> Completion:
    """Complete a line at its end; `kinds` are the kinds of events that there are. Offers nothing inside quotes."""
    if line.replace('\\"', "").count('"') % 2:
        return Completion(len(line), ())
    word_match = _LAST_WORD.search(line)
    word = word_match[0] if word_match else ""
    start = len(line) - len(word)
    if (field := _VALUES.match(word)) is not None:
        values = SOURCES if field[1] == "source" else kinds
        return _completion(start + field.end(), word[field.end() :], values)
    bare = word.removeprefix("-")
    if re.search(r"[!=<>:~\"]", bare):
        return Completion(len(line), ())
    words = [*(field.typed for field in FIELDS.values()), *FLAGS, *(["or"] if line[:start].strip() else []), "not"]
    return _completion(len(line) - len(bare), bare, words)


def _completion(start: int, typed: str, options: Sequence[str]) -> Completion:
    fitting = [option for option in options if option.startswith(typed.lower()) and option != typed]
    return Completion(start, tuple(dict.fromkeys(fitting))[:MAX_OPTIONS])


class FilterBar(Vertical):
    """The input and the line below it."""

    DEFAULT_CSS = """
    FilterBar {
        display: none; height: 2; background: $panel; padding: 0 0 0 1;
        & > Input { height: 1; border: none; padding: 0; background: $panel; }
        & > Input:focus { border: none; }
        & > Static { height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    BINDINGS = [
        Binding("tab", "complete", "Complete", show=False, priority=True),
        Binding("up", "earlier(1)", "Earlier filter", show=False, priority=True),
        Binding("down", "earlier(-1)", "Later filter", show=False, priority=True),
    ]
    PLACEHOLDER = 'type:run exit!=0 text~"no such file"'

    class Applied(Message):
        """The user applied a filter; None shows every event again."""

        def __init__(self, filter: Filter | None) -> None:
            super().__init__()
            self.filter = filter

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.kinds: Sequence[str] = ()
        self._typed: list[str] = []
        """The filters that were applied, the latest last."""
        self._back = 0

    def compose(self) -> ComposeResult:
        yield Field(placeholder=self.PLACEHOLDER, compact=True)
        yield Static(markup=False)

    @property
    def _input(self) -> Input:
        return self.query_one(Input)

    @property
    def is_open(self) -> bool:
        return bool(self.display) and self._input.has_focus

    def open(self, text: str, kinds: Sequence[str]) -> None:
        self.kinds, self._back = kinds, 0
        self.display = True
        self._input.value = text
        self._input.cursor_position = len(text)
        self.screen.set_focus(self._input)  # at once: the next key may be typed already
        self._help()

    def close(self) -> None:
        self.display = False

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._help()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the filter, or show what is wrong with it."""
        event.stop()
        line = event.value.strip()
        try:
            wanted = parse(line) if line else None
        except FilterError as error:
            self._input.cursor_position = min(error.column, len(event.value))
            self._show_error(error)
            return
        if wanted is not None and line not in self._typed[-1:]:
            self._typed.append(line)
        self.post_message(self.Applied(wanted))

    def action_complete(self) -> None:
        line = self._input.value
        completion = complete(line, self.kinds)
        if completion.options:
            self._input.value = completion.applied(line)
            self._input.cursor_position = len(self._input.value)

    def action_earlier(self, step: int) -> None:
        """Go through the filters that were applied before."""
        back = min(max(0, self._back + step), len(self._typed))
        if back != self._back:
            self._back = back
            self._input.value = self._typed[-back] if back else ""
            self._input.cursor_position = len(self._input.value)

    def _help(self) -> None:
        line = self._input.value
        options, ready = complete(line, self.kinds).options, f"{_('Enter applies the filter')}  "
        try:
            parse(line)
        except FilterError as error:
            if not options:
                self._show_error(error)
                return
            ready = ""
        self._show_options(ready, options)

    def _show_options(self, ready: str, options: Sequence[str]) -> None:
        names = [sanitize_line(option, 40) for option in options]
        if len(options) == 1 and (field := FIELDS.get(options[0].rstrip(":~=!<>"))) is not None:
            names.append(f"({field.meaning})")
        parts: list[str | tuple[str, str]] = [ready]
        if names:
            parts += [("Tab ", "bold $text-accent"), (names[0], "bold $foreground"), "  ", "  ".join(names[1:])]
        self.query_one(Static).update(Content.assemble(*parts))

    def _show_error(self, error: FilterError) -> None:
        text = sanitize_line(_("Column {column}: {error}").format(column=error.column + 1, error=error), 200)
        self.query_one(Static).update(Content.styled(text, "$text-error"))
