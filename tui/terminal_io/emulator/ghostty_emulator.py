"""The emulator of libghostty, by the optional package `pyghostty`: a hundred times as fast as pyte, and more exact.

Behaves as `tui.terminal_io.emulator.pyte_emulator.Emulator` does, held by the same tests. Rows are taken from the
library as text with SGR, all of the screen in one call, and only once per change. What could reach out of the terminal
is off: pictures, and so the files that programs would have them read from; and answers that promise what
`tui.terminal.key_bytes` does not do, such as kitty's keys, or that give a program's own words back to the shell, such
as those about clipboards and colours.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable

from pyghostty._ffi import check, ffi, lib
from pyghostty.core import Terminal, init_sized, read_buf

from tui.terminal_io.emulator.cell_screen import MAX_COMBINING, MAX_REPLIES_BYTES, PLAIN, Run, RunStyle
from tui.terminal_io.emulator.pyte_emulator import BUDGET_S, SCROLLBACK_LINES, SKIPPED

MAX_BACKLOG_BYTES = 8 * 1024 * 1024
"""A quarter of a second of the library's work."""
TAIL_BYTES = 1024 * 1024
"""What is kept of a backlog that grew too large."""
SLICE_BYTES = 32 * 1024
"""Fed between two looks at the clock: half a millisecond of the library's work."""
ROWS_KEPT = 4096
"""Rows of the scrollback that are kept as runs; a row of it changes only with the size."""
_SGR = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
_ANSWERS = re.compile(
    rb"\x1b\[[?>]?[\d;]*c|\x1b\[\d{1,5}n|\x1b\[\d{1,5};\d{1,5}R|\x1b\[\?(?:1|25|1049|2004|2026);\d\$y"
    rb"|\x1bP>\|[\w .()-]{1,64}\x1b\\|\x1bP!\|[0-9A-F]{0,8}\x1b\\"
)
"""What programs are answered: who the terminal is, how it fares, where the cursor stands, and a few of its modes."""
_MARK = r"[\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff]"
_MARKS = re.compile(f"({_MARK}{{{MAX_COMBINING}}}){_MARK}+")
_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
_LEVELS = (0, 95, 135, 175, 215, 255)


class GhosttyEmulator:
    """One terminal: its backlog, its cells and its scrollback."""

    def __init__(self, columns: int = 100, lines: int = 30, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._backlog: deque[bytes] = deque()
        self._backlog_size = 0
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
        if _ANSWERS.fullmatch(data):
            self._replies = (self._replies + data)[-MAX_REPLIES_BYTES:]

    @property
    def pending(self) -> bool:
        """Whether bytes wait to be emulated."""
        return self._backlog_size > 0

    @property
    def alternate(self) -> bool:
        """Whether a full-screen program shows itself."""
        return bool(self._terminal.get("active_screen", "int"))

    @property
    def height(self) -> int:
        """Lines that there are: the scrollback, and the screen down to its last used line."""
        rows = self._screen()
        used = len(rows) - 1
        if self.alternate:
            return self._above + int(self._terminal.size[1])
        while used >= 0 and not rows[used].strip(" "):
            used -= 1
        return self._above + max(used, min(int(self._terminal.cursor[1]), used + 1)) + 1

    @property
    def cursor(self) -> tuple[int, int] | None:
        """Line and column of the cursor, counted as `line` counts; None while a program hides it."""
        self._screen()
        if not self._terminal.get("cursor_visible", "bool"):
            return None
        x, y = self._terminal.cursor
        return self._above + y, x

    @property
    def application_keys(self) -> bool:
        """Whether the program wants the other form of the cursor keys."""
        return bool(self._terminal.mode(1))

    @property
    def brackets_pastes(self) -> bool:
        """Whether the program wants to tell a paste from keys."""
        return bool(self._terminal.mode(2004))

    def take_replies(self) -> bytes:
        """What the terminal answers to the program's questions since the last call."""
        replies, self._replies = self._replies, b""
        return replies

    def line(self, y: int) -> tuple[Run, ...]:
        """Line `y` from the oldest in the scrollback on; empty beyond the end."""
        rows = self._screen()
        if y >= self._above:
            return _runs(rows[y - self._above]) if y - self._above < len(rows) else ()
        if (found := self._history.get(y)) is None:
            if len(self._history) >= ROWS_KEPT:
                self._history.clear()
            found = self._history[y] = _runs(self._text(y, y, "screen"))
        return found

    def write(self, data: bytes) -> None:
        """Queue bytes. Costs nothing now."""
        self._backlog.append(data)
        self._backlog_size += len(data)
        if self._backlog_size > MAX_BACKLOG_BYTES:
            waiting = b"".join(self._backlog)
            start = waiting.find(b"\n", len(waiting) - TAIL_BYTES) + 1 or len(waiting) - TAIL_BYTES
            self._backlog = deque([SKIPPED + waiting[start:]])
            self._backlog_size = len(self._backlog[0])

    def work(self, budget_s: float = BUDGET_S) -> bool:
        """Emulate what waits for at most about `budget_s` seconds. Answers whether anything was done."""
        if not self._backlog:
            return False
        until = self._clock() + budget_s
        while self._backlog:
            data = self._backlog.popleft()
            self._backlog_size -= min(SLICE_BYTES, len(data))
            if len(data) > SLICE_BYTES:
                self._backlog.appendleft(data[SLICE_BYTES:])
            self._terminal.feed(data[:SLICE_BYTES])
            if self._clock() >= until:
                break
        self._rows = None
        self._history.clear()  # rows move up as the oldest fall out
        return True

    def resize(self, columns: int, lines: int) -> None:
        """Another size; the library lays the main screen and the scrollback out anew."""
        if (columns, lines) != self._terminal.size:
            self._terminal.resize(columns, lines)
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
    """A row's text with SGR as runs, without the blanks at its end."""
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
    """A colour of the palette by its name, or as six hex digits where the theme has none for it."""
    if index < 16:
        return ("bright" if index > 7 else "") + _NAMES[index % 8]
    if index < 232:
        cube = index - 16
        return "".join(f"{_LEVELS[level]:02x}" for level in (cube // 36, cube // 6 % 6, cube % 6))
    return f"{8 + 10 * (index - 232):02x}" * 3
