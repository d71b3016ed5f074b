"""Sixels: a picture as six rows of pixels a line, one colour after the other. Pure.

The work on pixels is Pillow's: for each colour one pass marks its pixels in all bands at once, each row of a band with
a bit of its own. What is left for us are the bands that a colour occurs in, with their runs counted.
"""

from __future__ import annotations

import re
from itertools import chain, product

from PIL import Image, ImageChops

from tui.terminal_io.escapes import sixel
from tui.terminal_io.graphics.picture_cells import Pixels
from tui.terminal_io.graphics.scaled_picture import Tile

COLOURS = 48
"""Of a picture: pages have few, and each costs time and bytes."""
BAND = 6
MOST_SIDE = 1000
"""Pixels of a side that every terminal takes: xterm leaves a picture away that is larger than it was told to allow."""
_RUN = re.compile(rb"(.)\1{3,254}", re.DOTALL)
_PRINTED = bytes(63 + value % 64 for value in range(256))


def sixels(pixels: Pixels, most: tuple[int, int] = (MOST_SIDE, MOST_SIDE)) -> list[Tile]:
    """What draws a picture, in parts that are as large as may be, but no wider and higher than `most` pixels."""
    whole = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb)
    few = whole.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    tiles = []
    for top, left in product(range(0, pixels.height, most[1]), range(0, pixels.width, most[0])):
        box = (left, top, min(left + most[0], pixels.width), min(top + most[1], pixels.height))
        tiles.append(Tile(left, top, _drawn(few.crop(box))))
    return tiles


def _drawn(few: Image.Image) -> str:
    """What draws a picture of few colours from the cursor on, and leaves the cursor where the terminal wants it."""
    width, bands = few.width, -(-few.height // BAND)
    used = [number for number, count in enumerate(few.histogram()[:COLOURS]) if count]
    palette = few.getpalette() or []
    rows = few.tobytes()
    rows += b"\xff" * (width * (bands * BAND - few.height))  # no colour has this number
    phases = [_phase(rows, width, bands, phase) for phase in range(BAND)]
    lines: list[list[bytes]] = [[] for _ in range(bands)]
    for number in used:
        marked = _marked(phases, number)
        for band, line in enumerate(lines):
            bits = marked[band * width : (band + 1) * width].rstrip(b"\0")
            if bits:
                line.append(b"#%d" % number + _RUN.sub(_counted, bits.translate(_PRINTED)))
    colours = b"".join(b"#%d;2;%d;%d;%d" % (n, *(v * 100 // 255 for v in palette[3 * n : 3 * n + 3])) for n in used)
    drawn = b"-".join(b"$".join(line) for line in lines)
    return sixel(f'"1;1;{width};{few.height}{(colours + drawn).decode("ascii")}')


def _phase(rows: bytes, width: int, bands: int, phase: int) -> Image.Image:
    """One row of each band."""
    kept = (rows[(band * BAND + phase) * width : (band * BAND + phase + 1) * width] for band in range(bands))
    return Image.frombytes("L", (width, bands), b"".join(kept))


def _marked(phases: list[Image.Image], number: int) -> bytes:
    """For each column of each band the bits of the rows in which a colour stands."""
    whole = None
    for phase, rows in enumerate(phases):
        bits = rows.point(_TABLES[number][phase])
        whole = bits if whole is None else ImageChops.add(whole, bits)
    assert whole is not None
    return whole.tobytes()


def _table(number: int, phase: int) -> list[int]:
    return [*chain([0] * number, [1 << phase], [0] * (255 - number))]


_TABLES = [[_table(number, phase) for phase in range(BAND)] for number in range(COLOURS)]


def _counted(run: re.Match[bytes]) -> bytes:
    return b"!%d%b" % (len(run[0]), run[1])
