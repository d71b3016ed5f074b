"""The terminal on the screen: cells as strips, in the theme's colours, with its scrollback above.

The emulator is as wide as the pane, so nothing is cut off. Emulation happens in `sync`, once a frame and within a
budget. The view follows the end until the user scrolls back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.color import Color, ColorParseError
from textual.message import Message
from textual.strip import Strip

from tui.commands import BY_ID
from tui.find.row_finder import RowFinder
from tui.i18n import _
from tui.terminal.key_bytes import encoded, pasted
from tui.terminal_io.sanitizer import sanitize_line
from tui.terminal_io.textual_patches.escape_bursts import typed
from tui.workspace.line_view import set_lines

if TYPE_CHECKING:
    from textual.geometry import Region

    from tui.terminal.model import TerminalModel
    from tui.terminal_io.emulator import Run, RunStyle

MIN_COLUMNS = 20
_STYLES_KEPT = 512

ACTIONS = {
    "up": "scroll_up",
    "down": "scroll_down",
    "page_up": "page_up",
    "page_down": "page_down",
    "home": "home",
    "end": "end",
    "find_next": "go_to_hit(1)",
    "find_prev": "go_to_hit(-1)",
}
"""What the keys of a list do here."""


class TerminalView(RowFinder, can_focus=True):
    """What the commands of the agent print."""

    COMPONENT_CLASSES = {"terminal--muted"}
    DEFAULT_CSS = """
    TerminalView {
        overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        & > .terminal--muted { color: $text-muted; }
    }
    """
    BINDINGS = [
        Binding(",".join(BY_ID[f"list.{name}"].keys), action, show=False, id=f"terminal.{name}")
        for name, action in ACTIONS.items()
    ]

    class Typed(Message):
        """Keys for the program, while the user has the terminal."""

        def __init__(self, data: bytes) -> None:
            super().__init__()
            self.data = data

    class Resized(Message):
        """The pane has another size: so many rows and columns."""

    EMPTY = _("Command output appears here")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._model: TerminalModel | None = None
        self._version = -1
        self._left_at: WeakKeyDictionary[TerminalModel, int | None] = WeakKeyDictionary()
        """The line on top in each model that was shown; None follows the end."""
        self._styles: dict[RunStyle, Style] = {}
        self._base: Style | None = None
        """The style of the pane itself, while lines are drawn: Textual works it out anew each time it is asked."""
        self.following = True
        self.taken = False
        """Whether the user has the terminal; `give` and `take_away` change it."""

    @property
    def screen_size(self) -> tuple[int, int]:
        """Rows and columns of the terminal in this pane."""
        return max(2, self.size.height), max(MIN_COLUMNS, self.width)

    def show_taken(self, taken: bool) -> None:
        """Whether the user has the terminal: its cursor is shown, and keys that come to `key` go to the program."""
        if taken is not self.taken:
            self.taken = taken
            self.set_class(taken, "-taken")
            if taken:
                self.action_end()
            self.refresh()

    def key(self, event: events.Key) -> bool:
        """Send a key to the program where the user has the terminal and it the focus. Answers whether it was."""
        if not self.taken or not self.has_focus or self._model is None:
            return False
        application = self._model.emulator.application_keys
        data = typed(event) or encoded(event.key, event.character, application=application)
        if data:
            self.action_end()
            self.post_message(self.Typed(data))
        return True

    def on_paste(self, event: events.Paste) -> None:
        """Send a paste to the program where the user has the terminal."""
        if self.taken and self._model is not None:
            event.stop()
            self.post_message(self.Typed(pasted(event.text, bracketed=self._model.emulator.brackets_pastes)))

    @property
    def width(self) -> int:
        """Columns of a line: those beside the scrollbar."""
        return self.scrollable_content_region.width

    def attach(self, model: TerminalModel | None) -> None:
        """Show this model from now on, where the reader left it; at its end the first time."""
        if self._model is not None:
            self._left_at[self._model] = None if self.following else self.scroll_offset.y
        self._model = model
        self._version = -1
        left_at = self._left_at.get(model) if model is not None else None
        self.following = left_at is None
        self._fit()
        self.sync()
        if left_at is not None:
            self.scroll_to(y=left_at, animate=False, immediate=True, force=True)

    def sync(self) -> bool:
        """Emulate for one frame's budget and show what came of it. Answers whether more is waiting."""
        model = self._model
        if model is None:
            set_lines(self, 0)
            self.refresh()
            return False
        model.work()
        if model.version != self._version:
            self._version = model.version
            set_lines(self, model.emulator.height if model.used else 0)
            if self.following:
                self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)
            self.find_again()
            self.refresh()
        return model.emulator.pending

    def row_count(self) -> int:
        """Lines that can be searched: all that are kept."""
        return self._model.emulator.height if self._model and self._model.used else 0

    def row_text(self, row: int) -> str:
        """What a line says."""
        return "".join(run.text for run in self._model.emulator.line(row)) if self._model else ""

    def _fit(self) -> None:
        if self._model and self.width and self.size.height:
            self._model.emulator.resize(max(MIN_COLUMNS, self.width), max(2, self.size.height))

    def on_resize(self, event: events.Resize) -> None:
        """Lay the kept output out anew for this width."""
        self._fit()
        self._version = -1
        self.sync()
        self.post_message(self.Resized())

    def notify_style_update(self) -> None:
        """Forget colours of another theme."""
        super().notify_style_update()
        self._styles.clear()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scrolling back stops following; the end takes it up again."""
        super().watch_scroll_y(old_value, new_value)
        self.following = new_value >= self.max_scroll_y

    def action_home(self) -> None:
        """To the oldest line of the scrollback."""
        self.scroll_home(animate=False, immediate=True)

    def action_end(self) -> None:
        """To the newest line, following it from now on."""
        self.following = True
        self.scroll_end(animate=False, immediate=True, force=True)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines, all in one style of the pane."""
        self._base = self.rich_style
        try:
            return super().render_lines(crop)
        finally:
            self._base = None

    def render_line(self, y: int) -> Strip:
        """Turn one visible row's runs into segments."""
        width, base = self.width, self._base or self.rich_style
        model = self._model
        if model is None or not model.used:
            text = " " + sanitize_line(self.EMPTY, max(0, width - 2)) if y == 0 else ""
            muted = base + self.get_component_rich_style("terminal--muted", partial=True)
            return Strip([Segment(text, muted)]).adjust_cell_length(width, base)
        runs = model.emulator.line(y + self.scroll_offset.y)
        strip = Strip([self._segment(run, base) for run in runs]).adjust_cell_length(width, base)
        if self.taken and (cursor := model.emulator.cursor) is not None and cursor[0] == y + self.scroll_offset.y:
            strip = _with_cursor(strip, cursor[1])
        return self.with_hits(strip, y + self.scroll_offset.y)

    def _segment(self, run: Run, base: Style) -> Segment:
        style = self._styles.get(run.style)
        if style is None:
            if len(self._styles) > _STYLES_KEPT:
                self._styles.clear()
            style = self._styles[run.style] = self._style(run.style)
        return Segment(sanitize_line(run.text, self.width * 2), base + style)

    def _style(self, style: RunStyle) -> Style:
        variables = self.app.theme_variables
        return Style(
            color=_colour(style.fg, variables),
            bgcolor=_colour(style.bg, variables),
            bold=style.bold or None,
            dim=style.fg == "brightblack" or None,
            italic=style.italics or None,
            underline=style.underscore or None,
            strike=style.strikethrough or None,
            reverse=style.reverse or None,
        )


def _with_cursor(strip: Strip, column: int) -> Strip:
    """A line with the cell at this column reversed."""
    end = strip.cell_length
    here = strip.crop(column, column + 1).apply_style(Style(reverse=True))
    return Strip.join([strip.crop(0, column), here, strip.crop(column + 1, end)])


_ROLES = {
    "black": "panel", "red": "text-error", "green": "text-success", "brown": "text-warning",
    "blue": "text-primary", "magenta": "text-accent", "cyan": "text-secondary", "white": "foreground",
}  # fmt: skip
"""The theme's variable for each of the eight colours as pyte names them (bright ones begin with `bright`), so
that foreign output belongs to the page."""


def _colour(name: str, variables: dict[str, str]) -> str | None:
    """A colour that Rich understands for one of pyte's; None for the default and for what nobody can read."""
    if name == "default":
        return None
    if name == "brightblack":
        return None  # Drawn dim instead: no theme variable promises to be readable and grey.
    role = _ROLES.get(name.removeprefix("bright").replace("yellow", "brown"), "")
    value = variables.get(role)
    try:
        return Color.parse(value or f"#{name}").rich_color.name
    except ColorParseError:
        return None
