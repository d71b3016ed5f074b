"""Kitty's graphics protocol, as far as we speak it: send a picture, ask, take a picture away. Pure.

A picture is sent whole, in chunks, and is shown where its placeholders stand (`cells`); the terminal scales it into
them. Pictures are answered by nothing (`q=2`), and a question sent behind one is answered once it was taken.

Cells that stand for a part of a picture which the terminal has: kitty's Unicode placeholders. Pure, and small.

A cell is U+10EEEE and three marks: its row, its column, and the highest byte of the picture's number. The other bytes
are the cell's colour. That colour is put in at the choke point (`tui.terminal_io.strip_filter`), because what lies
under a dialog is tinted before. Without it a placeholder is nobody's, and becomes what no terminal draws.
"""

from __future__ import annotations

import base64
import zlib
from functools import lru_cache

from rich.color import Color
from rich.style import Style

from tui.terminal_io.escapes import graphics
from tui.terminal_io.graphics.picture_cells import Pixels

CHUNK = 4096
"""Characters of one part, as the protocol has it."""
LEVEL = 1
"""Of the compression: pages are flat, and a higher one costs more than it saves."""
QUESTION = 31
"""The number of the picture that is only asked about, and never kept."""
ASK = graphics(f"i={QUESTION},s=1,v=1,a=q,t=d,f=24", "AAAA")
ANSWER = graphics(f"i={QUESTION}", "OK")


def transmission(pixels: Pixels, number: int, columns: int, rows: int) -> str:
    """What has the terminal take a picture under a number, for placeholders of so many columns and rows."""
    packed = base64.b64encode(zlib.compress(pixels.rgb, LEVEL)).decode("ascii")
    parts = [packed[at : at + CHUNK] for at in range(0, len(packed), CHUNK)]
    size = f"s={pixels.width},v={pixels.height},c={columns},r={rows}"
    written = []
    for at, part in enumerate(parts):
        more = int(at < len(parts) - 1)
        told = f"a=T,U=1,q=2,f=24,o=z,i={number},{size},m={more}" if at == 0 else f"q=2,m={more}"
        written.append(graphics(told, part))
    return "".join(written)


def removal(number: int) -> str:
    """What has the terminal forget a picture and free its memory."""
    return graphics(f"a=d,d=I,i={number},q=2")


PLACEHOLDER = "\U0010eeee"
_RANGES = (
    "305 30d-30e 310 312 33d-33f 346 34a-34c 350-352 357 35b 363-36f 483-487 592-595 597-599 59c-5a1 5a8-5a9 5ab-5ac "
    "5af 5c4 610-617 657-65b 65d-65e 6d6-6dc 6df-6e2 6e4 6e7-6e8 6eb-6ec 730 732-733 735-736 73a 73d 73f-741 743 745 "
    "747 749-74a 7eb-7f1 7f3 816-819 81b-823 825-827 829-82d 951 953-954 f82-f83 f86-f87 135d-135f 17dd 193a 1a17 "
    "1a75-1a7c 1b6b 1b6d-1b73 1cd0-1cd2 1cda-1cdb 1ce0 1dc0-1dc1 1dc3-1dc9 1dcb-1dcc 1dd1-1de6 1dfe 20d0-20d1 "
    "20d4-20d7 20db-20dc 20e1 20e7 20e9 20f0 2cef-2cf1 2de0-2dff a66f a67c-a67d a6f0-a6f1 a8e0-a8f1 aab0 aab2-aab3 "
    "aab7-aab8 aabe-aabf aac1 fe20-fe26 10a0f 10a38 1d185-1d189 1d1aa-1d1ad 1d242-1d244"
)
"""The protocol's marks in their order: those above a letter that Unicode 6.0 has and that join with no letter."""


@lru_cache(1)
def marks() -> str:
    """The mark for each number from 0 on; 297 of them, which is how many rows and columns a picture may have."""
    found = []
    for part in _RANGES.split():
        first, _, last = part.partition("-")
        found += [chr(code) for code in range(int(first, 16), int(last or first, 16) + 1)]
    return "".join(found)


@lru_cache(16)
def placeholders(columns: int, rows: int, high: int) -> tuple[tuple[str, ...], ...]:
    """The cells of a whole picture, row by row. `high` is the highest byte of its number."""
    mark = marks()
    return tuple(
        tuple(PLACEHOLDER + mark[row] + mark[column] + mark[high] for column in range(columns)) for row in range(rows)
    )


class Ink:
    """The colour of all placeholders of this process: the lower bytes of its pictures' numbers."""

    def __init__(self) -> None:
        self.style: Style | None = None
        """None where the terminal draws no pictures."""
        self._low = 0

    def take(self, low: int, *, of_256: bool) -> None:
        """Have numbers end in these bytes: 24 bits, or a colour of the terminal's 256 where it has no others."""
        self._low = low
        self.style = Style(color=Color.from_ansi(low) if of_256 else Color.from_rgb(*low.to_bytes(3)))

    def number(self, high: int) -> int:
        """The number of a picture, by its highest byte."""
        return high << 24 | self._low


INK = Ink()
