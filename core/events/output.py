"""Command output for the model: bounded in memory, and as the text that a terminal would show in the end. No IO.

A command may print without end. Its head and tail are kept; the middle was shown live and is left out of the
observation, as in V0. Colours are removed.

Most output is lines, one after the other: nothing needs to be drawn. Where a program moves the cursor or erases, as
spinners, progress bars and editors do, a `TextScreen` draws it, a part at a time, and lines that left its top are kept
as text. Drawing takes at most a tenth of the time, so that a flood cannot stop the caller; what comes too fast to be
drawn is left out, and the last of it is drawn.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.events.observations import MAX_CMD_OUTPUT_CHARS, TRUNCATION_NOTICE, truncate_middle
from core.terminal import COLUMNS, ROWS

if TYPE_CHECKING:
    from core.terminal.text_screen import TextScreen

KEPT_BYTES = 256 * 1024
"""Bytes kept of each end: several times what the model sees, because of escape sequences."""
OPEN_BYTES = 16 * 1024
"""The newest bytes, which a later movement of the cursor may change: several screens. Drawing them takes some 10 ms."""
MAX_OPEN_BYTES = 64 * 1024
"""Bytes that may wait to be drawn."""
PAUSE = 9
"""The pause after drawing, in units of the time that drawing took."""
SEQUENCE_BYTES = 64
"""No real sequence is longer."""

_MOVES = re.compile(
    rb"""
      \r (?! [\r\n] | \Z )                             # back to the start of the line, without a line end
    | \x08
    | \x1b (?:
        \[ (?:
            [0-9;]* [@A-GHILMPSTXZ`abdefru]           # the cursor moves, cells are inserted, deleted or erased
          | [12] [JK]                                 # what is before the cursor is erased
          | \? (?: 47 | 1047 | 1049 ) [hl]            # the alternate screen
          | 4 h
        )
      | [8DEMc]
      )
    """,
    re.VERBOSE,
)
"""What makes the end of a line or the line below it the wrong place for the next text. Each branch begins with a fixed
byte, so that other text is passed over five times as fast."""
_ESCAPE = re.compile(
    r"""
      \x1b\[ [0-?]* [ -/]* [@-~]                      # CSI: colours, cursor
    | \x1b\] [^\x07\x1b]* (?: \x07 | \x1b\\ )         # OSC: titles, links
    | \x1b[PX^_] [^\x1b]* \x1b\\                      # DCS, SOS, PM, APC
    | \x1b [ -/]* [0-~]                               # a single one
    """,
    re.VERBOSE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class OutputBuffer:
    """Collects output bytes, using at most three times KEPT_BYTES of memory, and what waits to be drawn.

    `rows` and `columns` are the size of the program's terminal.
    """

    def __init__(
        self,
        kept_bytes: int = KEPT_BYTES,
        *,
        rows: int = ROWS,
        columns: int = COLUMNS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kept = kept_bytes
        self._size = rows, columns
        self._clock = clock
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = False
        self._open = bytearray()
        """The newest bytes: neither in head or tail nor drawn."""
        self._moves = False
        """Whether the open bytes have to be drawn."""
        self._screen: TextScreen | None = None
        """What was drawn last, if more may be drawn on it."""
        self._free_at = float("-inf")
        """When the next part may be drawn, by the clock."""
        self.was_cut = False
        """Whether the last `take` left something out."""

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the program's terminal."""
        self._size = rows, columns
        if self._screen is not None:
            self._screen.resize(rows, columns)

    def feed(self, data: bytes) -> None:
        before = len(self._open)
        self._open += data
        if not self._moves:
            self._moves = _MOVES.search(self._open, max(0, before - SEQUENCE_BYTES)) is not None
        if len(self._open) <= OPEN_BYTES:
            return
        if not self._moves:
            self._keep_lines()
        elif self._clock() >= self._free_at:
            self._draw()
        elif len(self._open) > MAX_OPEN_BYTES:
            self._skip()

    def last(self, lines: int) -> str:
        """Return the last lines that the next `take` would return, which stay. In a flood they may be a little old."""
        if self._moves and (len(self._open) <= OPEN_BYTES or self._clock() >= self._free_at):
            self._draw()
        before = b"" if self._dropped else bytes(self._head[-OPEN_BYTES:])
        newest = self._screen.text().encode("utf-8", "replace") if self._screen is not None else bytes(self._open)
        text = _plain((before + bytes(self._tail[-OPEN_BYTES:]) + newest)[-OPEN_BYTES:])
        return "\n".join(text.split("\n")[-lines:])

    def take(self, *, whole: bool = False) -> str:
        """Return and clear the text since the last call.

        Without `whole`, the middle is cut to what a model sees; with it, only to what fits in memory. A program that
        shows the alternate screen goes on with it: the next call returns the whole screen again.
        """
        if self._moves:
            self._draw()
        if (screen := self._screen) is not None:
            self._store(screen.text().encode("utf-8", "replace"))
            if screen.alternate:
                screen.forget_main()
            else:
                self._screen, self._moves = None, False
        self._store(bytes(self._open))
        self._open.clear()
        head, tail, dropped = bytes(self._head), bytes(self._tail), self._dropped
        self._head.clear()
        self._tail.clear()
        self._dropped = False
        if not dropped:
            text = _plain(head + tail)
            self.was_cut = not whole and len(text) > MAX_CMD_OUTPUT_CHARS
            return truncate_middle(text) if self.was_cut else text
        self.was_cut = True
        first, last = _plain(head), _plain(tail)
        if not whole and len(first) + len(last) > MAX_CMD_OUTPUT_CHARS:
            return truncate_middle(first + last)
        return first + TRUNCATION_NOTICE + last

    def forget_screen(self) -> None:
        """Forget the alternate screen of a program that has ended without leaving it; keep what another one left."""
        if self._screen is None:
            return
        self._draw()  # the open bytes may leave the alternate screen
        if (screen := self._screen) is not None:
            if not screen.alternate:
                self._store(f"{screen.text()}\n".encode("utf-8", "replace"))
            self._screen, self._moves = None, False

    def clear(self) -> None:
        """Drop everything."""
        for part in (self._head, self._tail, self._open):
            part.clear()
        self._dropped = self._moves = False
        self._screen = None

    def _keep_lines(self) -> None:
        """Keep all but the newest lines as they are."""
        end = self._open.rfind(b"\n", 0, max(0, len(self._open) - OPEN_BYTES // 2)) + 1
        if end == 0 and len(self._open) > MAX_OPEN_BYTES:
            end = len(self._open)
        self._store(bytes(self._open[:end]))
        del self._open[:end]

    def _draw(self) -> None:
        """Draw the open bytes, and keep the lines that left the screen."""
        from core.terminal.text_screen import TextScreen

        if len(self._open) > MAX_OPEN_BYTES:
            self._skip()
        began = self._clock()
        screen = self._screen or TextScreen(*self._size)
        screen.feed(bytes(self._open))
        self._open.clear()
        self._store(screen.take_scrolled().encode("utf-8", "replace"))
        self._screen = screen
        if screen.is_plain:
            self._open += screen.text().replace("\n", "\r\n").encode("utf-8", "replace")
            if self._open and screen.cursor.x == 0:
                self._open += b"\r\n"
            self._screen, self._moves = None, False
        ended = self._clock()
        self._free_at = ended + PAUSE * (ended - began)

    def _skip(self) -> None:
        """Leave out the older part of the open bytes, up to the start of a line if there is one."""
        start = len(self._open) - OPEN_BYTES
        for mark in (b"\n", b"\r", b"\x1b"):
            if (at := self._open.find(mark, start)) >= 0:
                start = at
                break
        del self._open[:start]
        self._tail.clear()
        self._dropped = True

    def _store(self, data: bytes) -> None:
        room = 0 if self._dropped else self._kept - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._kept :]
        self._dropped = self._dropped or len(data) > self._kept
        if len(self._tail) > 2 * self._kept:
            self._dropped = True
            del self._tail[: -self._kept]


def plain_text(data: bytes, *, rows: int = ROWS, columns: int = COLUMNS) -> str:
    """Return what a terminal shows after these bytes, without trailing white space.

    Escape sequences are carried out or removed, and bytes that are not UTF-8 are replaced.
    """
    buffer = OutputBuffer(max(KEPT_BYTES, len(data)), rows=rows, columns=columns, clock=float)  # with no pauses
    for at in range(0, len(data), OPEN_BYTES):
        buffer.feed(data[at : at + OPEN_BYTES])
    return buffer.take(whole=True)


def _plain(data: bytes) -> str:
    """Return lines as text, in which nothing moves the cursor."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return _CONTROL.sub("", text).rstrip()
