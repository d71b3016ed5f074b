"""Screen: pyte's screen with an alternate screen, a scrollback, and what pyte 0.8 gets wrong.

pyte drops the rest of a text behind a character that it cannot draw, keeps any number of saved cursors, moves the
cursor into a scroll region from below it, and knows no CSI S and T. `Stream` passes those on; its text comes from
`control_filter.ControlFilter`. Every call costs at most a number of steps that depends on the size of the screen.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

import pyte
from pyte import escape as esc
from pyte import modes as mo
from pyte.screens import Char, Cursor, Margins, StaticDefaultDict
from wcwidth import wcwidth

from core.terminal import MAX_COMBINING

_ORIGIN_MODE, _COLUMNS_MODE = 6, 3
_ALTERNATE_MODES = frozenset({47, 1047, 1049})
_FIRST_PRIVATE = 32
"""pyte keeps private modes from this number on among the others; a program cannot set those without `?`."""
MAX_STYLES = 256
"""Styles whose cells are kept for drawing."""


class Stream(pyte.Stream):
    """pyte's parser, with sequences that it lacks."""

    escape = {**pyte.Stream.escape, esc.NEL: "next_line"}
    csi = {**pyte.Stream.csi, "S": "scroll_up", "T": "scroll_down", esc.DECSTBM: "set_scroll_region"}


class Line(StaticDefaultDict[int, Char]):
    """The cells of one line by column, without those that were never drawn."""

    wraps = False
    """Whether the text continues in the next line, because it reached the end of this one."""


class _Cells(dict[str, Char]):
    """The cells of one style by character."""

    def __init__(self, style: Char) -> None:
        self._style = style

    def __missing__(self, char: str) -> Char:
        self[char] = cell = self._style._replace(data=char)
        return cell


class Screen(pyte.Screen):
    """The cells of a terminal. A subclass says what it keeps of a line that leaves the screen at the top."""

    def __init__(self, columns: int, lines: int, limit: int | None = None) -> None:
        """`limit` is the number of lines in the scrollback; None sets no limit."""
        self.scrollback: deque[Any] = deque(maxlen=limit)
        """The lines that left the top of the main screen. Those of the alternate screen and of scroll regions that
        begin below the top never get there.
        """
        self._main: tuple[Any, Cursor, Any] | None = None
        self._saved: Cursor | None = None
        self._styles: dict[Char, _Cells] = {}
        super().__init__(columns, lines)
        self.buffer = self._blank_lines()

    def kept(self, y: int) -> Any:
        """Return what the scrollback keeps of a line."""
        raise NotImplementedError

    @property
    def alternate(self) -> bool:
        return self._main is not None

    def _blank_lines(self) -> Any:
        return defaultdict(lambda: Line(self.default_char))

    # -- drawing -----------------------------------------------------------------------------------------------------

    def draw(self, data: str) -> None:
        """Draw text. Marks join the character before them, up to a limit; what has no width otherwise is left out."""
        is_plain = data.isascii() and data.isprintable()
        if not is_plain or mo.IRM in self.mode or mo.DECAWM not in self.mode:
            for char in data:
                self._draw_char(char)
            return
        cells = self._styles.get(self.cursor.attrs)
        if cells is None:
            if len(self._styles) >= MAX_STYLES:
                self._styles.clear()
            cells = self._styles[self.cursor.attrs] = _Cells(self.cursor.attrs)
        at = 0
        while at < len(data):
            if self.cursor.x >= self.columns:
                self._go_on(1)
            x, line = self.cursor.x, self.buffer[self.cursor.y]
            part = data[at : at + self.columns - x]
            self._free(line, x, x + len(part))
            line.update(zip(range(x, x + len(part)), map(cells.__getitem__, part), strict=True))
            self.cursor.x += len(part)
            at += len(part)

    def _draw_char(self, char: str) -> None:
        width = wcwidth(char)
        if width == 0 and unicodedata.combining(char):
            self._join(char)
        if width <= 0:
            return
        if self.cursor.x + width > self.columns:
            self._go_on(width)
        if mo.IRM in self.mode:
            self.insert_characters(width)
        x, line = self.cursor.x, self.buffer[self.cursor.y]
        self._free(line, x, x + width)
        line[x] = self.cursor.attrs._replace(data=char)
        if width == 2:
            line[x + 1] = self.cursor.attrs._replace(data="")  # so that it adds nothing to the line's text
        self.cursor.x = min(x + width, self.columns)

    def _go_on(self, width: int) -> None:
        """Continue in the next line, or if lines do not wrap, at the end of this one."""
        if mo.DECAWM not in self.mode:
            self.cursor.x = max(0, self.columns - width)
            return
        line = self.buffer[self.cursor.y]
        assert isinstance(line, Line)
        line.wraps = True
        self.cursor.x = 0
        self.index()

    def _join(self, mark: str) -> None:
        line, x = self.buffer[self.cursor.y], self.cursor.x - 1
        if x > 0 and line[x].data == "":
            x -= 1
        if x >= 0 and len(line[x].data) <= MAX_COMBINING:
            line[x] = line[x]._replace(data=unicodedata.normalize("NFC", line[x].data + mark))

    def _free(self, line: Any, start: int, end: int) -> None:
        """Blank the remaining halves of wide characters that are cut by drawing from `start` up to `end`."""
        if start and (cell := line.get(start)) is not None and cell.data == "":
            line[start - 1] = cell._replace(data=" ")
        if (cell := line.get(end)) is not None and cell.data == "":
            line[end] = cell._replace(data=" ")

    # -- moving ------------------------------------------------------------------------------------------------------

    def cursor_up(self, count: int | None = None) -> None:
        top = self.margins.top if self.margins and self.cursor.y >= self.margins.top else 0
        self.cursor.y = max(self.cursor.y - (count or 1), top)

    def cursor_down(self, count: int | None = None) -> None:
        is_inside = self.margins is not None and self.cursor.y <= self.margins.bottom
        bottom = self.margins.bottom if self.margins and is_inside else self.lines - 1
        self.cursor.y = min(self.cursor.y + (count or 1), bottom)

    def next_line(self) -> None:
        self.carriage_return()
        self.index()

    def index(self) -> None:
        """Move the cursor down; at the bottom of the scroll region, scroll it."""
        if self.cursor.y == (self.margins.bottom if self.margins else self.lines - 1):
            self.scroll_up()
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    def reverse_index(self) -> None:
        """Move the cursor up; at the top of the scroll region, scroll it back."""
        if self.cursor.y == (self.margins.top if self.margins else 0):
            self.scroll_down()
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def scroll_up(self, count: int | None = None) -> None:
        """Move the lines of the scroll region up. The first ones leave it."""
        top, bottom = self.margins or Margins(0, self.lines - 1)
        count = min(count or 1, bottom - top + 1)
        if top == 0 and not self.alternate:
            self.scrollback.extend(self.kept(y) for y in range(count))
        self._move_lines(top, bottom, -count)

    def scroll_down(self, count: int | None = None) -> None:
        """Move the lines of the scroll region down. The last ones are lost."""
        top, bottom = self.margins or Margins(0, self.lines - 1)
        self._move_lines(top, bottom, count or 1)

    def insert_lines(self, count: int | None = None) -> None:
        self._change_lines(count or 1)

    def delete_lines(self, count: int | None = None) -> None:
        self._change_lines(-(count or 1))

    def insert_characters(self, count: int | None = None) -> None:
        super().insert_characters(count)
        self.buffer[self.cursor.y].pop(self.columns, None)  # pyte moves one cell too far

    def _change_lines(self, count: int) -> None:
        """Insert lines at the cursor, or delete them if `count` is negative."""
        top, bottom = self.margins or Margins(0, self.lines - 1)
        if top <= self.cursor.y <= bottom:
            self._move_lines(self.cursor.y, bottom, count)
            self.cursor.x = 0

    def _move_lines(self, top: int, bottom: int, count: int) -> None:
        """Move the lines from `top` to `bottom` by `count` lines, down if it is positive. What leaves them is lost."""
        moved = {y + count: line for y in range(top, bottom + 1) if (line := self.buffer.pop(y, None)) is not None}
        self.buffer.update((y, line) for y, line in moved.items() if top <= y <= bottom)

    def set_scroll_region(self, top: int | None = None, bottom: int | None = None) -> None:
        """Set the scroll region, or the whole screen, and go to the top left."""
        self.set_margins(top, bottom)
        self.cursor_position()

    def save_cursor(self) -> None:
        """Remember the place of the cursor; an older one is forgotten."""
        self._saved = Cursor(self.cursor.x, self.cursor.y, self.cursor.attrs)

    def restore_cursor(self) -> None:
        saved = self._saved or Cursor(0, 0, self.default_char)
        self.cursor.x, self.cursor.y, self.cursor.attrs = saved.x, saved.y, saved.attrs
        self.ensure_hbounds()
        self.ensure_vbounds()

    # -- erasing, modes and size -------------------------------------------------------------------------------------

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        if how > 2:  # pyte raises
            return
        line = self.buffer[self.cursor.y]
        if how != 1 and isinstance(line, Line):
            line.wraps = False
        super().erase_in_line(how, private)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how > 2:  # 3 is about the scrollback, and pyte raises for others
            return
        super().erase_in_display(how, *args, **kwargs)
        erased = {0: range(self.cursor.y + 1, self.lines), 1: range(self.cursor.y)}.get(how, range(self.lines))
        for y in erased:
            if isinstance(line := self.buffer.get(y), Line):
                line.wraps = False

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        modes = _settable(modes, kwargs)
        if kwargs.get("private") and _ALTERNATE_MODES & set(modes) and not self.alternate:
            self._main = (self.buffer, self.cursor, self.margins)
            self.buffer = self._blank_lines()
            self.cursor = Cursor(0, 0, self.default_char)
            self.margins = None
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        modes = _settable(modes, kwargs)
        if kwargs.get("private") and _ALTERNATE_MODES & set(modes) and self._main is not None:
            self.buffer, self.cursor, self.margins = self._main
            self._main = None
            self.ensure_hbounds()
            self.ensure_vbounds()
        super().reset_mode(*modes, **kwargs)

    def reset(self) -> None:
        """Reset everything but the scrollback."""
        self._main = self._saved = None
        super().reset()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size. Lines that no longer fit above the cursor leave the screen at the top.

        Cells beyond the last column stay in their lines.
        """
        lines, columns = lines or self.lines, columns or self.columns
        self.margins = None
        if (excess := self.cursor.y - lines + 1) > 0:
            self.scroll_up(excess)
            self.cursor.y -= excess
        for y in [y for y in self.buffer if y >= lines]:
            del self.buffer[y]
        self.tabstops |= set(range(8, columns, 8))
        self.lines, self.columns = lines, columns
        self.ensure_hbounds()

    def write_process_input(self, data: str) -> None:
        """Take a reply to a query; nobody reads it here."""


def _settable(modes: tuple[int, ...], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the modes that a program may change: pyte asserts on the origin mode, and resizes for the columns."""
    if kwargs.get("private"):
        return tuple(mode for mode in modes if mode not in (_ORIGIN_MODE, _COLUMNS_MODE))
    return tuple(mode for mode in modes if mode < _FIRST_PRIVATE)
