"""TextScreen: what a terminal shows, as text, with what left its top. Bounded by the screen and what was fed."""

from __future__ import annotations

from typing import Any

from core.terminal import COLUMNS, ROWS
from core.terminal.control_filter import ControlFilter
from core.terminal.screen import Line, Screen, Stream


class TextScreen(Screen):
    """A terminal without styles. Lines that only wrapped are put together again.

    What is cleared is kept, as in tmux: a command that clears the screen at its end has printed what it printed.
    """

    def __init__(self, rows: int = ROWS, columns: int = COLUMNS) -> None:
        super().__init__(columns, rows)
        self._filter = ControlFilter()
        self._stream = Stream(self)

    def feed(self, data: bytes) -> None:
        """Draw bytes, which may end within a sequence."""
        self._stream.feed(self._filter.feed(data))

    def take_scrolled(self) -> str:
        """Return and forget the lines that left the screen since the last call, each with its line end."""
        text = "".join(self.scrollback)
        self.scrollback.clear()
        return text

    def text(self) -> str:
        """Return the lines on the screen, without blank ones at the end; with an alternate screen, both."""
        main = self._main[0] if self._main is not None else self.buffer
        text = self._joined(main)
        if not self.alternate:
            return text
        return f"{text}\n{self._joined(self.buffer)}" if text else self._joined(self.buffer)

    @property
    def is_plain(self) -> bool:
        """Whether the same text on a new screen would lead to the same: the cursor is at its end."""
        if self.alternate or self.margins is not None or not self._filter.is_idle:
            return False
        rows = _rows_used(self.buffer)
        line: Any = self.buffer.get(self.cursor.y, {})
        end = 1 + max((x for x, cell in line.items() if cell.data != " "), default=-1)
        return (self.cursor.y, self.cursor.x) in ((rows, 0), (rows - 1, end))

    def forget_main(self) -> None:
        """Forget what the main screen shows below an alternate one."""
        if self._main is not None:
            _buffer, cursor, margins = self._main
            cursor.x = cursor.y = 0
            self._main = (self._blank_lines(), cursor, margins)

    def kept(self, y: int) -> str:
        return self._row_with_end(self.buffer, y)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        line, at = self.buffer.get(self.cursor.y), self.cursor.x
        if how == 2 or line is None:
            self.buffer.pop(self.cursor.y, None)
        elif how < 2:
            for x in [x for x in line if (x >= at if how == 0 else x <= at)]:
                del line[x]
            if how == 0 and isinstance(line, Line):
                line.wraps = False

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == 2:
            self._keep_all()
            self.buffer.clear()
        elif how < 2:
            for y in range(self.cursor.y + 1, self.lines) if how == 0 else range(self.cursor.y):
                self.buffer.pop(y, None)
            self.erase_in_line(how)

    def reset(self) -> None:
        self._keep_all()
        super().reset()

    def select_graphic_rendition(self, *attrs: int) -> None:
        """Ignore styles."""

    def _keep_all(self) -> None:
        if not self.alternate:
            used = [y for y, line in self.buffer.items() if _is_used(line)]
            self.scrollback.extend(self.kept(y) for y in range(min(used, default=0), max(used, default=-1) + 1))

    def _joined(self, buffer: Any) -> str:
        return "".join(self._row_with_end(buffer, y) for y in range(_rows_used(buffer))).removesuffix("\n")

    def _row_with_end(self, buffer: Any, y: int) -> str:
        line = buffer.get(y)
        is_wrapped = isinstance(line, Line) and line.wraps
        return self._row(buffer, y) + ("" if is_wrapped else "\n")

    def _row(self, buffer: Any, y: int) -> str:
        line = buffer.get(y)
        if not line:
            return ""
        text = "".join(line[x].data for x in range(max(line) + 1))
        return text if line.wraps else text.rstrip(" ")


def _rows_used(buffer: Any) -> int:
    """Return the number of rows down to the last one that is not blank."""
    return 1 + max((y for y, line in buffer.items() if _is_used(line)), default=-1)


def _is_used(line: Any) -> bool:
    return any(cell.data.strip(" ") for cell in line.values())
