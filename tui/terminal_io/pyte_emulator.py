"""The emulator that uses pyte, with what `core.terminal` adds to it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import groupby

from pyte.screens import Char

from core.terminal import screen
from core.terminal.control_filter import ControlFilter
from tui.terminal_io.emulator import (
    MAX_REPLIES_BYTES,
    PLAIN,
    SCROLLBACK_LINES,
    Emulator,
    Run,
    RunStyle,
)


class Screen(screen.Screen):
    """The screen of the terminal pane, whose scrollback has lines as runs, and which replies to queries.

    pyte's own HistoryScreen is five times slower.
    """

    scrollback: deque[tuple[Run, ...]]

    def __init__(self, columns: int, lines: int) -> None:
        self.replies = b""
        super().__init__(columns, lines, SCROLLBACK_LINES)

    def has_private_mode(self, mode: int) -> bool:
        return mode << 5 in self.mode

    def write_process_input(self, data: str) -> None:
        self.replies = (self.replies + data.encode())[-MAX_REPLIES_BYTES:]

    def kept(self, y: int) -> tuple[Run, ...]:
        return self.runs(y)

    def runs(self, y: int) -> tuple[Run, ...]:
        """Return one line as runs, without the blanks at its end."""
        line = self.buffer.get(y)
        if not line:
            return ()
        # A cell that a wide character covers holds "", and so adds nothing.
        cells = [line.get(x, self.default_char) for x in range(min(self.columns, max(line) + 1))]
        while cells and cells[-1].data == " " and _style(cells[-1]) == PLAIN:
            cells.pop()
        return tuple(Run("".join(char.data for char in group), style) for style, group in groupby(cells, key=_style))


def _style(char: Char) -> RunStyle:
    return RunStyle(char.fg, char.bg, char.bold, char.italics, char.underscore, char.strikethrough, char.reverse)


class PyteEmulator(Emulator):
    """A terminal on pyte. Keeps the newest bytes as they came, to lay them out again for a new width."""

    MAX_BACKLOG_BYTES = 512 * 1024  # about a second of pyte's work
    TAIL_BYTES = 256 * 1024
    SLICE_BYTES = 1024  # 1 to 3 ms of pyte's work

    def __init__(self, columns: int = 100, lines: int = 30, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(columns, lines, clock)
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._replayed = 0
        """Bytes at the head of the backlog that were emulated before, at another size: their queries were answered."""
        self._reset(columns, lines)

    def _reset(self, columns: int, lines: int) -> None:
        self.screen = Screen(columns, lines)
        self._stream = screen.Stream(self.screen)
        self._filter = ControlFilter()

    @property
    def height(self) -> int:
        used = max((y for y, line in self.screen.buffer.items() if line), default=-1)
        if self.alternate:
            used = self.screen.lines - 1
        return len(self.screen.scrollback) + max(used, min(self.screen.cursor.y, used + 1)) + 1

    @property
    def alternate(self) -> bool:
        return self.screen.alternate

    @property
    def cursor(self) -> tuple[int, int] | None:
        cursor = self.screen.cursor
        if cursor.hidden:
            return None
        return len(self.screen.scrollback) + cursor.y, min(cursor.x, self.screen.columns - 1)

    @property
    def application_keys(self) -> bool:
        return self.screen.has_private_mode(1)

    @property
    def brackets_pastes(self) -> bool:
        return self.screen.has_private_mode(2004)

    @property
    def tail(self) -> bytes:
        """The newest bytes that were written."""
        return b"".join(self._tail)

    def line(self, y: int) -> tuple[Run, ...]:
        above = len(self.screen.scrollback)
        if y < above:
            return self.screen.scrollback[y]
        return self.screen.runs(y - above) if y - above < self.screen.lines else ()

    def take_replies(self) -> bytes:
        replies, self.screen.replies = self.screen.replies, b""
        return replies

    def write(self, data: bytes) -> None:
        super().write(data)
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self.TAIL_BYTES:
            self._tail_size -= len(self._tail.popleft())

    def _skip_backlog(self) -> None:
        super()._skip_backlog()
        self._replayed = 0

    def _feed(self, data: bytes) -> None:
        self._stream.feed(self._filter.feed(data))
        if self._replayed > 0:
            self._replayed -= len(data)
            self.screen.replies = b""

    def resize(self, columns: int, lines: int) -> None:
        """Change the size. The kept tail is queued again; a full-screen program redraws its screen itself."""
        if (columns, lines) == (self.screen.columns, self.screen.lines):
            return
        if self.alternate:
            self.screen.resize(lines, columns)
            return
        self._reset(columns, lines)
        self._backlog = deque([self.tail]) if self._tail else deque()
        self._backlog_size = self._replayed = self._tail_size
