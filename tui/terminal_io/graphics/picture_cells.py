"""Pictures as cells: read and decoded off the loop, kept small, drawn in quarters of cells.

A picture is known by its reference (`core.store.blobs`), which says how large it is, so its place on the screen is
right before its bytes are there. Who draws asks `get`; what is not there yet is noted, and `load` fetches it. Bytes
come from tools and pages: what is too large, broken or of another kind than it says becomes a reason, not an exception.
"""

from __future__ import annotations

import asyncio
import io
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from tui.i18n import _

if TYPE_CHECKING:
    from core.store.blobs import Blob, BlobRef

MAX_PIXELS = 25_000_000
"""A larger picture is not decoded."""
KEPT_SIDE = 480
"""Pixels of the longer side that are kept: two for each cell of the widest pane that has a use for them."""
KEPT = 16
"""Decoded pictures that are kept; 10 MB at most."""
SHARP_SIDE, SHARP_KEPT = 1280, 3
"""The same where the terminal draws the pixels themselves; 15 MB at most."""
PIXELS_PER_COLUMN = 8
"""Of a picture that is shown in its natural size: about what a font's cell is wide."""
QUADRANTS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
"""By the bits of the quarters that stand before: upper left, upper right, lower left, lower right."""
SAME_LIGHT = 12
"""Of 255: pixels that differ by less are one colour."""
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")


class Pixels(NamedTuple):
    """A picture, decoded: `width` x `height` pixels of three bytes each, row by row."""

    width: int
    height: int
    rgb: bytes


class PictureError(ValueError):
    """A picture that cannot be shown; the text says why, in one short clean line."""


def decoded(data: bytes, side: int = KEPT_SIDE) -> Pixels:
    """A picture's pixels, its longer side scaled down to `side`. Blocks for some 20 ms. Raises PictureError."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                size = {"width": image.width, "height": image.height}
                raise PictureError(_("{width} x {height} pixels are too many to be shown").format(**size))
            image.draft("RGB", (side, side))
            lets_through = image.has_transparency_data
            whole = image.convert("RGBA" if lets_through else "RGB")
    except UnidentifiedImageError:
        raise PictureError(_("it is no picture of a kind that is known")) from None
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        if isinstance(error, PictureError):
            raise
        raise PictureError(_("it is broken")) from None
    whole.thumbnail((side, side), Image.Resampling.BOX)
    if not lets_through:
        return Pixels(whole.width, whole.height, whole.tobytes())
    ground = Image.new("RGBA", whole.size, "white")  # what is transparent was made for paper
    small = Image.alpha_composite(ground, whole).convert("RGB")
    return Pixels(small.width, small.height, small.tobytes())


def size_in_cells(width: int, height: int, columns: int, rows: int, *, enlarge: bool = False) -> tuple[int, int]:
    """Columns and rows of a picture of `width` x `height` pixels in a place of `columns` x `rows` cells.

    A cell is twice as high as wide. Small pictures keep their natural size unless they are to be enlarged.
    """
    width, height = max(1, width), max(1, height)
    most = columns if enlarge else min(columns, max(1, -(-width // PIXELS_PER_COLUMN)))
    wide = min(most, max(1, rows * 2 * width // height))
    return wide, max(1, min(rows, round(wide * height / width / 2)))


def size_told(width: int, height: int) -> str:
    """What is said of a picture that cannot be drawn here."""
    return _("A picture of {width} x {height} pixels.").format(width=width, height=height)


Cell = tuple[str, bytes]
"""A glyph and its two colours, six bytes: that of the glyph, then that of its ground."""


def quadrants(pixels: Pixels, columns: int, rows: int) -> list[list[Segment]]:
    """The picture in `columns` x `rows` cells: each shows four pixels in two colours. Takes 2 us a cell."""
    return [segments(line) for line in cells(pixels, columns, rows)]


def cells(pixels: Pixels, columns: int, rows: int) -> list[list[Cell]]:
    """As `quadrants`, the cells themselves. Colours are rounded, so that few styles are made."""
    from PIL import Image

    whole = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb)
    image = whole.resize((columns * 2, rows * 2), Image.Resampling.BOX, reducing_gap=2.0)
    wide, lights = columns * 2, image.convert("L").tobytes()
    flat = image.point(_ROUNDED).tobytes()
    means = image.resize((columns, rows), Image.Resampling.BOX).point(_ROUNDED).tobytes()
    lines: list[list[Cell]] = []
    for row in range(rows):
        above, below = 2 * row * wide, (2 * row + 1) * wide
        quarters = zip(
            lights[above:below:2], lights[above + 1 : below : 2],
            lights[below : below + wide : 2], lights[below + 1 : below + wide : 2],
            strict=True,
        )  # fmt: skip
        line: list[Cell] = []
        for column, shades in enumerate(quarters):
            low, high = min(shades), max(shades)
            if high - low < SAME_LIGHT:
                at = 3 * (row * columns + column)
                line.append((" ", means[at : at + 3] * 2))
                continue
            places, middle = (above, above + 1, below, below + 1), (low + high) // 2
            bright, dark = (3 * (places[shades.index(shade)] + 2 * column) for shade in (high, low))
            a, b, c, d = shades
            shape = (a > middle) | (b > middle) << 1 | (c > middle) << 2 | (d > middle) << 3
            line.append((QUADRANTS[shape], flat[bright : bright + 3] + flat[dark : dark + 3]))
        lines.append(line)
    return lines


def segments(line: Sequence[Cell]) -> list[Segment]:
    """A line of cells, those of the same colours together."""
    found: list[Segment] = []
    text, before = "", b""
    for glyph, colours in line:
        if colours != before:
            if text:
                found.append(Segment(text, style_of(before)))
            text, before = "", colours
        text += glyph
    if text:
        found.append(Segment(text, style_of(before)))
    return found


ROUNDED = bytes(min(255, (value + 4) // 8 * 8) for value in range(256))
"""The shades that cells have, by those of pixels."""
_ROUNDED = [*ROUNDED] * 3


@lru_cache(16384)
def style_of(colours: bytes) -> Style:
    """The style of a cell's colours."""
    return Style(color=Color.from_rgb(*colours[:3]), bgcolor=Color.from_rgb(*colours[3:]))


class Pictures:
    """The pictures of one conversation."""

    def __init__(
        self, read: Callable[[BlobRef], Awaitable[Blob | None]], side: int = KEPT_SIDE, most: int = KEPT
    ) -> None:
        self.on_wanted: Callable[[], None] | None = None
        """Called when a picture is asked for that is not there; whoever sets it calls `load` off the drawing."""
        self._read = read
        self._side, self._most = side, most
        self._kept: OrderedDict[str, Pixels | str] = OrderedDict()
        self._wanted: dict[str, BlobRef] = {}

    def sharper(self) -> Pictures:
        """The same pictures with more pixels, for a terminal that draws them itself."""
        return Pictures(self._read, SHARP_SIDE, SHARP_KEPT)

    def get(self, ref: BlobRef) -> Pixels | str | None:
        """The picture, why there is none, or None where it has yet to be loaded."""
        found = self._kept.get(ref.digest)
        if found is not None:
            self._kept.move_to_end(ref.digest)
        elif ref.digest not in self._wanted:
            self._wanted[ref.digest] = ref
            if self.on_wanted is not None:
                self.on_wanted()
        return found

    async def load(self) -> bool:
        """Fetch what was asked for, and say whether there was anything. Cancelling leaves the rest asked for."""
        loaded = False
        while self._wanted:
            digest, ref = next(iter(self._wanted.items()))
            self._kept[digest] = await self._load(ref)
            del self._wanted[digest]
            loaded = True
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return loaded

    async def _load(self, ref: BlobRef) -> Pixels | str:
        blob = await self._read(ref)
        if blob is None:
            return _("it is not in the log")
        try:
            return await asyncio.to_thread(decoded, blob.data, self._side)
        except PictureError as error:
            return str(error)
