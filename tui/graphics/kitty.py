"""Kitty's graphics protocol, as far as we speak it: send a picture, ask, take a picture away. Pure.

A picture is sent whole, in chunks, and is shown where its placeholders stand (`cells`); the terminal scales it into
them. Pictures are answered by nothing (`q=2`), and a question sent behind one is answered once it was taken.
"""

from __future__ import annotations

import base64
import zlib

from tui.display.escapes import graphics
from tui.display.pictures import Pixels

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
