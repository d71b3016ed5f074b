"""What of a picture is sent: the part that is shown, in as many pixels as its cells have. Pure; takes milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from PIL import Image

from tui.terminal_io.graphics.picture_cells import ROUNDED, Pixels

USUAL_CELL = (8, 16)
"""Pixels of a cell whose terminal has not said."""
MOST_PIXELS = 1280 * 800
"""Of what is sent; a terminal scales by itself where its cells have more."""
_ROUNDED = [*ROUNDED] * 3
"""Without the noise of what was compressed, a page needs two thirds of the bytes, and looks the same."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A picture, and where it is to be seen."""

    pixels: Pixels
    part: tuple[float, float, float, float]
    """Left, top, right and bottom of what is shown, from 0 to 1 of the picture."""
    columns: int
    rows: int
    cell: tuple[int, int] = (0, 0)
    """Pixels of a cell, wide and high; zeros where they are not known."""

    @property
    def place(self) -> tuple[int, int]:
        return self.columns, self.rows

    def is_same(self, other: Wanted | None) -> bool:
        """Whether another is this one; what is compared is no pixel but who made them."""
        return other is not None and self.pixels.rgb is other.pixels.rgb and self._where == other._where

    @property
    def _where(self) -> tuple[object, ...]:
        return self.part, self.columns, self.rows, self.cell


class Tile(NamedTuple):
    """A part of a picture, as it is written."""

    left: int
    """Where it begins, in pixels of the picture."""
    top: int
    drawing: str
    """What draws it from the cursor on."""


def scaled(wanted: Wanted, *, exact: bool) -> Pixels:
    """The part in the size of its cells; unless that has to be `exact`, no larger than there are pixels for."""
    pixels, (left, top, right, bottom) = wanted.pixels, wanted.part
    box = (left * pixels.width, top * pixels.height, right * pixels.width, bottom * pixels.height)
    across, down = wanted.cell if all(wanted.cell) else USUAL_CELL
    width, height = wanted.columns * across, wanted.rows * down
    if not exact:
        has = max(1.0, box[2] - box[0]), max(1.0, box[3] - box[1])
        share = min(1.0, has[0] / width, has[1] / height, (MOST_PIXELS / (width * height)) ** 0.5)
        width, height = max(1, round(width * share)), max(1, round(height * share))
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb)
    if (width, height) != image.size or box != (0, 0, *image.size):
        image = image.resize((width, height), Image.Resampling.HAMMING, box=box)
    return Pixels(width, height, image.point(_ROUNDED).tobytes())
