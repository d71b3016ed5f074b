"""The terminal pane: the emulator's cells in the theme's colours, with the scrollback above; keys as xterm sends them.

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
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static

from tui.commands import BY_ID
from tui.find.pane_search import RowFinder
from tui.i18n import _
from tui.shortcuts.command import key_of
from tui.terminal_io.sanitizer import sanitize_line
from tui.terminal_io.textual_patches import typed_bytes
from tui.workspace.line_view import set_lines

if TYPE_CHECKING:
    from textual.geometry import Region

    from tui.terminal.model import TerminalModel
    from tui.terminal_io.emulator import Run, RunStyle

MIN_COLUMNS = 20
CACHED_STYLES = 512

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
"""The actions of the list keys."""

_LETTERS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_FUNCTION = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_NUMBERS = {
    "insert": 2, "delete": 3, "pageup": 5, "pagedown": 6, "f5": 15, "f6": 17, "f7": 18, "f8": 19, "f9": 20, "f10": 21,
    "f11": 23, "f12": 24,
}  # fmt: skip
_PLAIN = {"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " ", "shift+tab": "\x1b[Z"}
_CONTROL = {
    "at": 0, "space": 0, "left_square_bracket": 27, "backslash": 28, "right_square_bracket": 29,
    "circumflex_accent": 30, "underscore": 31, "backspace": 8,
}  # fmt: skip
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}
PASTE_BEGIN, PASTE_END = b"\x1b[200~", b"\x1b[201~"


class TerminalView(RowFinder, can_focus=True):
    """Shows what the agent's commands print."""

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
        """Bytes for the program, while the user controls the terminal."""

        def __init__(self, data: bytes) -> None:
            super().__init__()
            self.data = data

    class Resized(Message):
        """The pane has another size."""

    EMPTY = _("Command output appears here")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._model: TerminalModel | None = None
        self._version = -1
        self._left_at: WeakKeyDictionary[TerminalModel, int | None] = WeakKeyDictionary()
        """The top line in each model that was shown; None follows the end."""
        self._styles: dict[RunStyle, Style] = {}
        self._base: Style | None = None
        """The pane's own style while lines are drawn: Textual computes it at each access."""
        self.following = True
        self.taken = False
        """Whether the user controls the terminal."""

    @property
    def screen_size(self) -> tuple[int, int]:
        """Rows and columns of the terminal in this pane."""
        return max(2, self.size.height), max(MIN_COLUMNS, self.width)

    def show_taken(self, taken: bool) -> None:
        """Show the cursor and send keys to the program while the user controls the terminal."""
        if taken is not self.taken:
            self.taken = taken
            self.set_class(taken, "-taken")
            if taken:
                self.action_end()
            self.refresh()

    def key(self, event: events.Key) -> bool:
        """Send a key to the program if the user controls the terminal and it has the focus. Returns whether it did."""
        if not self.taken or not self.has_focus or self._model is None:
            return False
        application = self._model.emulator.application_keys
        data = typed_bytes(event) or key_bytes(event.key, event.character, application=application)
        if data:
            self.action_end()
            self.post_message(self.Typed(data))
        return True

    def on_paste(self, event: events.Paste) -> None:
        if self.taken and self._model is not None:
            event.stop()
            self.post_message(self.Typed(paste_bytes(event.text, bracketed=self._model.emulator.brackets_pastes)))

    @property
    def width(self) -> int:
        """Columns beside the scrollbar."""
        return self.scrollable_content_region.width

    def attach(self, model: TerminalModel | None) -> None:
        """Show this model at the place where the reader left it; at its end the first time."""
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
        """Emulate for one frame's budget and show the result. Returns whether more is waiting."""
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
        return self._model.emulator.height if self._model and self._model.used else 0

    def row_text(self, row: int) -> str:
        return "".join(run.text for run in self._model.emulator.line(row)) if self._model else ""

    def _fit(self) -> None:
        if self._model and self.width and self.size.height:
            self._model.emulator.resize(max(MIN_COLUMNS, self.width), max(2, self.size.height))

    def on_resize(self, event: events.Resize) -> None:
        self._fit()
        self._version = -1
        self.sync()
        self.post_message(self.Resized())

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()  # of another theme

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following when the user scrolls back, and follow again at the end."""
        super().watch_scroll_y(old_value, new_value)
        self.following = new_value >= self.max_scroll_y

    def action_home(self) -> None:
        self.scroll_home(animate=False, immediate=True)

    def action_end(self) -> None:
        self.following = True
        self.scroll_end(animate=False, immediate=True, force=True)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style
        try:
            return super().render_lines(crop)
        finally:
            self._base = None

    def render_line(self, y: int) -> Strip:
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
            if len(self._styles) > CACHED_STYLES:
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


class InputHint(Static):
    """One line above the prompt: a command waits for input, and the key that takes control. A click does it, too."""

    DEFAULT_CSS = """
    InputHint {
        display: none; height: 1; padding: 0 1;
        border-left: outer $warning; background: $warning 8%;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    class Chosen(Message):
        """The user wants to answer."""

    def show(self, waits: bool) -> None:
        if waits is not self.display:
            self.display = waits
            key = key_of("terminal.take")
            effect = _("takes control of the terminal while the agent waits")
            title = _("The command is waiting for input.")
            self.update(Content.assemble((title, "bold $text-warning"), "   ", (key, "bold"), f" {effect}"))

    def on_click(self) -> None:
        self.post_message(self.Chosen())


def _with_cursor(strip: Strip, column: int) -> Strip:
    """Reverse the cell at this column."""
    end = strip.cell_length
    here = strip.crop(column, column + 1).apply_style(Style(reverse=True))
    return Strip.join([strip.crop(0, column), here, strip.crop(column + 1, end)])


_ROLES = {
    "black": "panel", "red": "text-error", "green": "text-success", "brown": "text-warning",
    "blue": "text-primary", "magenta": "text-accent", "cyan": "text-secondary", "white": "foreground",
}  # fmt: skip
"""The theme's variable for each of pyte's eight colours; bright ones begin with `bright`."""


def _colour(name: str, variables: dict[str, str]) -> str | None:
    """Return Rich's name for one of pyte's colours; None for the default and for unknown colours."""
    if name == "default":
        return None
    if name == "brightblack":
        return None  # drawn dim instead: no theme variable is sure to be readable and grey
    role = _ROLES.get(name.removeprefix("bright").replace("yellow", "brown"), "")
    value = variables.get(role)
    try:
        return Color.parse(value or f"#{name}").rich_color.name
    except ColorParseError:
        return None


def key_bytes(key: str, character: str | None, *, application: bool = False) -> bytes:
    """Encode a key (by Textual's name) as xterm sends it; empty if xterm has no sequence for it. Source: ctlseqs.

    `application` says that the program has turned on application cursor keys.
    """
    *names, base = key.split("+") if key != "+" else ["plus"]
    modifiers = sum(_MODIFIERS.get(name, 0) for name in names)
    escape = b"\x1b" if modifiers & 2 else b""
    if not modifiers & 4 and character and character.isprintable():
        return escape + character.encode()
    if key in _PLAIN:
        return _PLAIN[key].encode()
    if base in _LETTERS or base in _FUNCTION:
        letter = _LETTERS.get(base) or _FUNCTION[base]
        if modifiers:
            return f"\x1b[1;{modifiers + 1}{letter}".encode()
        return f"\x1b{'O' if application or base in _FUNCTION else '['}{letter}".encode()
    if base in _NUMBERS:
        return f"\x1b[{_NUMBERS[base]}{f';{modifiers + 1}' if modifiers else ''}~".encode()
    base = base.upper() if modifiers & 1 and len(base) == 1 else base
    sent = _with_control(base) if modifiers & 4 else _PLAIN.get(base, base if len(base) == 1 else character or "")
    return (escape if sent else b"") + sent.encode()


def _with_control(base: str) -> str:
    if len(base) == 1 and base.isascii() and base.isalpha():
        return chr(ord(base.upper()) & 0x1F)
    return chr(_CONTROL[base]) if base in _CONTROL else _PLAIN.get(base, "")


def paste_bytes(text: str, *, bracketed: bool) -> bytes:
    """Encode a paste: lines end as Enter ends them; in brackets if the program asked for them.

    Control characters such as Escape are removed, so that no paste can leave its brackets or press keys.
    """
    plain = text.replace("\r\n", "\r").replace("\n", "\r")
    data = "".join(char for char in plain if char in "\r\t" or char.isprintable()).encode("utf-8", "replace")
    return PASTE_BEGIN + data + PASTE_END if bracketed else data
