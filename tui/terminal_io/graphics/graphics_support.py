"""Terminal: what the terminal that is drawn on can do with pictures, as far as it has answered.

It is asked once, when the first picture of a page is to be drawn, and may answer late, never, or with nonsense: until
it has said that it can, pictures are cells. An answer is believed only in its own form. Kitty's protocol is taken where
the terminal says that it is one that fills placeholders, because others answer for the protocol and draw the
placeholders as letters; what the environment says may be said of the terminal that this one was started from. Inside
tmux nothing is asked, since tmux answers for itself: pictures are cells there.

How large a cell of the terminal's window is, as the system has it: not every terminal answers that question.
"""

from __future__ import annotations

import asyncio
import fcntl
import re
import struct
import termios
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import IO, Any, Literal, Protocol

from tui.terminal_io.escapes import ABOUT_PICTURES
from tui.terminal_io.graphics.kitty import ANSWER, ASK, removal

Way = Literal["kitty", "sixel", "blocks"]

FILLS_PLACEHOLDERS = {"kitty": (0, 28), "ghostty": (0, 0)}
"""The terminals that know Unicode placeholders, and since which version."""
TAKEN_S = 2.0
"""How long a terminal may take a picture; one that says nothing by then gets the next one all the same."""
_NAME = re.compile(r"\x1b[P]>\|([\x20-\x7e]{1,64})\x1b\\")
_VERSION = re.compile(r"([a-z]+)[ (]*(\d{1,4})\.(\d{1,4})", re.IGNORECASE)
_CELL = re.compile(r"\x1b\[6;(\d{1,3});(\d{1,3})t")
_DEVICE = re.compile(r"\x1b\[\?(\d{1,3}(?:;\d{1,3})*)c")
SMALLEST_CELL, LARGEST_CELL = (4, 8), (64, 128)
"""Pixels, wide and high; a terminal that says otherwise is not believed."""


class Overlay(Protocol):
    """Who has pixels over cells."""

    def touched(self, update: object) -> None:
        """The screen is about to be updated: note whether that writes over the pixels."""
        ...

    def pixels(self) -> str:
        """What is to be written behind an update, for the pixels to be there; empty where they are, or may not be."""
        ...


class Terminal:
    """One terminal. `write` sends to it, `setting` is `screen.pictures`, `window` says how large a cell is."""

    def __init__(
        self,
        setting: str,
        environ: Mapping[str, str],
        write: Callable[[str], None],
        window: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self.on_change: Callable[[], None] | None = None
        """Called when pictures are to be drawn in another way than before."""
        self.cell = (0, 0)
        """Pixels of a cell, wide and high; zeros where neither the terminal nor the system has said."""
        self.overlay: Overlay | None = None
        """Who has pixels over cells; a workspace has one browser pane."""
        self.kept: set[int] = set()
        """The numbers of the pictures that it has of us."""
        self.write = write
        self._setting = setting
        self._multiplexed = bool(environ.get("TMUX") or environ.get("STY"))
        self._window, self._measured = window, (0, 0)
        self._named = self._speaks_kitty = self._speaks_sixel = False
        self._taken: asyncio.Event | None = None

    @property
    def way(self) -> Way:
        """How pictures of pages are drawn."""
        if self._speaks_kitty and (self._setting == "kitty" or (self._setting == "auto" and self._named)):
            return "kitty"
        if self._speaks_sixel and self._setting in ("auto", "sixel") and self.cell[0]:
            return "sixel"
        return "blocks"

    def ask(self) -> bool:
        """Ask what it can, where an answer could change anything. Answers whether it was asked."""
        if self._multiplexed or self._setting in ("blocks", "off"):
            return False
        self.measure()
        self.write(ASK + ABOUT_PICTURES)
        return True

    def measure(self) -> None:
        """Have cells be as large as the system says, where that has changed; what the terminal says comes later."""
        if (found := self._window()) != self._measured:
            self._measured = found
            self._take(found)

    def hear(self, answer: str) -> None:
        """Take what the terminal said by itself; what is no answer to our questions changes nothing."""
        before = self.way
        if answer == ANSWER:
            self._speaks_kitty = True
            if self._taken is not None:
                self._taken.set()
        elif name := _NAME.fullmatch(answer):
            self._named = _is_known(name[1])
        elif device := _DEVICE.fullmatch(answer):
            self._speaks_sixel = "4" in device[1].split(";")
        elif size := _CELL.fullmatch(answer):
            self._take((int(size[2]), int(size[1])))
        if self.way != before:
            self._changed()

    def _take(self, cell: tuple[int, int]) -> None:
        likely = all(low <= told <= high for low, told, high in zip(SMALLEST_CELL, cell, LARGEST_CELL, strict=True))
        if likely and cell != self.cell:
            self.cell = cell
            self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def remove(self, number: int) -> None:
        """Have it forget a picture."""
        self.kept.discard(number)
        self.write(removal(number))

    def send(self, picture: str, number: int) -> Coroutine[Any, Any, None]:
        """Write a picture of kitty's protocol. The answer returns once the terminal has taken it, or is silent."""
        self.kept.add(number)
        taken = self._taken = asyncio.Event()
        self.write(picture + ASK)
        return _soon(taken)


async def _soon(taken: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(TAKEN_S):
            await taken.wait()


def _is_known(name: str) -> bool:
    told = _VERSION.match(name)
    since = FILLS_PLACEHOLDERS.get(told[1].lower()) if told else None
    return told is not None and since is not None and (int(told[2]), int(told[3])) >= since


_SIZE = struct.Struct("HHHH")
"""Rows, columns, and pixels across and down."""


def cell_of(stream: IO[str] | None) -> Callable[[], tuple[int, int]]:
    """Asks for the pixels of a cell, wide and high; it says zeros where they are not known.

    xterm counts its inner border among the pixels, which is less than one for each row or column.
    """

    def asked() -> tuple[int, int]:
        if stream is None:
            return 0, 0
        try:
            told = fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, bytes(_SIZE.size))
        except (OSError, ValueError):  # it is no terminal, or closed
            return 0, 0
        rows, columns, across, down = _SIZE.unpack(told)
        return (across // columns, down // rows) if rows and columns else (0, 0)

    return asked
