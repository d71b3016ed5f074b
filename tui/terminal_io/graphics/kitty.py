"""Kitty's graphics protocol, as far as Handloom uses it: send, query and delete a picture. Pure.

A picture is sent whole, in chunks, and shown where its placeholder cells are; the terminal scales it into them. Sending
gets no reply (`q=2`); a query behind it is answered once the picture was read.

A placeholder cell is U+10EEEE and three diacritics: its row, its column, and the highest byte of the picture's id. The
other bytes are the cell's colour, which is set in `tui.terminal_io.strip_filter`, because what lies under a dialog is
tinted before. Without that colour a placeholder belongs to no picture of ours and is replaced.
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
"""The protocol's limit of a chunk, in characters."""
LEVEL = 1
"""Of compression: pages are flat, and a higher level takes longer than it saves."""
QUERY_ID = 31
QUERY = graphics(f"i={QUERY_ID},s=1,v=1,a=q,t=d,f=24", "AAAA")
QUERY_REPLY = graphics(f"i={QUERY_ID}", "OK")
PLACEHOLDER = "\U0010eeee"
_RANGES = (
    "305 30d-30e 310 312 33d-33f 346 34a-34c 350-352 357 35b 363-36f 483-487 592-595 597-599 59c-5a1 5a8-5a9 5ab-5ac "
    "5af 5c4 610-617 657-65b 65d-65e 6d6-6dc 6df-6e2 6e4 6e7-6e8 6eb-6ec 730 732-733 735-736 73a 73d 73f-741 743 745 "
    "747 749-74a 7eb-7f1 7f3 816-819 81b-823 825-827 829-82d 951 953-954 f82-f83 f86-f87 135d-135f 17dd 193a 1a17 "
    "1a75-1a7c 1b6b 1b6d-1b73 1cd0-1cd2 1cda-1cdb 1ce0 1dc0-1dc1 1dc3-1dc9 1dcb-1dcc 1dd1-1de6 1dfe 20d0-20d1 "
    "20d4-20d7 20db-20dc 20e1 20e7 20e9 20f0 2cef-2cf1 2de0-2dff a66f a67c-a67d a6f0-a6f1 a8e0-a8f1 aab0 aab2-aab3 "
    "aab7-aab8 aabe-aabf aac1 fe20-fe26 10a0f 10a38 1d185-1d189 1d1aa-1d1ad 1d242-1d244"
)
"""The protocol's diacritics in their order."""


def transmission(pixels: Pixels, picture_id: int, columns: int, rows: int) -> str:
    """Return what sends a picture, for placeholders of so many columns and rows."""
    packed = base64.b64encode(zlib.compress(pixels.rgb, LEVEL)).decode("ascii")
    chunks = [packed[at : at + CHUNK] for at in range(0, len(packed), CHUNK)]
    size = f"s={pixels.width},v={pixels.height},c={columns},r={rows}"
    written = []
    for at, chunk in enumerate(chunks):
        more = int(at < len(chunks) - 1)
        control = f"a=T,U=1,q=2,f=24,o=z,i={picture_id},{size},m={more}" if at == 0 else f"q=2,m={more}"
        written.append(graphics(control, chunk))
    return "".join(written)


def deletion(picture_id: int) -> str:
    """Return what deletes a picture and frees its memory."""
    return graphics(f"a=d,d=I,i={picture_id},q=2")


@lru_cache(1)
def diacritics() -> str:
    """Return the diacritic of each number from 0 on; 297 of them, so a picture has at most as many rows and columns."""
    found = []
    for part in _RANGES.split():
        first, _, last = part.partition("-")
        found += [chr(code) for code in range(int(first, 16), int(last or first, 16) + 1)]
    return "".join(found)


@lru_cache(16)
def placeholders(columns: int, rows: int, high_byte: int) -> tuple[tuple[str, ...], ...]:
    """Return the cells of a whole picture, row by row; `high_byte` is the highest byte of its id."""
    marks = diacritics()
    return tuple(
        tuple(PLACEHOLDER + marks[row] + marks[column] + marks[high_byte] for column in range(columns))
        for row in range(rows)
    )


class PictureIds:
    """The ids of this process's pictures. They share their lower bytes, which are the colour of all placeholders."""

    def __init__(self) -> None:
        self.style: Style | None = None
        """The style of placeholders; None if the terminal draws no pictures."""
        self._low_bytes = 0

    def choose(self, low_bytes: int, *, of_256: bool) -> None:
        """Set the lower bytes: 24 bits, or one of 256 colours if the terminal has no others."""
        self._low_bytes = low_bytes
        self.style = Style(color=Color.from_ansi(low_bytes) if of_256 else Color.from_rgb(*low_bytes.to_bytes(3)))

    def full_id(self, high_byte: int) -> int:
        return high_byte << 24 | self._low_bytes


PICTURE_IDS = PictureIds()
