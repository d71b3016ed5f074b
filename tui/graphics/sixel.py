"""Sixels: a picture as six rows of pixels a line, one colour after the other. Pure.

The work on pixels is Pillow's: for each colour one pass marks its pixels in all bands at once, each row of a band with
a bit of its own. What is left for us are the bands that a colour occurs in, with their runs counted.
"""

from __future__ import annotations

import re
from itertools import chain

from PIL import Image, ImageChops

from tui.display.escapes import sixel
from tui.display.pictures import Pixels

COLOURS = 48
"""Of a picture: pages have few, and each costs time and bytes."""
BAND = 6
_RUN = re.compile(rb"(.)\1{3,254}", re.DOTALL)
_PRINTED = bytes(63 + value % 64 for value in range(256))


def sixels(pixels: Pixels) -> str:
    """What draws a picture from the cursor on, and leaves the cursor where the terminal wants it."""
    width, bands = pixels.width, -(-pixels.height // BAND)
    image = Image.frombytes("RGB", (width, pixels.height), pixels.rgb)
    few = image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    used = [number for number, count in enumerate(few.histogram()[:COLOURS]) if count]
    palette = few.getpalette() or []
    rows = few.tobytes()
    rows += b"\xff" * (width * (bands * BAND - pixels.height))  # no colour has this number
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
    return sixel(f'"1;1;{width};{pixels.height}{(colours + drawn).decode("ascii")}')


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
