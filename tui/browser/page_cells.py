"""A page as cells: its picture in parts of cells, with its texts over it at their places. Pure.

A text takes the cells that it lies over and, if it needs more, those to the right that no other text needs. One that is
cut, or has no room at all, is marked with an ellipsis, and counted. Its background is the most frequent colour of its
place, and its own colour is one that contrasts with that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tui.browser.page_elements import Box, PageLayout, PageText
from tui.terminal_io.graphics.picture_cells import ROUNDED, Cell, Pixels, cells, style_of
from tui.terminal_io.sanitizer import sanitize_line

FULL_PX = 8
"""Pixels of the page in a column at which all texts are readable; a row is twice as high."""
CELL_RATIO = (1, 2)
"""Width and height of a cell whose pixels are unknown."""
STRETCH_PERCENT = 135
MIN_CELLS = 2
"""Of a text that is cut; one with less room is only marked."""
CUT = "…"
LARGE_PX = 27
"""A text of this height is a heading."""
LINE_PX = 40
"""A higher element has its tag beside its first line."""
MIN_CONTRAST = 60
"""Of 255, between a text and its background; with less it is not readable."""
GAP_PX = 2
"""Between texts of one line that belong together."""
MARGIN = 0.2
"""Above and below the letters, as a part of the line's height."""
BLACK, WHITE = bytes((16, 16, 16)), bytes((248, 248, 248))


@dataclass(frozen=True, slots=True)
class View:
    """The part of a page that is shown, and in how many cells."""

    part: Box
    columns: int
    rows: int

    @classmethod
    def whole(cls, width: int, height: int, columns: int, rows: int, *, cell: tuple[int, int] | None = None) -> View:
        """View all of a page, as large as fits.

        `cell` is the width and height of a cell in pixels if the terminal draws the page. Else cells are taken to be
        twice as high as wide, and the page is stretched a little if texts gain by that.
        """
        across, down = cell or CELL_RATIO
        natural = max(1, rows * down * width // (height * across))
        is_stretched = cell is None and width > natural * FULL_PX
        wide = max(1, min(columns, natural * STRETCH_PERCENT // 100 if is_stretched else natural))
        high = round(wide * across * height / (width * down))
        return cls(Box(0, 0, width, height), wide, max(1, min(rows, high)))

    @classmethod
    def near(
        cls,
        width: int,
        height: int,
        columns: int,
        rows: int,
        at: tuple[int, int],
        *,
        cell: tuple[int, int] | None = None,
    ) -> View:
        """View the part around a place, large enough for every text; all of the page if that fits."""
        across, down = cell or CELL_RATIO
        row_px = FULL_PX * down / across
        wide, high = min(width, columns * FULL_PX), min(height, int(rows * row_px))
        left = max(0, min(at[0] - wide // 2, width - wide))
        top = max(0, min(at[1] - high // 2, height - high))
        return cls(Box(left, top, wide, high), max(1, wide // FULL_PX), max(1, min(rows, round(high / row_px))))

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Return column and row of a place of the page, which may be out of view."""
        column = (x - self.part.left) * self.columns / self.part.width
        return int(column // 1), int((y - self.part.top) * self.rows / self.part.height // 1)

    def place(self, column: int, row: int) -> tuple[int, int]:
        """Return the place of the page under the middle of a cell."""
        x = self.part.left + round((column + 0.5) * self.part.width / self.columns)
        return x, self.part.top + round((row + 0.5) * self.part.height / self.rows)


class Painted(NamedTuple):
    """A page in cells."""

    lines: list[list[Segment]]
    cut: int = 0
    """The texts of the viewed part that are not shown in full."""


def paint(pixels: Pixels, layout: PageLayout, view: View, tags: Mapping[str, str], tag_style: Style) -> Painted:
    """Draw the viewed part of a page with its texts; `tags` are put over the elements with these bids."""
    canvas = _Canvas(cells(_part(pixels, layout, view), view.columns, view.rows), layout, view)
    canvas.tag(tags, tag_style)
    canvas.write()
    return Painted([_line(line, row, canvas.styles) for row, line in enumerate(canvas.cells)], canvas.cut)


def paint_on(
    drawn: Iterable[Iterable[str]], layout: PageLayout, view: View, tags: Mapping[str, str], tag_style: Style
) -> Painted:
    """Draw tags over cells that the terminal fills with the picture, which is sharp enough to read its texts."""
    canvas = _Canvas([[(cell, BLACK + BLACK) for cell in line] for line in drawn], layout, view)
    canvas.tag(tags, tag_style)
    return Painted([_line(line, row, canvas.styles) for row, line in enumerate(canvas.cells)])


def _part(pixels: Pixels, layout: PageLayout, view: View) -> Pixels:
    width, height = layout.width or view.part.width, layout.height or view.part.height
    if view.part.width >= width and view.part.height >= height:
        return pixels
    from PIL import Image

    across, down = pixels.width / width, pixels.height / height
    left, top, wide, high = view.part
    box = (int(left * across), int(top * down), round((left + wide) * across), round((top + high) * down))
    cropped = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.rgb).crop(box)
    return Pixels(cropped.width, cropped.height, cropped.tobytes())


@dataclass(slots=True)
class _Run:
    """Texts that follow each other in one row."""

    texts: list[PageText]
    column: int


class _Canvas:
    """A picture's cells and what is written over them."""

    def __init__(self, drawn: list[list[Cell]], layout: PageLayout, view: View) -> None:
        self.cells = drawn
        self.styles: dict[tuple[int, int], Style] = {}
        """The styles of cells without colours."""
        self.cut = 0
        """Texts that are not shown in full."""
        self._lost: list[tuple[int, int, PageText]] = []
        """Row and column of texts without any room."""
        self._layout, self._view = layout, view
        self._taken: set[tuple[int, int]] = set()

    def tag(self, tags: Mapping[str, str], style: Style) -> None:
        """Write tags left of their elements if there is room, else over the beginning."""
        view = self._view
        for element in self._layout.elements:
            tag = tags.get(element.bid, "")[: view.columns]
            column, row = view.cell(element.box.left, element.box.top + min(element.box.height, LINE_PX) / 2)
            if not tag or not 0 <= row < view.rows or not 0 <= column < view.columns:
                continue
            column = min(max(0, column - len(tag)), view.columns - len(tag))
            while any((row, column + at) in self._taken for at in range(len(tag))) and column + len(tag) < view.columns:
                column += 1
            for at, letter in enumerate(tag):
                self._put(row, column + at, letter, style)
                self._taken.add((row, column + at))

    def write(self) -> None:
        """Write the texts, and mark those without room; of two for one place, the higher one wins."""
        rows: dict[int, list[_Run]] = {}
        shown = list[PageText]()
        for text in sorted(self._layout.texts, key=lambda each: -each.box.height):
            left, row = self._view.cell(text.box.left, text.box.top + text.box.height / 2)
            right = self._end(text)
            if not 0 <= row < self._view.rows or left >= self._view.columns or right <= 0:
                continue
            runs = rows.setdefault(row, [])
            near = [run for run in runs if any(_follows(text, other) for other in run.texts)]
            if near:
                near[0].texts.append(text)
                near[0].column = min(near[0].column, left)
            elif all(right <= run.column or left >= max(map(self._end, run.texts)) for run in runs):
                runs.append(_Run([text], left))
            else:
                self._lose(text, row, left)
                continue
            shown.append(text)
        for text in shown:
            self._erase(text)
        for row, runs in rows.items():
            runs.sort(key=lambda run: run.column)
            for run, after in zip(runs, [*runs[1:], None], strict=True):
                self._write_run(run, row, after.column - 1 if after is not None else self._view.columns)
        for row, column, text in self._lost:
            self._mark(row, column, text)

    def _lose(self, text: PageText, row: int, column: int) -> None:
        if text.text.strip():
            self.cut += 1
            self._lost.append((row, max(0, min(column, self._view.columns - 1)), text))

    def _mark(self, row: int, column: int, text: PageText) -> None:
        """Write an ellipsis at the first place to the right without a text, else over the last cell."""
        places = range(column, self._view.columns)
        free = (at for at in places if (row, at) not in self.styles)
        at = next(free, self._view.columns - 1)
        if self.cells[row][at - 1][0] == CUT or (row, at) in self._taken:
            return
        if self.cells[row][at][0] == "" and at:  # the second half of a wide character
            self._put(row, at - 1, " ", self.styles[row, at - 1])
        self._put(row, at, CUT, self._style(text, row, at))

    def _end(self, text: PageText) -> int:
        return self._view.cell(text.box.left + text.box.width, 0)[0]

    def _write_run(self, run: _Run, row: int, limit: int) -> None:
        column = max(0, run.column)
        texts = sorted(run.texts)
        for at, part in enumerate(texts):
            text = part.text if at else part.text.lstrip()
            if part.box.left < self._view.part.left:  # it begins left of the view
                text = text[(self._view.part.left - part.box.left) * len(text) // max(1, part.box.width) :]
            text = text.rstrip() if at == len(texts) - 1 else text
            room = min(limit, self._view.columns) - column
            if room < min(MIN_CELLS, cell_len(text)):
                for rest in texts[at:]:
                    self._lose(rest, row, column)
                return
            written = sanitize_line(text, room)
            self.cut += written.endswith(CUT) and not text.endswith(CUT)
            column = self._write_text(part, written, row, column)

    def _write_text(self, part: PageText, text: str, row: int, column: int) -> int:
        """Write a text, and return the column behind it."""
        style = self._style(part, row, column)
        for letter in text:
            width = cell_len(letter)
            places = [(row, column + offset) for offset in range(width)]
            if not width and self.cells[row][column - 1][1] == b"":  # a combining mark
                self.cells[row][column - 1] = (self.cells[row][column - 1][0] + letter, b"")
            if all(place not in self._taken and place[1] < self._view.columns for place in places):
                for offset, (_, here) in enumerate(places):
                    self._put(row, here, "" if offset else letter, style)
            column += width
        return column

    def _put(self, row: int, column: int, glyph: str, style: Style) -> None:
        self.cells[row][column] = (glyph, b"")
        self.styles[row, column] = style

    def _style(self, text: PageText, row: int, column: int) -> Style:
        colour, background = self._colours(text, row)
        element = self._layout.element_at(text.box.left + text.box.width / 2, text.box.top + text.box.height / 2)
        style = style_of(colour + background)
        if element is not None and element.kind == "link":
            style += Style(underline=True)
        if text.box.height >= LARGE_PX and (element is None or element.kind in ("link", "other")):
            style += Style(bold=True)
        return style

    def _colours(self, text: PageText, row: int) -> tuple[bytes, bytes]:
        """Return colour and background: the page's own if they are known and contrast."""
        left, right = max(0, self._view.cell(text.box.left, 0)[0]), self._end(text)
        cells = self.cells[row][left : right + 1]
        background = _background(text) if text.background >= 0 else _most_frequent(cells)
        colour = text.colour.to_bytes(3) if text.colour >= 0 else background
        if abs(_brightness(colour) - _brightness(background)) < MIN_CONTRAST:
            colour = BLACK if _brightness(background) > 127 else WHITE
        return colour, background

    def _erase(self, text: PageText) -> None:
        if text.background < 0:
            return
        background, box = _background(text), text.box
        left, top = self._view.cell(box.left, box.top + box.height * MARGIN)
        right, bottom = self._view.cell(box.left + box.width - 1, box.top + box.height * (1 - MARGIN))
        for row in range(max(0, top), min(bottom, self._view.rows - 1) + 1):
            for column in range(max(0, left), min(right, self._view.columns - 1) + 1):
                if (row, column) not in self._taken:
                    self.cells[row][column] = (" ", background + background)


def _background(text: PageText) -> bytes:
    """Return the background of a text, rounded as the colours of cells are, so that it does not stand out."""
    return text.background.to_bytes(3).translate(ROUNDED)


def _follows(text: PageText, other: PageText) -> bool:
    """Whether one of two goes on where the other ends, in the same line."""
    first, second = sorted((text, other))
    gap = second.box.left - first.box.left - first.box.width
    return abs(gap) <= GAP_PX and abs(first.box.top - second.box.top) < min(first.box.height, second.box.height) / 2


def _most_frequent(cells: Iterable[Cell]) -> bytes:
    counts: Counter[bytes] = Counter()
    for glyph, colours in cells:
        if colours:
            counts[colours[3:]] += 2 if glyph == " " else 1
    return counts.most_common(1)[0][0] if counts else WHITE


def _brightness(colour: bytes) -> float:
    return (299 * colour[0] + 587 * colour[1] + 114 * colour[2]) / 1000


def _line(line: list[Cell], row: int, styles: Mapping[tuple[int, int], Style]) -> list[Segment]:
    parts = ((glyph, style_of(colours) if colours else styles[row, at]) for at, (glyph, colours) in enumerate(line))
    return [
        Segment("".join(glyph for glyph, _style in group), style) for style, group in groupby(parts, key=itemgetter(1))
    ]
