"""A terminal that is fed at leisure: bytes queue up, and `work` turns some of them into cells within a time budget.

The screen calls `work` once a frame, so a flood costs 10 ms of each 33 and keys still echo. Where more arrives than can
be emulated, the oldest unread bytes are skipped at a line's end and a line says so: frames are dropped, never the last
state. The newest `TAIL_BYTES` are kept as they came, so that a new width lays them out anew.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import pyte

from tui.terminal_io.emulator.cell_screen import Run, Screen
from tui.terminal_io.emulator.control_filter import Controls

SCROLLBACK_LINES = 10_000
BUDGET_S = 0.010
MAX_BACKLOG_BYTES = 512 * 1024
"""About a second of pyte's work; beyond it the screen would lag behind what is going on."""
TAIL_BYTES = 256 * 1024
"""What is kept for a new width, and of a backlog that grew too large."""
SKIPPED = b"\x1b[m\r\n[... output that came too fast to show ...]\r\n"
_SLICE_BYTES = 1024
"""Fed between two looks at the clock: 1 to 3 ms of pyte's work."""


class Emulator:
    """One terminal: its backlog, its cells and its scrollback."""

    def __init__(self, columns: int = 100, lines: int = 30, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._backlog: deque[bytes] = deque()
        self._backlog_size = 0
        self._shown_before = 0
        """Bytes at the backlog's head that were emulated before, for another size: what they ask is answered."""
        self._reset(columns, lines)

    def _reset(self, columns: int, lines: int) -> None:
        self.screen = Screen(columns, lines, SCROLLBACK_LINES)
        self._stream = pyte.Stream(self.screen)
        self._controls = Controls()

    @property
    def pending(self) -> bool:
        """Whether bytes wait to be emulated."""
        return self._backlog_size > 0

    @property
    def height(self) -> int:
        """Lines that there are: the scrollback, and the screen down to its last used line."""
        used = max((y for y, line in self.screen.buffer.items() if line), default=-1)
        if self.screen.alternate:
            used = self.screen.lines - 1
        return len(self.screen.scrollback) + max(used, min(self.screen.cursor.y, used + 1)) + 1

    def line(self, y: int) -> tuple[Run, ...]:
        """Line `y` from the oldest in the scrollback on; empty beyond the end."""
        above = len(self.screen.scrollback)
        if y < above:
            return self.screen.scrollback[y]
        return self.screen.runs(y - above) if y - above < self.screen.lines else ()

    @property
    def alternate(self) -> bool:
        """Whether a full-screen program shows itself."""
        return self.screen.alternate

    @property
    def cursor(self) -> tuple[int, int] | None:
        """Line and column of the cursor, counted as `line` counts; None while a program hides it."""
        cursor = self.screen.cursor
        if cursor.hidden:
            return None
        return len(self.screen.scrollback) + cursor.y, min(cursor.x, self.screen.columns - 1)

    @property
    def application_keys(self) -> bool:
        """Whether the program wants the other form of the cursor keys."""
        return self.screen.has_private_mode(1)

    @property
    def brackets_pastes(self) -> bool:
        """Whether the program wants to tell a paste from keys."""
        return self.screen.has_private_mode(2004)

    @property
    def tail(self) -> bytes:
        """The newest of what was written, as it came."""
        return b"".join(self._tail)

    def take_replies(self) -> bytes:
        """What the terminal answers to the program's questions since the last call."""
        replies, self.screen.replies = self.screen.replies, b""
        return replies

    def write(self, data: bytes) -> None:
        """Queue bytes. Costs nothing now."""
        self._queue(data)
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_size -= len(self._tail.popleft())

    def _queue(self, data: bytes) -> None:
        self._backlog.append(data)
        self._backlog_size += len(data)
        if self._backlog_size > MAX_BACKLOG_BYTES:
            waiting = b"".join(self._backlog)
            start = waiting.find(b"\n", len(waiting) - TAIL_BYTES) + 1 or len(waiting) - TAIL_BYTES
            self._backlog = deque([SKIPPED + waiting[start:]])
            self._backlog_size = len(self._backlog[0])
            self._shown_before = 0

    def work(self, budget_s: float = BUDGET_S) -> bool:
        """Emulate what waits for at most about `budget_s` seconds. Answers whether anything was done."""
        if not self._backlog:
            return False
        until = self._clock() + budget_s
        while self._backlog:
            data = self._backlog.popleft()
            self._backlog_size -= min(_SLICE_BYTES, len(data))
            if len(data) > _SLICE_BYTES:
                self._backlog.appendleft(data[_SLICE_BYTES:])
            self._stream.feed(self._controls.feed(data[:_SLICE_BYTES]))
            if self._shown_before > 0:
                self._shown_before -= min(_SLICE_BYTES, len(data))
                self.screen.replies = b""
            if self._clock() >= until:
                break
        return True

    def resize(self, columns: int, lines: int) -> None:
        """Lay the kept tail out anew for another size. The work is done by the next calls of `work`.

        A program that fills the screen draws it anew by itself, so there is nothing to lay out.
        """
        if (columns, lines) == (self.screen.columns, self.screen.lines):
            return
        if self.screen.alternate:
            self.screen.resize(lines, columns)
            return
        self._reset(columns, lines)
        self._backlog = deque([b"".join(self._tail)]) if self._tail else deque()
        self._backlog_size = self._shown_before = self._tail_size
