"""Pictures as cells: read and decoded in threads, cached small, drawn in quarters, sixths or eighths of cells.

A picture is known by its reference (`core.store.blobs`), which says how large it is, so its place on the screen is
right before its bytes are loaded. `Pictures.get` notes what is not loaded yet, and `load` fetches it. The bytes come
from tools and pages: what is too large, broken or of an unknown kind becomes a reason to show, not an exception.
"""

from __future__ import annotations

import asyncio
import io
import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from tui.i18n import _
from tui.terminal_io.glyphs import GLYPHS, Shapes

if TYPE_CHECKING:
    from core.store.blobs import Blob, BlobRef

MAX_PIXELS = 25_000_000
"""A larger picture is not decoded."""
KEPT_SIDE = 480
"""Pixels of the longer side of a cached picture: two for each cell of the widest pane that has a use for them."""
KEPT = 16
"""Cached pictures; 10 MB at most."""
SHARP_SIDE, SHARP_KEPT = 1280, 3
"""The same if the terminal draws the pixels; 15 MB at most."""
PIXELS_PER_COLUMN = 8
"""For a picture in its natural size: about the width of a font's cell."""
QUADRANTS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
"""By the bits of the quarters in the foreground: upper left, upper right, lower left, lower right."""
_OLDER_SEXTANTS = {0: " ", 21: "▌", 42: "▐", 63: "█"}
_OLDER_OCTANTS = {
    0: " ", 1: "\U0001cea8", 2: "\U0001ceab", 3: "\U0001fb82", 5: "▘", 10: "▝", 15: "▀", 20: "\U0001fbe6",
    40: "\U0001fbe7", 63: "\U0001fb85", 64: "\U0001cea3", 80: "▖", 85: "▌", 90: "▞", 95: "▛", 128: "\U0001cea0",
    160: "▗", 165: "▚", 170: "▐", 175: "▜", 192: "▂", 240: "▄", 245: "▙", 250: "▟", 252: "▆", 255: "█",
}  # fmt: skip
"""The shapes that Unicode had before it added the others in the order of their bits."""
SAME_LIGHT = 12
"""Pixels whose brightness (of 255) differs by less have one colour."""
ROUNDED = bytes(min(255, (value + 4) // 8 * 8) for value in range(256))
"""The value of a cell's colour, by that of a pixel's."""
_ROUNDED = [*ROUNDED] * 3
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")


class Pixels(NamedTuple):
    """A decoded picture: `width` x `height` pixels of three bytes each, row by row."""

    width: int
    height: int
    rgb: bytes


class PictureError(ValueError):
    """A picture that cannot be shown; the text says why, in one short clean line."""


def decoded(data: bytes, side: int = KEPT_SIDE) -> Pixels:
    """Decode a picture, its longer side scaled down to `side`. Blocks for some 20 ms. Raises PictureError."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                size = {"width": image.width, "height": image.height}
                raise PictureError(_("it is too large to show ({width} x {height} pixels)").format(**size))
            image.draft("RGB", (side, side))
            is_transparent = image.has_transparency_data
            whole = image.convert("RGBA" if is_transparent else "RGB")
    except UnidentifiedImageError:
        raise PictureError(_("unknown image format")) from None
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        if isinstance(error, PictureError):
            raise
        raise PictureError(_("it is broken")) from None
    whole.thumbnail((side, side), Image.Resampling.BOX)
    if not is_transparent:
        return Pixels(whole.width, whole.height, whole.tobytes())
    ground = Image.new("RGBA", whole.size, "white")  # transparent pictures are made for white paper
    small = Image.alpha_composite(ground, whole).convert("RGB")
    return Pixels(small.width, small.height, small.tobytes())


def size_in_cells(width: int, height: int, columns: int, rows: int, *, enlarge: bool = False) -> tuple[int, int]:
    """Return columns and rows of a picture of `width` x `height` pixels that has room for `columns` x `rows` cells.

    A cell is twice as high as wide. Small pictures keep their natural size unless `enlarge` is set.
    """
    width, height = max(1, width), max(1, height)
    widest = columns if enlarge else min(columns, max(1, -(-width // PIXELS_PER_COLUMN)))
    wide = min(widest, max(1, rows * 2 * width // height))
    return wide, max(1, min(rows, round(wide * height / width / 2)))


def describe_size(width: int, height: int) -> str:
    """Return the text for a picture that cannot be drawn here."""
    return _("An image of {width} x {height} pixels.").format(width=width, height=height)


Cell = tuple[str, bytes]
"""A glyph and six bytes: the colours of the foreground and the background."""


def drawn(pixels: Pixels, columns: int, rows: int) -> list[list[Segment]]:
    """Draw a picture in `columns` x `rows` cells. Takes 2 to 4 us a cell."""
    return [segments(line) for line in cells(pixels, columns, rows)]


def cells(pixels: Pixels, columns: int, rows: int) -> list[list[Cell]]:
    """Return the cells of a picture, each with the pixels of `GLYPHS.shapes` in two colours.

    Colours are rounded, so that few styles are made.
    """
    from PIL import Image

    down, glyphs = shapes(GLYPHS.shapes)
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb)
    image = image.resize((columns * 2, rows * down), Image.Resampling.BOX, reducing_gap=2.0)
    wide, lights = columns * 2, image.convert("L").tobytes()
    flat = image.point(_ROUNDED).tobytes()
    means = image.resize((columns, rows), Image.Resampling.BOX).point(_ROUNDED).tobytes()
    lines: list[list[Cell]] = []
    for row in range(rows):
        places = [(row * down + part) * wide + side for part in range(down) for side in (0, 1)]
        parts = zip(*(lights[place : place + wide - place % 2 : 2] for place in places), strict=True)
        line: list[Cell] = []
        for column, shades in enumerate(parts):
            low, high = min(shades), max(shades)
            if high - low < SAME_LIGHT:
                at = 3 * (row * columns + column)
                line.append((" ", means[at : at + 3] * 2))
                continue
            middle = (low + high) // 2
            bright, dark = (3 * (places[shades.index(shade)] + 2 * column) for shade in (high, low))
            shape = sum(bit for shade, bit in zip(shades, _BITS, strict=False) if shade > middle)
            line.append((glyphs[shape], flat[bright : bright + 3] + flat[dark : dark + 3]))
        lines.append(line)
    return lines


_BITS = tuple(1 << part for part in range(8))


@lru_cache
def shapes(name: Shapes) -> tuple[int, str]:
    """Return how many pixels are above each other in a cell, and the glyphs by the bits of those in the foreground."""
    if name == "quadrants":
        return 2, QUADRANTS
    down, first, older = (3, 0x1FB00, _OLDER_SEXTANTS) if name == "sextants" else (4, 0x1CD00, _OLDER_OCTANTS)
    newer = itertools.count(first)
    return down, "".join(older.get(bits) or chr(next(newer)) for bits in range(1 << 2 * down))


def segments(line: Sequence[Cell]) -> list[Segment]:
    joined: list[Segment] = []
    text, before = "", b""
    for glyph, colours in line:
        if colours != before:
            if text:
                joined.append(Segment(text, style_of(before)))
            text, before = "", colours
        text += glyph
    if text:
        joined.append(Segment(text, style_of(before)))
    return joined


@lru_cache(16384)
def style_of(colours: bytes) -> Style:
    return Style(color=Color.from_rgb(*colours[:3]), bgcolor=Color.from_rgb(*colours[3:]))


class Pictures:
    """The pictures of one conversation."""

    def __init__(
        self, read: Callable[[BlobRef], Awaitable[Blob | None]], side: int = KEPT_SIDE, limit: int = KEPT
    ) -> None:
        self.on_wanted: Callable[[], None] | None = None
        """Called when a picture is needed that is not loaded; its owner then calls `load` in the background."""
        self._read = read
        self._side, self._limit = side, limit
        self._loaded: OrderedDict[str, Pixels | str] = OrderedDict()
        self._wanted: dict[str, BlobRef] = {}

    def sharper(self) -> Pictures:
        """Return the same pictures with more pixels, for a terminal that draws them."""
        return Pictures(self._read, SHARP_SIDE, SHARP_KEPT)

    def get(self, ref: BlobRef) -> Pixels | str | None:
        """Return a picture, the reason why it cannot be shown, or None if it is not loaded yet."""
        picture = self._loaded.get(ref.digest)
        if picture is not None:
            self._loaded.move_to_end(ref.digest)
        elif ref.digest not in self._wanted:
            self._wanted[ref.digest] = ref
            if self.on_wanted is not None:
                self.on_wanted()
        return picture

    async def load(self) -> bool:
        """Load what is wanted. Returns whether anything was. If it is cancelled, the rest stays wanted."""
        has_loaded = bool(self._wanted)
        while self._wanted:
            digest, ref = next(iter(self._wanted.items()))
            self._loaded[digest] = await self._load(ref)
            del self._wanted[digest]
            while len(self._loaded) > self._limit:
                self._loaded.popitem(last=False)
        return has_loaded

    async def _load(self, ref: BlobRef) -> Pixels | str:
        blob = await self._read(ref)
        if blob is None:
            return _("it is not in the log")
        try:
            return await asyncio.to_thread(decoded, blob.data, self._side)
        except PictureError as error:
            return str(error)
