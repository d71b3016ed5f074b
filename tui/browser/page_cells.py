"""The page as cells: its picture in quarters of cells, and its words over it where they stand. Pure.

A word takes the cells that it stands over and, where it needs more, those to the right that no other word needs; one
that finds no room stays a part of the picture. Its ground is the colour that its place has most of, and its ink is what
differs most from that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tui.browser.page_elements import Box, Look, Words
from tui.terminal_io.graphics.picture_cells import ROUNDED, Cell, Pixels, cells, style_of
from tui.terminal_io.sanitizer import sanitize_line

FULL_PX = 8
"""Pixels of the page in a column where all of its words can be read; a row is twice as high."""
USUAL = (1, 2)
"""A cell whose pixels are not known, wide and high."""
STRETCH_PERCENT = 135
LEAST_CELLS = 2
"""Of a word that is cut; what has less room is left to the picture."""
LARGE_PX = 27
"""What is as high is a heading."""
LINE_PX = 40
"""What is higher has its tag beside its first line."""
CONTRAST = 60
"""Of 255, between a ground and the ink that the page has on it; with less nobody reads."""
NEXT_PX = 2
"""Between words of one line that belong together."""
MARGIN = 0.2
"""Of the height of a line, above and below its letters."""
BLACK, WHITE = bytes((16, 16, 16)), bytes((248, 248, 248))


@dataclass(frozen=True, slots=True)
class View:
    """Which part of a page is shown, in how many cells."""

    part: Box
    """In pixels of the page."""
    columns: int
    rows: int

    @classmethod
    def whole(cls, width: int, height: int, columns: int, rows: int, *, cell: tuple[int, int] | None = None) -> View:
        """All of a page, as large as fits.

        `cell` has the pixels of one, wide and high, where the terminal draws the page itself; elsewhere cells are taken
        to be twice as high as wide, and the page is a little wider than it is where words gain by that.
        """
        across, down = cell or USUAL
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
        """The part around a place at which every word has room; all of the page where that fits."""
        across, down = cell or USUAL
        row_px = FULL_PX * down / across
        wide, high = min(width, columns * FULL_PX), min(height, int(rows * row_px))
        left = max(0, min(at[0] - wide // 2, width - wide))
        top = max(0, min(at[1] - high // 2, height - high))
        return cls(Box(left, top, wide, high), max(1, wide // FULL_PX), max(1, min(rows, round(high / row_px))))

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Column and row of a place of the page; they may be out of view."""
        column = (x - self.part.left) * self.columns / self.part.width
        return int(column // 1), int((y - self.part.top) * self.rows / self.part.height // 1)

    def place(self, column: int, row: int) -> tuple[int, int]:
        """The place of the page under the middle of a cell."""
        x = self.part.left + round((column + 0.5) * self.part.width / self.columns)
        return x, self.part.top + round((row + 0.5) * self.part.height / self.rows)


def paint(pixels: Pixels, look: Look, view: View, tags: Mapping[str, str], tag_style: Style) -> list[list[Segment]]:
    """The part of a page, with its words; `tags` stand over the elements with these bids."""
    canvas = _Canvas(cells(_part(pixels, look, view), view.columns, view.rows), look, view)
    canvas.tag(tags, tag_style)
    canvas.write()
    return [_line(line, row, canvas.styles) for row, line in enumerate(canvas.cells)]


def paint_on(
    drawn: Iterable[Iterable[str]], look: Look, view: View, tags: Mapping[str, str], tag_style: Style
) -> list[list[Segment]]:
    """Tags over cells that the terminal fills with the picture by itself; words are to be read in it."""
    canvas = _Canvas([[(cell, BLACK + BLACK) for cell in line] for line in drawn], look, view)
    canvas.tag(tags, tag_style)
    return [_line(line, row, canvas.styles) for row, line in enumerate(canvas.cells)]


def _part(pixels: Pixels, look: Look, view: View) -> Pixels:
    width, height = look.width or view.part.width, look.height or view.part.height
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
    """Words that stand in one row, one after the other."""

    words: list[Words]
    column: int


class _Canvas:
    """A picture's cells, and what is written over them."""

    def __init__(self, drawn: list[list[Cell]], look: Look, view: View) -> None:
        self.cells = drawn
        self.styles: dict[tuple[int, int], Style] = {}
        """Of the cells whose colours are empty."""
        self._look, self._view = look, view
        self._taken: set[tuple[int, int]] = set()

    def tag(self, tags: Mapping[str, str], style: Style) -> None:
        """Put tags down: left of what they name where there is room, else over its beginning."""
        view = self._view
        for mark in self._look.marks:
            tag = tags.get(mark.bid, "")[: view.columns]
            column, row = view.cell(mark.box.left, mark.box.top + min(mark.box.height, LINE_PX) / 2)
            if not tag or not 0 <= row < view.rows or not 0 <= column < view.columns:
                continue
            column = min(max(0, column - len(tag)), view.columns - len(tag))
            while any((row, column + at) in self._taken for at in range(len(tag))) and column + len(tag) < view.columns:
                column += 1
            for at, letter in enumerate(tag):
                self._put(row, column + at, letter, style)
                self._taken.add((row, column + at))

    def write(self) -> None:
        """Put the words down, the higher ones first where two want one place."""
        rows: dict[int, list[_Run]] = {}
        shown = list[Words]()
        for words in sorted(self._look.texts, key=lambda each: -each.box.height):
            left, row = self._view.cell(words.box.left, words.box.top + words.box.height / 2)
            right = self._end(words)
            if not 0 <= row < self._view.rows or left >= self._view.columns or right <= 0:
                continue
            runs = rows.setdefault(row, [])
            near = [run for run in runs if any(_follows(words, other) for other in run.words)]
            if near:
                near[0].words.append(words)
                near[0].column = min(near[0].column, left)
            elif all(right <= run.column or left >= max(map(self._end, run.words)) for run in runs):
                runs.append(_Run([words], left))
            else:
                continue
            shown.append(words)
        for words in shown:
            self._erase(words)
        for row, runs in rows.items():
            runs.sort(key=lambda run: run.column)
            for run, after in zip(runs, [*runs[1:], None], strict=True):
                self._write_run(run, row, after.column - 1 if after is not None else self._view.columns)

    def _end(self, words: Words) -> int:
        return self._view.cell(words.box.left + words.box.width, 0)[0]

    def _write_run(self, run: _Run, row: int, limit: int) -> None:
        column = max(0, run.column)
        words_in_order = sorted(run.words)
        last = len(words_in_order) - 1
        for at, words in enumerate(words_in_order):
            text = words.text if at else words.text.lstrip()
            if words.box.left < self._view.part.left:  # it begins left of what is in view
                text = text[(self._view.part.left - words.box.left) * len(text) // max(1, words.box.width) :]
            text = text.rstrip() if at == last else text
            room = min(limit, self._view.columns) - column
            if room < min(LEAST_CELLS, cell_len(text)):
                return
            column = self._write_words(words, sanitize_line(text, room), row, column)

    def _write_words(self, words: Words, text: str, row: int, column: int) -> int:
        """The answer is the column behind them."""
        style = self._style(words, row, column)
        for letter in text:
            wide = cell_len(letter)
            places = [(row, column + offset) for offset in range(wide)]
            if not wide and self.cells[row][column - 1][1] == b"":  # it stands on the letter before
                self.cells[row][column - 1] = (self.cells[row][column - 1][0] + letter, b"")
            if all(place not in self._taken and place[1] < self._view.columns for place in places):
                for offset, (_, here) in enumerate(places):
                    self._put(row, here, "" if offset else letter, style)
            column += wide
        return column

    def _put(self, row: int, column: int, glyph: str, style: Style) -> None:
        self.cells[row][column] = (glyph, b"")
        self.styles[row, column] = style

    def _style(self, words: Words, row: int, column: int) -> Style:
        """How words are written: in the page's own colours where those are known and differ."""
        ground, ink = self._colours(words, row)
        mark = self._look.mark_at(words.box.left + words.box.width / 2, words.box.top + words.box.height / 2)
        style = style_of(ink + ground)
        if mark is not None and mark.kind == "link":
            style += Style(underline=True)
        if words.box.height >= LARGE_PX and (mark is None or mark.kind in ("link", "other")):
            style += Style(bold=True)
        return style

    def _colours(self, words: Words, row: int) -> tuple[bytes, bytes]:
        """Ground and ink."""
        left, right = max(0, self._view.cell(words.box.left, 0)[0]), self._end(words)
        ground = _ground(words) if words.ground >= 0 else _most(self.cells[row][left : right + 1])
        ink = words.ink.to_bytes(3) if words.ink >= 0 else ground
        if abs(_light(ink) - _light(ground)) < CONTRAST:
            ink = BLACK if _light(ground) > 127 else WHITE
        return ground, ink

    def _erase(self, words: Words) -> None:
        """Take away what the picture has of words."""
        if words.ground < 0:
            return
        ground = _ground(words)
        left, top = self._view.cell(words.box.left, words.box.top + words.box.height * MARGIN)
        right, bottom = self._view.cell(
            words.box.left + words.box.width - 1, words.box.top + words.box.height * (1 - MARGIN)
        )
        for row in range(max(0, top), min(bottom, self._view.rows - 1) + 1):
            for column in range(max(0, left), min(right, self._view.columns - 1) + 1):
                if (row, column) not in self._taken:
                    self.cells[row][column] = (" ", ground + ground)


def _ground(words: Words) -> bytes:
    """The ground of words in one of the colours that cells have, so that it does not stand out from theirs."""
    return words.ground.to_bytes(3).translate(ROUNDED)


def _follows(words: Words, other: Words) -> bool:
    """Whether one of two goes on where the other ends, in the same line."""
    first, second = sorted((words, other))
    gap = second.box.left - first.box.left - first.box.width
    return abs(gap) <= NEXT_PX and abs(first.box.top - second.box.top) < min(first.box.height, second.box.height) / 2


def _most(under: Iterable[Cell]) -> bytes:
    """The colour that cells have most of."""
    counts: Counter[bytes] = Counter()
    for glyph, colours in under:
        if colours:
            counts[colours[3:]] += 2 if glyph == " " else 1
    return counts.most_common(1)[0][0] if counts else WHITE


def _light(colour: bytes) -> float:
    return (299 * colour[0] + 587 * colour[1] + 114 * colour[2]) / 1000


def _line(line: list[Cell], row: int, styles: Mapping[tuple[int, int], Style]) -> list[Segment]:
    found: list[Segment] = []
    text, before = "", Style.null()
    for column, (glyph, colours) in enumerate(line):
        style = style_of(colours) if colours else styles[row, column]
        if style is not before:
            if text:
                found.append(Segment(text, before))
            text, before = "", style
        text += glyph
    if text:
        found.append(Segment(text, before))
    return found
