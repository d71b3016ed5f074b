"""The set-of-marks picture: the page with a dashed frame and the bid on each element that can be acted on."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

FONT_SIZE = 12
LINE_WIDTH = 2
TAG_MARGIN = 3
"""Around the bid, its border included."""
DASH, GAP = 4, 8
SMALLEST_AREA = 20
"""Of an element, in square pixels; a mark on less would cover more than it names."""


def with_marks(picture: bytes, properties: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The PNG with the marks of `extra_element_properties` on it, as a PNG.

    Takes about as long as the picture takes to make; call it in a thread. Raises OSError where it is no picture.
    """
    from PIL import Image, ImageDraw, ImageFont

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=FONT_SIZE)
    for bid, (x, y, width, height) in _marked(properties):
        corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
        for at, corner in enumerate(corners):
            _dash(draw, corner, corners[(at + 1) % 4])
        left, top, right, bottom = font.getbbox(bid)
        tag_width, tag_height = right - left + 2 * TAG_MARGIN, bottom - top + 2 * TAG_MARGIN
        tag_x, tag_y = round(x), round(y - tag_height / 2 + 4)
        tag = (tag_x, tag_y, math.ceil(tag_x + tag_width - 1), math.ceil(tag_y + tag_height - 1))
        draw.rectangle(tag, fill="black", outline="white", width=1)
        draw.text((tag_x + TAG_MARGIN - left, tag_y + TAG_MARGIN - top), bid, font=font, fill="white")
    output = io.BytesIO()
    image.save(output, format="PNG", compress_level=1)
    return output.getvalue()


def _marked(properties: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    for bid, known in properties.items():
        if known["set_of_marks"] and known["bbox"]:
            x, y, width, height = known["bbox"]
            if width * height >= SMALLEST_AREA:
                yield bid, (x, y, width, height)


def _dash(draw: ImageDraw, start: tuple[float, float], end: tuple[float, float]) -> None:
    length = math.dist(start, end)
    if length == 0:
        return

    def on_the_way(done: float) -> tuple[int, int]:
        share = done / length
        return round(start[0] + (end[0] - start[0]) * share), round(start[1] + (end[1] - start[1]) * share)

    for at in range(0, math.ceil(length), DASH + GAP):
        draw.line([on_the_way(at), on_the_way(min(at + DASH, length))], fill="black", width=LINE_WIDTH)
