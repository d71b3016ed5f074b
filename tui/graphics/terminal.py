"""Terminal: what the terminal that is drawn on can do with pictures, as far as it has answered.

It is asked once, when the first picture of a page is to be drawn, and may answer late, never, or with nonsense: until
it has said that it can, pictures are cells. An answer is believed only in its own form. Kitty's protocol is taken where
the terminal is one that is known to fill placeholders, because others answer for the protocol and draw the placeholders
as letters. Inside tmux nothing is asked, since tmux answers for itself: pictures are cells there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Literal, Protocol

from tui.display.escapes import ABOUT_PICTURES
from tui.graphics.kitty import ANSWER, ASK, removal

Way = Literal["kitty", "sixel", "blocks"]

FILLS_PLACEHOLDERS = ("kitty", "ghostty")
"""How the names of terminals begin that know Unicode placeholders."""
TAKEN_S = 2.0
"""How long a terminal may take a picture; one that says nothing by then gets the next one all the same."""
_NAME = re.compile(r"\x1b[P]>\|([\x20-\x7e]{1,64})\x1b\\")
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
    """One terminal. `write` sends to it, `setting` is `screen.pictures`."""

    def __init__(self, setting: str, environ: Mapping[str, str], write: Callable[[str], None]) -> None:
        self.on_change: Callable[[], None] | None = None
        """Called when pictures are to be drawn in another way than before."""
        self.cell = (0, 0)
        """Pixels of a cell, wide and high; zeros where the terminal has not said."""
        self.overlay: Overlay | None = None
        """Who has pixels over cells; a workspace has one browser pane."""
        self.kept: set[int] = set()
        """The numbers of the pictures that it has of us."""
        self.write = write
        self._setting = setting
        self._multiplexed = bool(environ.get("TMUX") or environ.get("STY"))
        term = environ.get("TERM", "")
        self._named = _is_known(term.removeprefix("xterm-")) or "KITTY_WINDOW_ID" in environ
        self._speaks_kitty = self._speaks_sixel = False
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
        self.write(ASK + ABOUT_PICTURES)
        return True

    def hear(self, answer: str) -> None:
        """Take what the terminal said by itself; what is no answer to our questions changes nothing."""
        before = self.way, self.cell
        if answer == ANSWER:
            self._speaks_kitty = True
            if self._taken is not None:
                self._taken.set()
        elif name := _NAME.fullmatch(answer):
            self._named = _is_known(name[1])
        elif device := _DEVICE.fullmatch(answer):
            self._speaks_sixel = "4" in device[1].split(";")
        elif size := _CELL.fullmatch(answer):
            cell = int(size[2]), int(size[1])
            if all(least <= told <= most for least, told, most in zip(SMALLEST_CELL, cell, LARGEST_CELL, strict=True)):
                self.cell = cell
        if (self.way, self.cell) != before and self.on_change is not None:
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
    return name.lower().startswith(FILLS_PLACEHOLDERS)
