"""pyte's screen with what it lacks: an alternate screen, a scrollback, and rows as runs.

The scrollback holds the lines that left the top of the main screen, as finished runs, at most `limit` of them; lines
of the alternate screen and of scroll regions never get there. pyte's own HistoryScreen is five times slower.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import groupby
from typing import Any, NamedTuple

import pyte
from pyte.screens import Char, Cursor, StaticDefaultDict

MAX_COMBINING = 4
"""Marks that one cell may collect; more are dropped, for nobody's script needs them."""
MAX_REPLIES_BYTES = 4096
"""What the programs' questions may be answered with between two looks; more than that nobody waits for."""
_ORIGIN_MODE = 6
_ALTERNATE_MODES = frozenset({47, 1047, 1049})


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


class Screen(pyte.Screen):
    """One terminal's cells."""

    def __init__(self, columns: int, lines: int, limit: int) -> None:
        self.scrollback: deque[tuple[Run, ...]] = deque(maxlen=limit)
        self.scrolled = 0
        """Lines that ever went into the scrollback: with its length, the number of those that fell out."""
        self.replies = b""
        """Answers to what programs asked of the terminal: who it is, where the cursor stands."""
        self._main: tuple[Any, Cursor, Any] | None = None
        super().__init__(columns, lines)

    @property
    def alternate(self) -> bool:
        """Whether a full-screen program shows itself."""
        return self._main is not None

    def has_private_mode(self, mode: int) -> bool:
        """Whether a program has set this mode: 1 for the cursor keys' other form, 2004 for brackets round a paste."""
        return mode << 5 in self.mode

    def write_process_input(self, data: str) -> None:
        """Keep an answer."""
        self.replies = (self.replies + data.encode())[-MAX_REPLIES_BYTES:]

    def index(self) -> None:
        """Move down one line; what leaves the top of the main screen goes into the scrollback."""
        bottom = self.margins.bottom if self.margins else self.lines - 1
        if self.cursor.y == bottom and not self.alternate and (self.margins is None or self.margins.top == 0):
            self.scrollback.append(self.runs(0))
            self.scrolled += 1
        super().index()

    def draw(self, data: str) -> None:
        """Draw text; a flood of combining marks is cut, because pyte would pile them all on one cell."""
        super().draw(data)
        position = min(self.cursor.x, self.columns) - 1
        line = self.buffer[self.cursor.y]
        if position >= 0 and len(line[position].data) > 1 + MAX_COMBINING:
            line[position] = line[position]._replace(data=line[position].data[: 1 + MAX_COMBINING])

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Erase; a way of erasing that nobody defined erases nothing (pyte raises)."""
        if how <= 2:
            super().erase_in_line(how, private)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Erase; a way of erasing that nobody defined erases nothing (pyte raises)."""
        if how <= 3:
            super().erase_in_display(how, *args, **kwargs)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        """Set modes; 47, 1047 and 1049 show the alternate screen. Origin mode is refused: pyte asserts on it."""
        if kwargs.get("private"):
            modes = tuple(mode for mode in modes if mode != _ORIGIN_MODE)
        if kwargs.get("private") and _ALTERNATE_MODES & set(modes) and not self.alternate:
            self._main = (self.buffer, self.cursor, self.margins)
            self.buffer = defaultdict(lambda: StaticDefaultDict[int, Char](self.default_char))
            self.cursor = Cursor(0, 0)
            self.margins = None
            self.dirty.update(range(self.lines))
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        """Reset modes; the main screen comes back as it was."""
        if kwargs.get("private") and _ALTERNATE_MODES & set(modes) and self._main is not None:
            self.buffer, self.cursor, self.margins = self._main
            self._main = None
            self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **kwargs)

    def reset(self) -> None:
        """Back to the start; the scrollback stays."""
        self._main = None
        super().reset()

    def runs(self, y: int) -> tuple[Run, ...]:
        """One line as runs, without the blanks at its end."""
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
