"""A picture of a page as cells with its words, 80x30, beside decoding that picture alone."""

from __future__ import annotations

import io
from time import perf_counter

from PIL import Image, ImageDraw
from rich.style import Style

from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import milliseconds_since
from tui.display.pictures import decoded
from tui.panes.browser.look import Look
from tui.panes.browser.paint import View, paint

WIDTH, HEIGHT, COLUMNS, ROWS = 1280, 720, 80, 30
ROUNDS = 60
TARGET_MS = 10.0


def measure() -> list[Figure]:
    data, look = _page()
    view = View.whole(WIDTH, HEIGHT, COLUMNS, ROWS)
    whole, least = list[float](), list[float]()
    for _ in range(ROUNDS):
        began = perf_counter()
        decoded(data)
        least.append(milliseconds_since(began))
        began = perf_counter()
        paint(decoded(data), look, view, {}, Style())
        whole.append(milliseconds_since(began))
    targets = [Target(TARGET_MS)]
    return [Figure("a page as 80x30 cells with its words", "ms", whole, Limit("decode only", least), targets)]


def _page() -> tuple[bytes, Look]:
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
    return file.getvalue(), Look.of({"width": WIDTH, "height": HEIGHT, "texts": texts, "marks": []})
