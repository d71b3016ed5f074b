"""The line at the foot of the event log in which a filter is typed, and the one below that helps.

Tab completes, Enter filters, Esc leaves. What is wrong is told below its place while nothing has been applied yet.
Knows the language and nothing of events; what was typed goes up as a message.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from tui.dialogs.input_field import Field
from tui.events.event_filter import Filter, parse
from tui.events.filter_language import FIELDS, FilterError, complete
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize_line


class FilterBar(Vertical):
    """A filter being typed."""

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
        """This filter is to be shown; None shows every event again."""

        def __init__(self, filter: Filter | None) -> None:
            super().__init__()
            self.filter = filter

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.kinds: Sequence[str] = ()
        self._typed: list[str] = []
        """Filters of this run, the latest last."""
        self._back = 0

    def compose(self) -> ComposeResult:
        """The line and its help."""
        yield Field(placeholder=self.PLACEHOLDER, compact=True)
        yield Static(markup=False)

    @property
    def _input(self) -> Input:
        return self.query_one(Input)

    @property
    def is_open(self) -> bool:
        """Whether a filter is being typed."""
        return bool(self.display) and self._input.has_focus

    def open(self, text: str, kinds: Sequence[str]) -> None:
        """Have a filter typed, beginning with the one there is."""
        self.kinds, self._back = kinds, 0
        self.display = True
        self._input.value = text
        self._input.cursor_position = len(text)
        self.screen.set_focus(self._input)  # at once: the next key may be typed already
        self._help()

    def close(self) -> None:
        """Go away."""
        self.display = False

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say how the line may go on."""
        event.stop()
        self._help()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the filter, or say what is wrong with it."""
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
        """Take the first of what the line may go on with."""
        line = self._input.value
        found = complete(line, self.kinds)
        if found.options:
            self._input.value = found.applied(line)
            self._input.cursor_position = len(self._input.value)

    def action_earlier(self, step: int) -> None:
        """Go through the filters that were typed before."""
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
        said = sanitize_line(_("Column {column}: {error}").format(column=error.column + 1, error=error), 200)
        self.query_one(Static).update(Content.styled(said, "$text-error"))
