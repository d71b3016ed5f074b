"""The emulator of libghostty, from the optional package pyghostty: a hundred times as fast as pyte, and more exact.

Rows are read from the library as text with SGR, the whole screen in one call, and only once per change. What could
reach out of the terminal is off: images, and so the files that programs would have them read from; and replies that
promise what `tui.terminal.view` does not do, such as kitty's keyboard protocol, or that give a program's own words back
to the shell, such as those about clipboard and colours.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from pyghostty._ffi import check, ffi, lib
from pyghostty.core import Terminal, init_sized, read_buf

from core.terminal import MAX_COMBINING
from tui.terminal_io.emulator import (
    MAX_REPLIES_BYTES,
    PLAIN,
    SCROLLBACK_LINES,
    Emulator,
    Run,
    RunStyle,
)

CACHED_ROWS = 4096
"""Rows of the scrollback that are kept as runs; they change only with the size."""
_SGR = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
_ALLOWED_REPLIES = re.compile(
    rb"\x1b\[[?>]?[\d;]*c|\x1b\[\d{1,5}n|\x1b\[\d{1,5};\d{1,5}R|\x1b\[\?(?:1|25|1049|2004|2026);\d\$y"
    rb"|\x1bP>\|[\w .()-]{1,64}\x1b\\|\x1bP!\|[0-9A-F]{0,8}\x1b\\"
)
"""Device attributes, status, cursor position, name, and a few modes."""
_MARK = r"[\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff]"
_MARKS = re.compile(f"({_MARK}{{{MAX_COMBINING}}}){_MARK}+")
_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
_LEVELS = (0, 95, 135, 175, 215, 255)


class GhosttyEmulator(Emulator):
    """A terminal on libghostty."""

    MAX_BACKLOG_BYTES = 8 * 1024 * 1024  # a quarter of a second of the library's work
    TAIL_BYTES = 1024 * 1024
    SLICE_BYTES = 32 * 1024  # half a millisecond of the library's work

    def __init__(self, columns: int = 100, lines: int = 30, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(columns, lines, clock)
        self._replies = b""
        self._rows: list[str] | None = None
        self._history: dict[int, tuple[Run, ...]] = {}
        self._above: int = 0
        self._terminal = Terminal(columns, lines, scrollback=SCROLLBACK_LINES)
        self._terminal.on_reply(self._on_reply)
        limit = ffi.new("uint64_t*", 0)
        check(
            lib.ghostty_terminal_set(self._terminal._t[0], lib.GHOSTTY_TERMINAL_OPT_KITTY_IMAGE_STORAGE_LIMIT, limit),
            "",
        )

    def _on_reply(self, data: bytes) -> None:
        if _ALLOWED_REPLIES.fullmatch(data):
            self._replies = (self._replies + data)[-MAX_REPLIES_BYTES:]

    @property
    def alternate(self) -> bool:
        return bool(self._terminal.get("active_screen", "int"))

    @property
    def height(self) -> int:
        rows = self._screen()
        used = len(rows) - 1
        if self.alternate:
            return self._above + int(self._terminal.size[1])
        while used >= 0 and not rows[used].strip(" "):
            used -= 1
        return self._above + max(used, min(int(self._terminal.cursor[1]), used + 1)) + 1

    @property
    def cursor(self) -> tuple[int, int] | None:
        self._screen()
        if not self._terminal.get("cursor_visible", "bool"):
            return None
        x, y = self._terminal.cursor
        return self._above + y, x

    @property
    def application_keys(self) -> bool:
        return bool(self._terminal.mode(1))

    @property
    def brackets_pastes(self) -> bool:
        return bool(self._terminal.mode(2004))

    def take_replies(self) -> bytes:
        replies, self._replies = self._replies, b""
        return replies

    def line(self, y: int) -> tuple[Run, ...]:
        rows = self._screen()
        if y >= self._above:
            return _runs(rows[y - self._above]) if y - self._above < len(rows) else ()
        if (runs := self._history.get(y)) is None:
            if len(self._history) >= CACHED_ROWS:
                self._history.clear()
            runs = self._history[y] = _runs(self._text(y, y, "screen"))
        return runs

    def _feed(self, data: bytes) -> None:
        self._terminal.feed(data)
        self._forget_rows()  # rows move up as the oldest fall out

    def resize(self, columns: int, lines: int) -> None:
        if (columns, lines) != self._terminal.size:
            self._terminal.resize(columns, lines)
            self._forget_rows()

    def _forget_rows(self) -> None:
        self._rows = None
        self._history.clear()

    def _screen(self) -> list[str]:
        if self._rows is None:
            self._above = 0 if self.alternate else self._terminal.get("scrollback_rows", "size_t")
            self._rows = self._text(0, self._terminal.size[1] - 1, "active").split("\r\n")
        return self._rows

    def _text(self, first: int, last: int, where: str) -> str:
        options = init_sized("GhosttyTerminalSelectionFormatOptions")
        options.emit = lib.GHOSTTY_FORMATTER_FORMAT_VT
        options.unwrap = options.trim = False
        selection = init_sized("GhosttySelection")
        selection.start = self._terminal.ref(0, first, where)[0]
        selection.end = self._terminal.ref(self._terminal.size[0] - 1, last, where)[0]
        options.selection = selection
        format_ = lib.ghostty_terminal_selection_format_buf
        text: str = read_buf(lambda b, size, n: format_(self._terminal._t[0], options[0], b, size, n))
        palette = text.rfind("\x1b]4;255;")
        return text if palette < 0 else text[text.find("\x1b\\", palette) + 2 :]


def _runs(text: str) -> tuple[Run, ...]:
    """Parse a row of text with SGR into runs, without the blanks at its end."""
    runs: list[Run] = []
    style, at = PLAIN, 0
    for match in _SGR.finditer(text):
        _add(runs, text[at : match.start()], style)
        at = match.end()
        if match[1] is not None:
            style = _styled(style, match[1])
    _add(runs, text[at:], style)
    while runs and runs[-1].style == PLAIN and not runs[-1].text.rstrip(" "):
        runs.pop()
    if runs and runs[-1].style == PLAIN:
        runs[-1] = Run(runs[-1].text.rstrip(" "), PLAIN)
    return tuple(runs)


def _add(runs: list[Run], text: str, style: RunStyle) -> None:
    if not text:
        return
    text = _MARKS.sub(r"\1", text)
    if runs and runs[-1].style == style:
        runs[-1] = Run(runs[-1].text + text, style)
    else:
        runs.append(Run(text, style))


def _styled(style: RunStyle, sgr: str) -> RunStyle:
    numbers = [int(number.partition(":")[0] or 0) for number in sgr.split(";")]
    match numbers:
        case [0] | []:
            return PLAIN
        case [38, 5, index]:
            return style._replace(fg=_colour(index))
        case [48, 5, index]:
            return style._replace(bg=_colour(index))
        case [38, 2, red, green, blue]:
            return style._replace(fg=f"{red:02x}{green:02x}{blue:02x}")
        case [48, 2, red, green, blue]:
            return style._replace(bg=f"{red:02x}{green:02x}{blue:02x}")
        case [1]:
            return style._replace(bold=True)
        case [3]:
            return style._replace(italics=True)
        case [4]:
            return style._replace(underscore=True)
        case [7]:
            return style._replace(reverse=True)
        case [9]:
            return style._replace(strikethrough=True)
    return style


def _colour(index: int) -> str:
    """Return a colour of the palette: its name if the theme has one for it, else six hex digits."""
    if index < 16:
        return ("bright" if index > 7 else "") + _NAMES[index % 8]
    if index < 232:
        cube = index - 16
        return "".join(f"{_LEVELS[level]:02x}" for level in (cube // 36, cube // 6 % 6, cube % 6))
    return f"{8 + 10 * (index - 232):02x}" * 3
