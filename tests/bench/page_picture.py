"""Time to make the picture of a page for 80x30 cells: as cells with its words, for kitty, and in sixels.

The limit is decoding it. Pictures for kitty and sixel are made in a thread, so their time delays a changed page, and no
key.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from time import perf_counter

from PIL import Image, ImageDraw
from rich.style import Style

from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import milliseconds_since
from tests.bench.size import sized
from tui.browser.page_cells import View, paint
from tui.browser.page_elements import PageLayout
from tui.terminal_io.graphics.kitty import transmission
from tui.terminal_io.graphics.picture_cells import KEPT_SIDE, SHARP_SIDE, Pixels, decoded
from tui.terminal_io.graphics.terminal_picture import PictureRequest, scaled, sixels

WIDTH, HEIGHT, COLUMNS, ROWS = 1280, 720, 80, 30
CELL = (10, 20)
"""Pixels of a cell, as of a terminal on an ordinary screen."""
ROUNDS = sized(60, 2)
TARGET_MS = 10.0
SHARP_RATIO = 4.0
"""For a picture that the terminal draws: ten times as many pixels as for cells, compressed."""
SIXEL_RATIO = 20.0


def measure() -> list[Figure]:
    data, look = _page()
    view = View.whole(WIDTH, HEIGHT, COLUMNS, ROWS)
    ways: dict[str, tuple[int, Callable[[Pixels], object], Target]] = {
        "a page as 80x30 cells with its words": (
            KEPT_SIDE,
            lambda pixels: paint(pixels, look, view, {}, Style()),
            Target(TARGET_MS),
        ),
        "a page for kitty in 80x30 cells": (
            SHARP_SIDE,
            lambda pixels: transmission(_scaled(pixels, view, exact=False), 1, view.columns, view.rows),
            Target(SHARP_RATIO, "ratio"),
        ),
        "a page in sixels in 80x30 cells": (
            SHARP_SIDE,
            lambda pixels: sixels(_scaled(pixels, view, exact=True)),
            Target(SIXEL_RATIO, "ratio"),
        ),
    }
    return [_figure(name, data, *way) for name, way in ways.items()]


def _figure(name: str, data: bytes, side: int, make: Callable[[Pixels], object], target: Target) -> Figure:
    whole, least = list[float](), list[float]()
    for _ in range(ROUNDS):
        began = perf_counter()
        decoded(data, side)
        least.append(milliseconds_since(began))
        began = perf_counter()
        make(decoded(data, side))
        whole.append(milliseconds_since(began))
    return Figure(name, "ms", whole, Limit("decode only", least), [target])


def _scaled(pixels: Pixels, view: View, *, exact: bool) -> Pixels:
    return scaled(PictureRequest(pixels, (0, 0, 1, 1), view.columns, view.rows, CELL), exact=exact)


def _page() -> tuple[bytes, PageLayout]:
    """A page of headings, boxes and 30 lines of words, as the screencast sends it."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, WIDTH, 60), fill="#1d3557")
    texts = []
    for line in range(30):
        top = 70 + 21 * line
        words = f"Line {line} of a page that says this and that about weaving, and a little more"
        draw.text((40 + line % 3 * 20, top), words, fill="#222222", font_size=16)
        draw.rectangle((900, top, 900 + 10 * line, top + 15), fill=(8 * line, 120, 255 - 8 * line))
        texts.append([40 + line % 3 * 20, top, 560, 19, words, 0x222222, 0xFFFFFF])
    file = io.BytesIO()
    image.save(file, "JPEG", quality=60)
    return file.getvalue(), PageLayout.parse({"width": WIDTH, "height": HEIGHT, "texts": texts, "marks": []})
