"""The emulator that uses pyte, with what pyte lacks or gets wrong.

`ControlFilter` rewrites the byte stream for pyte 0.8, which prints the bodies of DCS, APC, PM and SOS strings, reads
`4:3m` as text, raises TypeError for private SGR, and ignores REP. `Screen` adds an alternate screen and a scrollback.
"""

from __future__ import annotations

import codecs
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pyte
from pyte.screens import Char, Cursor, StaticDefaultDict

from tui.terminal_io.emulator import (
    MAX_COMBINING,
    MAX_REPLIES_BYTES,
    PLAIN,
    SCROLLBACK_LINES,
    Emulator,
    Run,
    RunStyle,
)

_ORIGIN_MODE = 6
_ALTERNATE_MODES = frozenset({47, 1047, 1049})
MAX_PENDING = 4096
"""Characters of an unfinished sequence that are kept; no real sequence is longer."""
MAX_REPEAT = 1000
"""How often REP may draw its character: wider than any screen."""

_STRING = r"\x1b[PX\]^_]"
_SEQUENCE = re.compile(
    rf"(?P<string>{_STRING}[^\x07\x1b\x18\x1a]*(?:\x07|\x1b\\|\x18|\x1a|(?=\x1b)))"
    r"|\x1b\[(?P<private>[<=>?]?)(?P<args>[0-9;:]*)(?P<middle>[ -/]*)(?P<final>[@-~])"
    r"|(?P<c1>[\x80-\x9f])|(?P<broken>\x1b\[|\x1b(?=\x1b))"
)
_UNFINISHED = re.compile(rf"(?:{_STRING}[^\x07\x1b\x18\x1a]*|\x1b\[[<=>?]?[0-9;:]*[ -/]*|\x1b)\Z")
_STRING_START = re.compile(_STRING)
_STRING_END = re.compile(r"\x07|\x1b\\?|\x18|\x1a")
_REPEATED = re.compile(r"([^\x00-\x1f\x7f])\x1b\[([0-9]{0,4})b")
_PRIVATE_KNOWN = frozenset("hlJK")
_MAX_ARGUMENTS = dict.fromkeys("@ABCDEFGJKLMPXacdegn'`", 1) | dict.fromkeys("Hfr", 2)
"""How many numbers pyte's methods take; one more is a TypeError there."""


class ControlFilter:
    """Turns bytes, cut anywhere, into text that pyte understands. Linear in its input."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""
        self._in_string = False

    def feed(self, data: bytes) -> str:
        """Return printable characters, C0 controls, and the sequences that pyte handles."""
        text = self._pending + self._decode(data)
        self._pending = ""
        if self._in_string:
            text = self._leave_string(text)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - MAX_PENDING))
        if unfinished:
            text = text[: unfinished.start()]
            if _STRING_START.match(unfinished[0]):
                self._in_string = True
            else:
                self._pending = unfinished[0]
        elif (start := _open_string(text)) is not None:
            self._in_string, text = True, text[:start]
        text = _REPEATED.sub(lambda m: m[1] * (1 + min(int(m[2] or 1), MAX_REPEAT)), text)
        return _SEQUENCE.sub(_translate, text)

    def _leave_string(self, text: str) -> str:
        """Drop what still belongs to a control string that began in an earlier call."""
        end = _STRING_END.search(text)
        if end is None:
            return ""
        if end[0] == "\x1b" and end.end() == len(text):
            self._pending = "\x1b"
            return ""
        self._in_string = False
        return text[end.start() :] if end[0] == "\x1b" else text[end.end() :]


def _open_string(text: str) -> int | None:
    """Find a control string that does not end in this text and is longer than what `_UNFINISHED` looks at."""
    start = max(text.rfind(f"\x1b{kind}") for kind in "PX]^_")
    return None if start < 0 or _STRING_END.search(text, start + 2) else start


def _translate(match: re.Match[str]) -> str:
    if match["string"] or match["broken"]:
        return ""
    if match["c1"]:
        return "\N{REPLACEMENT CHARACTER}"
    private, args, final = match["private"], match["args"], match["final"]
    if match["middle"] or final == "b" or (private and (private != "?" or final not in _PRIVATE_KNOWN)):
        return ""
    if ":" in args:
        args = _without_colons(args)
    # An absurd number costs pyte a loop of that length, or a crash in int().
    numbers = args.split(";")[: _MAX_ARGUMENTS.get(final)]
    return f"\x1b[{private}{';'.join(number[-4:] for number in numbers)}{final}"


def _without_colons(args: str) -> str:
    """Rewrite sub-parameters for pyte: `4:3` is underlined, `38:2::1:2:3` is `38;2;1;2;3`."""
    out = []
    for part in args.split(";"):
        numbers = part.split(":")
        if numbers[0] in ("38", "48") and len(numbers) > 2:
            count = 3 if numbers[1] == "2" else 1
            out.append(";".join([*numbers[:2], *[n or "0" for n in numbers[2:]][-count:]]))
        elif numbers[0] == "4" and numbers[1:2] == ["0"]:
            out.append("24")
        elif numbers[0] != "58":
            out.append(numbers[0])
    return ";".join(out)


class Screen(pyte.Screen):
    """pyte's screen with an alternate screen, and a scrollback of at most `limit` lines.

    The scrollback has the lines that left the top of the main screen, as runs; lines of the alternate screen and of
    scroll regions never get there. pyte's own HistoryScreen is five times slower.
    """

    def __init__(self, columns: int, lines: int, limit: int) -> None:
        self.scrollback: deque[tuple[Run, ...]] = deque(maxlen=limit)
        self.replies = b""
        self._main: tuple[Any, Cursor, Any] | None = None
        super().__init__(columns, lines)

    @property
    def alternate(self) -> bool:
        return self._main is not None

    def has_private_mode(self, mode: int) -> bool:
        return mode << 5 in self.mode

    def write_process_input(self, data: str) -> None:
        self.replies = (self.replies + data.encode())[-MAX_REPLIES_BYTES:]

    def index(self) -> None:
        bottom = self.margins.bottom if self.margins else self.lines - 1
        if self.cursor.y == bottom and not self.alternate and (self.margins is None or self.margins.top == 0):
            self.scrollback.append(self.runs(0))
        super().index()

    def draw(self, data: str) -> None:
        """Draw text; of a flood of combining marks the rest is cut, because pyte would put them all into one cell."""
        super().draw(data)
        position = min(self.cursor.x, self.columns) - 1
        line = self.buffer[self.cursor.y]
        if position >= 0 and len(line[position].data) > 1 + MAX_COMBINING:
            line[position] = line[position]._replace(data=line[position].data[: 1 + MAX_COMBINING])

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        if how <= 2:  # pyte raises for others
            super().erase_in_line(how, private)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how <= 3:  # pyte raises for others
            super().erase_in_display(how, *args, **kwargs)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        if kwargs.get("private"):
            modes = tuple(mode for mode in modes if mode != _ORIGIN_MODE)  # pyte asserts on it
            if _ALTERNATE_MODES & set(modes) and not self.alternate:
                self._main = (self.buffer, self.cursor, self.margins)
                self.buffer = defaultdict(lambda: StaticDefaultDict[int, Char](self.default_char))
                self.cursor = Cursor(0, 0)
                self.margins = None
                self.dirty.update(range(self.lines))
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        if kwargs.get("private") and _ALTERNATE_MODES & set(modes) and self._main is not None:
            self.buffer, self.cursor, self.margins = self._main
            self._main = None
            self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **kwargs)

    def reset(self) -> None:
        """Reset everything but the scrollback."""
        self._main = None
        super().reset()

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
        self.screen = Screen(columns, lines, SCROLLBACK_LINES)
        self._stream = pyte.Stream(self.screen)
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
