"""One pane's picture as the terminal draws it: made in a thread, sent once, and deleted again.

Whoever draws requests a picture with each frame and learns what may be shown by now: the picture itself, the one before
in its place, or nothing yet. So there is never a hole while the next one is on its way, and one that nobody wants any
more when it is ready is not sent. Pictures follow each other no faster than the terminal reads them, and no faster than
BYTES_PER_S. `clear` deletes the picture of a pane that is hidden.
"""

from __future__ import annotations

import asyncio
import base64
import io
import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from PIL import Image, ImageChops

from tui.terminal_io.escapes import at_cell, inline_image, sixel
from tui.terminal_io.graphics.graphics_terminal import GraphicsTerminal
from tui.terminal_io.graphics.kitty import LEVEL, PICTURE_IDS, placeholders, transmission
from tui.terminal_io.graphics.picture_cells import ROUNDED, Pixels

REPEAT_S = 0.5
"""How long a picture has to stay before it is sent once more inside tmux."""
BYTES_PER_S = 4_000_000
"""What is sent at most: some 30 pictures of a page, and what a slow terminal still draws."""
MAX_HIGH_BYTE = 250
"""The highest byte of a picture's id at most; after it comes 1 again."""
DEFAULT_CELL = (8, 16)
"""Pixels of a cell if the terminal has not said."""
MAX_PIXELS = 1280 * 800
"""Pixels that are sent at most; a terminal with larger cells scales the picture."""
_ROUNDED = [*ROUNDED] * 3
"""Without the noise of lossy compression, a page needs two thirds of the bytes and looks the same."""
COLOURS = 48
"""Colours of a sixel picture: pages have few, and each takes time and bytes."""
BAND = 6
MAX_SIDE = 1000
"""Pixels of a side that every terminal accepts: xterm ignores pictures larger than its limit."""
_REPEATED = re.compile(rb"(.)\1{3,254}", re.DOTALL)
_PRINTED = bytes(63 + value % 64 for value in range(256))
_TABLES = [[[0] * colour + [1 << row] + [0] * (255 - colour) for row in range(BAND)] for colour in range(COLOURS)]
"""By colour and row of a band: what maps the colour to the row's bit."""


@dataclass(frozen=True, slots=True)
class PictureRequest:
    """A picture, and where it is to be shown."""

    pixels: Pixels
    part: tuple[float, float, float, float]
    """Left, top, right and bottom of what is shown, from 0 to 1 of the picture."""
    columns: int
    rows: int
    cell: tuple[int, int] = (0, 0)
    """Width and height of a cell in pixels; zeros if unknown."""

    @property
    def size(self) -> tuple[int, int]:
        return self.columns, self.rows

    def is_same(self, other: PictureRequest | None) -> bool:
        """Compare everything, pixels by identity."""
        if other is None or self.pixels.rgb is not other.pixels.rgb:
            return False
        return (self.part, self.size, self.cell) == (other.part, other.size, other.cell)


class Tile(NamedTuple):
    """A part of a picture, as it is written."""

    left: int
    """Its place in pixels of the picture."""
    top: int
    drawing: str
    """What draws it from the cursor on."""


def scaled(request: PictureRequest, *, exact: bool) -> Pixels:
    """Return the requested part in the size of its cells; unless `exact`, no larger than it has pixels."""
    pixels, (left, top, right, bottom) = request.pixels, request.part
    box = (left * pixels.width, top * pixels.height, right * pixels.width, bottom * pixels.height)
    cell_width, cell_height = request.cell if all(request.cell) else DEFAULT_CELL
    width, height = request.columns * cell_width, request.rows * cell_height
    if not exact:
        part_width, part_height = max(1.0, box[2] - box[0]), max(1.0, box[3] - box[1])
        scale = min(1.0, part_width / width, part_height / height, (MAX_PIXELS / (width * height)) ** 0.5)
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb)
    if (width, height) != image.size or box != (0, 0, *image.size):
        image = image.resize((width, height), Image.Resampling.HAMMING, box=box)
    return Pixels(width, height, image.point(_ROUNDED).tobytes())


def sixels(pixels: Pixels, max_size: tuple[int, int] = (MAX_SIDE, MAX_SIDE)) -> list[Tile]:
    """Draw a picture in sixels, in tiles of at most `max_size` pixels.

    Pillow does the work on pixels: for each colour one pass marks its pixels in all bands at once, each row of a band
    with a bit of its own.
    """
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb)
    paletted = image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    tiles = []
    for top, left in product(range(0, pixels.height, max_size[1]), range(0, pixels.width, max_size[0])):
        box = (left, top, min(left + max_size[0], pixels.width), min(top + max_size[1], pixels.height))
        tiles.append(Tile(left, top, _sixel(paletted.crop(box))))
    return tiles


def _sixel(image: Image.Image) -> str:
    width, bands = image.width, -(-image.height // BAND)
    used = [colour for colour, count in enumerate(image.histogram()[:COLOURS]) if count]
    palette = image.getpalette() or []
    data = image.tobytes()
    data += b"\xff" * (width * (bands * BAND - image.height))  # no colour has this number
    rows = [_row_of_bands(data, width, bands, row) for row in range(BAND)]
    lines: list[list[bytes]] = [[] for _ in range(bands)]
    for colour in used:
        marked = _marked(rows, colour)
        for band, line in enumerate(lines):
            bits = marked[band * width : (band + 1) * width].rstrip(b"\0")
            if bits:
                line.append(b"#%d" % colour + _REPEATED.sub(_counted, bits.translate(_PRINTED)))
    colours = b"".join(b"#%d;2;%d;%d;%d" % (n, *(v * 100 // 255 for v in palette[3 * n : 3 * n + 3])) for n in used)
    drawing = b"-".join(b"$".join(line) for line in lines)
    return sixel(f'"1;1;{width};{image.height}{(colours + drawing).decode("ascii")}')


def _row_of_bands(data: bytes, width: int, bands: int, row: int) -> Image.Image:
    kept = (data[(band * BAND + row) * width : (band * BAND + row + 1) * width] for band in range(bands))
    return Image.frombytes("L", (width, bands), b"".join(kept))


def _marked(rows: list[Image.Image], colour: int) -> bytes:
    """Return for each column of each band the bits of the rows that have a colour there."""
    marked = rows[0].point(_TABLES[colour][0])
    for number, row in enumerate(rows[1:], 1):
        marked = ImageChops.add(marked, row.point(_TABLES[colour][number]))
    return marked.tobytes()


def _counted(run: re.Match[bytes]) -> bytes:
    return b"!%d%b" % (len(run[0]), run[1])


class TerminalPicture:
    """The picture of one pane. `ready` is called when another one may be shown, `spawn` starts a task."""

    def __init__(
        self,
        terminal: GraphicsTerminal,
        ready: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._terminal = terminal
        self._ready = ready
        self._spawn = spawn
        self._wanted: PictureRequest | None = None
        self._shown: PictureRequest | None = None
        self._is_working = False
        self._renewed = asyncio.Event()
        """Set when another picture is wanted."""

    def request(self, request: PictureRequest) -> bool:
        """Have this picture made, unless it is shown. Returns whether one of its size may be shown by now."""
        self._wanted = request
        if not request.is_same(self._shown):
            self._renewed.set()
            if not self._is_working:
                self._is_working = True
                self._spawn(self._work())
        return self._shown is not None and self._shown.size == request.size

    def clear(self) -> None:
        self._wanted = self._shown = None

    async def _work(self) -> None:
        try:
            while (wanted := self._wanted) is not None and not wanted.is_same(self._shown):
                self._renewed.clear()
                tiles = await asyncio.to_thread(self._make, wanted)
                if self._wanted is None or self._wanted.size != wanted.size:
                    continue
                await self._show(wanted, tiles)
                await asyncio.sleep(sum(len(tile.drawing) for tile in tiles) / BYTES_PER_S)
                await self._repeat(tiles)
        finally:
            self._is_working = False

    def _make(self, request: PictureRequest) -> list[Tile]:
        """Make what is written for a picture. Takes up to 100 ms, in a thread."""
        raise NotImplementedError

    async def _show(self, request: PictureRequest, tiles: list[Tile]) -> None:
        """Show a picture. Returns when the next one may be shown."""
        raise NotImplementedError

    async def _repeat(self, tiles: list[Tile]) -> None:
        """Write the shown picture again if it may have been lost on the way. Returns if another one is wanted."""


class KittyPicture(TerminalPicture):
    """A picture in placeholders: the pane's cells say where it is, so what moves or covers them does so to it.

    Each picture has an id of its own. The one before is deleted with the next but one, for cells that are still to be
    drawn.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._high_byte = 0
        self._alive: list[int] = []

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The placeholders of the picture that is shown."""
        assert self._shown is not None
        return placeholders(*self._shown.size, self._alive[-1])

    def clear(self) -> None:
        super().clear()
        while self._alive:
            self._terminal.delete(PICTURE_IDS.full_id(self._alive.pop()))

    def _make(self, request: PictureRequest) -> list[Tile]:
        self._high_byte = self._high_byte % MAX_HIGH_BYTE + 1
        picture_id = PICTURE_IDS.full_id(self._high_byte)
        return [Tile(0, 0, transmission(scaled(request, exact=False), picture_id, *request.size))]

    async def _show(self, request: PictureRequest, tiles: list[Tile]) -> None:
        while len(self._alive) > 1:
            self._terminal.delete(PICTURE_IDS.full_id(self._alive.pop(0)))
        picture_id = PICTURE_IDS.full_id(self._high_byte)
        self._alive.append(self._high_byte)
        await self._terminal.send(tiles[0].drawing, picture_id)
        if self._high_byte not in self._alive:  # cleared meanwhile
            self._terminal.delete(picture_id)
            return
        self._shown = request
        self._ready()
        await self._terminal.wait_until_read()

    async def _repeat(self, tiles: list[Tile]) -> None:
        """Inside tmux, send a picture that stays once more: tmux drops what passes through while it redraws a pane."""
        if not self._terminal.is_in_tmux:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(REPEAT_S):
                await self._renewed.wait()
                return
        if self._shown is not None:
            await self._terminal.send(tiles[0].drawing, PICTURE_IDS.full_id(self._alive[-1]))


class PixelPicture(TerminalPicture):
    """A picture in pixels over the pane's cells, which is written again after cells are drawn."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._tiles: list[Tile] = []

    def drawing(self, column: int, row: int) -> str:
        """Return what draws the picture from a cell of the screen on; empty if there is none."""
        if self._shown is None:
            return ""
        width, height = self._shown.cell if all(self._shown.cell) else DEFAULT_CELL
        return "".join(
            at_cell(tile.drawing, column + tile.left // width, row + tile.top // height) for tile in self._tiles
        )

    async def _show(self, request: PictureRequest, tiles: list[Tile]) -> None:
        self._shown, self._tiles = request, tiles
        self._ready()


class SixelPicture(PixelPicture):
    """A picture in sixels."""

    def _make(self, request: PictureRequest) -> list[Tile]:
        width, height = request.cell
        return sixels(scaled(request, exact=True), (MAX_SIDE // width * width, MAX_SIDE // height * height))


class InlinePicture(PixelPicture):
    """A picture as an inline image of iTerm2, which scales it into its cells."""

    def _make(self, request: PictureRequest) -> list[Tile]:
        pixels = scaled(request, exact=False)
        file = io.BytesIO()
        Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb).save(file, "PNG", compress_level=LEVEL)
        return [Tile(0, 0, inline_image(base64.b64encode(file.getvalue()).decode("ascii"), *request.size))]


PICTURES: dict[str, type[TerminalPicture]] = {"kitty": KittyPicture, "iterm2": InlinePicture, "sixel": SixelPicture}
"""By the method of the terminal."""
