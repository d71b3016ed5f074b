"""What the terminal can do with pictures, as far as it has replied.

It is queried once, when the first picture of a page is drawn, and may reply late, never, or with nonsense: until it has
said that it can, pictures are cells. Kitty's protocol is used only if the terminal's name is one that fills
placeholders, because others support the protocol and draw the placeholders as letters. The environment is not evidence:
it may be that of the terminal which started this one. Inside tmux nothing is queried, since tmux answers for itself:
pictures are cells there.
"""

from __future__ import annotations

import asyncio
import fcntl
import re
import struct
import termios
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import IO, Any, Literal

from tui.terminal_io.escapes import QUERY_IMAGES
from tui.terminal_io.graphics.kitty import QUERY, QUERY_REPLY, deletion

Method = Literal["kitty", "iterm2", "sixel", "blocks"]

PLACEHOLDER_TERMINALS = {"kitty": (0, 28), "ghostty": (0, 0)}
"""The terminals that know Unicode placeholders, and since which version."""
INLINE_TERMINALS = ("iterm2", "wezterm", "mintty")
"""The beginnings of the names of terminals that know iTerm2's inline images; the first one has no better way."""
READ_TIMEOUT_S = 2.0
"""How long a terminal may take to read a picture; after that it gets the next one without a reply."""
_NAME = re.compile(r"\x1b[P]>\|([\x20-\x7e]{1,64})\x1b\\")
_VERSION = re.compile(r"([a-z]+)[ (]*(\d{1,4})\.(\d{1,4})", re.IGNORECASE)
_CELL = re.compile(r"\x1b\[6;(\d{1,3});(\d{1,3})t")
_DEVICE = re.compile(r"\x1b\[\?(\d{1,3}(?:;\d{1,3})*)c")
_WINDOW_SIZE = struct.Struct("HHHH")
"""Rows, columns, width and height in pixels."""
SMALLEST_CELL, LARGEST_CELL = (4, 8), (64, 128)
"""Plausible widths and heights of a cell, in pixels."""


class GraphicsTerminal:
    """The terminal. `write` sends to it, `setting` is `screen.pictures`, `measure_cell` returns the size of a cell."""

    def __init__(
        self,
        setting: str,
        environ: Mapping[str, str],
        write: Callable[[str], None],
        measure_cell: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self.on_change: Callable[[], None] | None = None
        """Called when pictures are to be drawn by another method, or cells have another size."""
        self.cell = (0, 0)
        """Width and height of a cell in pixels; zeros if neither the terminal nor the system has said."""
        self.picture_ids: set[int] = set()
        self.write = write
        self._setting = setting
        self._is_multiplexed = bool(environ.get("TMUX") or environ.get("STY"))
        self._measure_cell, self._measured = measure_cell, (0, 0)
        self._fills_placeholders = self._has_kitty = self._has_sixel = False
        self._name = ""
        self._read: asyncio.Event | None = None

    @property
    def method(self) -> Method:
        if self._has_kitty and (self._setting == "kitty" or (self._setting == "auto" and self._fills_placeholders)):
            return "kitty"
        known = INLINE_TERMINALS if self._setting == "iterm2" else INLINE_TERMINALS[:1]
        if self._name.startswith(known) and self._setting in ("auto", "iterm2"):
            return "iterm2"
        if self._has_sixel and self._setting in ("auto", "sixel") and self.cell[0]:
            return "sixel"
        return "blocks"

    def query(self) -> None:
        """Ask what it can do, if a reply could change anything."""
        if not self._is_multiplexed and self._setting not in ("blocks", "off"):
            self.measure()
            self.write(QUERY + QUERY_IMAGES)

    def measure(self) -> None:
        """Take the size of a cell from the system if that has changed; a reply of the terminal comes later."""
        if (cell := self._measure_cell()) != self._measured:
            self._measured = cell
            self._set_cell(cell)

    def handle_reply(self, reply: str) -> None:
        """Take note of a reply; one to nobody's query changes nothing."""
        before = self.method
        if reply == QUERY_REPLY:
            self._has_kitty = True
            if self._read is not None:
                self._read.set()
        elif name := _NAME.fullmatch(reply):
            self._name = name[1].lower()
            self._fills_placeholders = _fills_placeholders(self._name)
        elif device := _DEVICE.fullmatch(reply):
            self._has_sixel = "4" in device[1].split(";")
        elif size := _CELL.fullmatch(reply):
            self._set_cell((int(size[2]), int(size[1])))
        if self.method != before:
            self._changed()

    def _set_cell(self, cell: tuple[int, int]) -> None:
        plausible = all(low <= px <= high for low, px, high in zip(SMALLEST_CELL, cell, LARGEST_CELL, strict=True))
        if plausible and cell != self.cell:
            self.cell = cell
            self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def delete(self, picture_id: int) -> None:
        self.picture_ids.discard(picture_id)
        self.write(deletion(picture_id))

    def send(self, picture: str, picture_id: int) -> Coroutine[Any, Any, None]:
        """Write a picture of kitty's protocol now. The result returns when the terminal has read it, or is silent."""
        self.picture_ids.add(picture_id)
        read = self._read = asyncio.Event()
        self.write(picture + QUERY)
        return _wait_until_read(read)


async def _wait_until_read(read: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(READ_TIMEOUT_S):
            await read.wait()


def _fills_placeholders(name: str) -> bool:
    version = _VERSION.match(name)
    since = PLACEHOLDER_TERMINALS.get(version[1].lower()) if version else None
    return version is not None and since is not None and (int(version[2]), int(version[3])) >= since


def cell_size(stream: IO[str] | None) -> tuple[int, int]:
    """Return the width and height of a cell in pixels, as the system has them; zeros if unknown.

    xterm counts its inner border among the pixels, which is less than one for each row or column.
    """
    if stream is None:
        return 0, 0
    try:
        window = fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, bytes(_WINDOW_SIZE.size))
    except (OSError, ValueError):  # no terminal, or closed
        return 0, 0
    rows, columns, width, height = _WINDOW_SIZE.unpack(window)
    return (width // columns, height // rows) if rows and columns else (0, 0)
