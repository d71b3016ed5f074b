"""Terminal emulators: bytes in, rows of runs out, within a time budget. No Textual in here, and no IO.

Bytes queue up, and `work` turns some of them into cells. The screen calls it once a frame, so a flood costs 10 ms of
each 33 and keys still echo. When more arrives than can be emulated, the oldest queued bytes are skipped up to the end
of a line, and a line says so: frames are dropped, never the last state.

`pyte_emulator` is always there; `ghostty_emulator` is much faster and needs the package pyghostty. Both pass the same
tests.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar, NamedTuple, cast

log = logging.getLogger(__name__)

SCROLLBACK_LINES = 10_000
BUDGET_S = 0.010
SKIPPED = b"\x1b[m\r\n[... output that came too fast to show ...]\r\n"
MAX_REPLIES_BYTES = 4096
"""Replies that are kept between two calls of `take_replies`."""


class RunStyle(NamedTuple):
    """How a run looks. Colours as pyte names them: `default`, one of the 16 names, or six hex digits."""

    fg: str = "default"
    bg: str = "default"
    bold: bool = False
    italics: bool = False
    underscore: bool = False
    strikethrough: bool = False
    reverse: bool = False


class Run(NamedTuple):
    """Neighbouring cells of one style."""

    text: str
    style: RunStyle


PLAIN = RunStyle()


class Emulator(ABC):
    """The screen and scrollback of one terminal, and the bytes that are still to be emulated."""

    MAX_BACKLOG_BYTES: ClassVar[int]
    """Beyond this the screen would lag behind the program."""
    TAIL_BYTES: ClassVar[int]
    """What is kept of a backlog that grew too large."""
    SLICE_BYTES: ClassVar[int]
    """Emulated between two looks at the clock."""

    def __init__(self, columns: int = 100, lines: int = 30, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._backlog: deque[bytes] = deque()
        self._backlog_size = 0

    @property
    def pending(self) -> bool:
        """Whether bytes wait to be emulated."""
        return self._backlog_size > 0

    @property
    @abstractmethod
    def height(self) -> int:
        """The number of lines: the scrollback, and the screen down to its last used line."""

    @property
    @abstractmethod
    def alternate(self) -> bool:
        """Whether a full-screen program shows the alternate screen."""

    @property
    @abstractmethod
    def cursor(self) -> tuple[int, int] | None:
        """Line (as in `line`) and column of the cursor; None while a program hides it."""

    @property
    @abstractmethod
    def application_keys(self) -> bool:
        """Whether the program has turned on application cursor keys."""

    @property
    @abstractmethod
    def brackets_pastes(self) -> bool:
        """Whether the program has turned on bracketed paste."""

    @abstractmethod
    def take_replies(self) -> bytes:
        """Return the replies to the program's queries since the last call."""

    @abstractmethod
    def line(self, y: int) -> tuple[Run, ...]:
        """Return line `y`, counted from the oldest of the scrollback; empty beyond the end."""

    @abstractmethod
    def resize(self, columns: int, lines: int) -> None:
        """Change the size, and lay the content out again."""

    @abstractmethod
    def _feed(self, data: bytes) -> None:
        """Emulate these bytes now."""

    def write(self, data: bytes) -> None:
        self._backlog.append(data)
        self._backlog_size += len(data)
        if self._backlog_size > self.MAX_BACKLOG_BYTES:
            self._skip_backlog()

    def _skip_backlog(self) -> None:
        waiting = b"".join(self._backlog)
        start = waiting.find(b"\n", len(waiting) - self.TAIL_BYTES) + 1 or len(waiting) - self.TAIL_BYTES
        self._backlog = deque([SKIPPED + waiting[start:]])
        self._backlog_size = len(self._backlog[0])

    def work(self, budget_s: float = BUDGET_S) -> bool:
        """Emulate queued bytes for at most about `budget_s` seconds. Returns whether anything was done."""
        if not self._backlog:
            return False
        until = self._clock() + budget_s
        while self._backlog:
            data = self._backlog.popleft()
            if len(data) > self.SLICE_BYTES:
                self._backlog.appendleft(data[self.SLICE_BYTES :])
                data = data[: self.SLICE_BYTES]
            self._backlog_size -= len(data)
            self._feed(data)
            if self._clock() >= until:
                break
        return True


def load_ghostty() -> type[Emulator] | None:
    """Load libghostty's emulator if its package is installed and works here. Takes a second: call it in a thread."""
    if find_spec("pyghostty") is None:
        return None
    try:
        kind = cast("type[Emulator]", import_module("tui.terminal_io.ghostty_emulator").GhosttyEmulator)
        first = kind()
        first.write(b"ready")
        first.work()
        return kind if first.line(0) else None
    except Exception:  # the boundary to a native library: of another machine, or of another version
        log.warning("pyghostty is installed but does not work here; the terminal uses pyte", exc_info=True)
        return None
