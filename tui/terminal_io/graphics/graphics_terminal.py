"""What the terminal can do with pictures, as far as it has replied.

It is queried once, when the first picture of a page is drawn, and may reply late, never, or with nonsense: until it has
said that it can, pictures are cells. Kitty's protocol is used only if the terminal's name is one that fills
placeholders, because others support the protocol and draw the placeholders as letters. The environment is not evidence:
it may be that of the terminal which started this one.

Inside tmux the terminal is not queried, since tmux answers for itself. tmux knows the outer terminal's name, and passes
kitty's protocol on if its option `allow-passthrough` is on; the placeholders are text, which tmux moves and covers like
other text. Pixels over cells are not used there, because tmux does not know of them.
"""

from __future__ import annotations

import asyncio
import fcntl
import re
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Literal

from tui.terminal_io.escapes import QUERY_IMAGES, graphics_commands, through_tmux
from tui.terminal_io.glyphs import IN_CELLS
from tui.terminal_io.graphics.kitty import QUERY, QUERY_REPLY, deletion

Method = Literal["kitty", "iterm2", "sixel", "blocks"]

PLACEHOLDER_TERMINALS = {"kitty": (0, 28), "ghostty": (0, 0)}
"""The terminals that know Unicode placeholders, and since which version."""
INLINE_TERMINALS = ("iterm2", "wezterm", "mintty")
"""The beginnings of the names of terminals that know iTerm2's inline images; the first one has no better way."""
SEXTANT_TERMINALS = ("kitty", "ghostty", "wezterm", "foot", "contour")
"""The beginnings of the names of terminals that draw sextants themselves, so that no font has to have them."""
SEXTANTS_IN_VTE = 6600
"""The version since which VTE, the terminal of GNOME and others, does so too."""
READ_TIMEOUT_S = 2.0
"""How long a terminal may take to read a picture; after that it gets the next one without a reply."""
TMUX_COMMANDS, TMUX_PAUSE_S = 4, 0.005
"""How much is written at once inside tmux, and the pause behind it: 16 KB, of which tmux drops none."""
_NAME = re.compile(r"\x1b[P]>\|([\x20-\x7e]{1,64})\x1b\\")
_VERSION = re.compile(r"([a-z]+)[ (]*(\d{1,4})\.(\d{1,4})", re.IGNORECASE)
_VTE = re.compile(r"vte\((\d{4,6})\)")
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
        self.is_in_tmux = bool(environ.get("TMUX"))
        self._is_multiplexed = self.is_in_tmux or bool(environ.get("STY"))
        self._measure_cell, self._measured = measure_cell, (0, 0)
        self._fills_placeholders = self._has_kitty = self._has_sixel = False
        self._name = ""
        self._read: asyncio.Event | None = None

    @property
    def method(self) -> Method:
        if self._has_kitty and (self._setting == "kitty" or (self._setting == "auto" and self._fills_placeholders)):
            return "kitty"
        known = INLINE_TERMINALS if self._setting == "iterm2" else INLINE_TERMINALS[:1]
        if self.is_in_tmux:
            return "blocks"
        if self._name.startswith(known) and self._setting in ("auto", "iterm2"):
            return "iterm2"
        if self._has_sixel and self._setting in ("auto", "sixel") and self.cell[0]:
            return "sixel"
        return "blocks"

    @property
    def draws_sextants(self) -> bool:
        """Whether pictures in cells can be drawn in sextants."""
        if self._setting != "auto":
            return False
        vte = _VTE.match(self._name)
        return self._name.startswith(SEXTANT_TERMINALS) or (vte is not None and int(vte[1]) >= SEXTANTS_IN_VTE)

    def query(self) -> None:
        """Ask what it can do, if a reply could change anything."""
        if self._setting in IN_CELLS:
            return
        self.measure()
        if not self._is_multiplexed:
            self.write(QUERY + QUERY_IMAGES)

    def name_outer_terminal(self, name: str) -> None:
        """Take note of the terminal around tmux, as `outer_terminal` returned it."""
        before = self._looks
        self._name = name.lower()
        self._fills_placeholders = self._has_kitty = _fills_placeholders(self._name)
        if self._looks != before:
            self._changed()

    @property
    def _looks(self) -> tuple[Method, bool]:
        return self.method, self.draws_sextants

    def measure(self) -> None:
        """Take the size of a cell from the system if that has changed; a reply of the terminal comes later."""
        if (cell := self._measure_cell()) != self._measured:
            self._measured = cell
            self._set_cell(cell)

    def handle_reply(self, reply: str) -> None:
        """Take note of a reply; one to nobody's query changes nothing."""
        before = self._looks
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
        if self._looks != before:
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
        self._command(deletion(picture_id))

    async def send(self, picture: str, picture_id: int) -> None:
        """Write a picture of kitty's protocol: at once, or inside tmux in pieces, because tmux drops larger ones."""
        self.picture_ids.add(picture_id)
        self._read = asyncio.Event()
        if not self.is_in_tmux:
            self.write(picture + QUERY)
            return
        for piece in batched(graphics_commands(picture), TMUX_COMMANDS):
            self._command("".join(piece))
            await asyncio.sleep(TMUX_PAUSE_S)

    async def wait_until_read(self) -> None:
        """Return when the terminal has read the last picture, or is silent. tmux keeps the reply to itself."""
        if self._read is not None and not self.is_in_tmux:
            with suppress(TimeoutError):
                async with asyncio.timeout(READ_TIMEOUT_S):
                    await self._read.wait()

    def _command(self, sequences: str) -> None:
        if self.is_in_tmux:
            sequences = "".join(map(through_tmux, graphics_commands(sequences)))
        self.write(sequences)


def batched(parts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The parts in groups of `size`."""
    return (parts[at : at + size] for at in range(0, len(parts), size))


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


TMUX_TIMEOUT_S = 2.0


def outer_terminal(environ: Mapping[str, str]) -> str:
    """Return the name and version of the terminal around tmux; empty if tmux does not know, or passes nothing on.

    Blocks for milliseconds, for at most TMUX_TIMEOUT_S.
    """
    asked = "#{allow-passthrough}\t#{client_termtype}"
    command = ["tmux", "display-message", "-p", "-t", environ.get("TMUX_PANE", ""), asked]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TMUX_TIMEOUT_S).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    passes, _, name = told.rstrip("\n").partition("\t")
    return "" if passes in ("", "0", "off") else name  # tmux 3.3 says 1, later ones on or all
