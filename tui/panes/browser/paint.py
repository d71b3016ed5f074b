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

from tui.display.pictures import Cell, Pixels, cells, style_of
from tui.display.text import sanitize_line
from tui.panes.browser.look import Box, Look, Words

FULL_PX = 8
"""Pixels of the page in a column where all of its words can be read; a row is twice as high."""
LEAST_CELLS = 2
"""Of a word that is cut; what has less room is left to the picture."""
LARGE_PX = 27
"""What is as high is a heading."""
CONTRAST = 90
"""Of 255, between a ground and the ink that the picture has for it."""
BLACK, WHITE = bytes((16, 16, 16)), bytes((248, 248, 248))


@dataclass(frozen=True, slots=True)
class View:
    """Which part of a page is shown, in how many cells."""

    part: Box
    """In pixels of the page."""
    columns: int
    rows: int

    @classmethod
    def whole(cls, width: int, height: int, columns: int, rows: int) -> View:
        """All of a page, as large as fits; a cell is twice as high as wide."""
        wide = min(columns, max(1, rows * 2 * width // height))
        return cls(Box(0, 0, width, height), wide, max(1, min(rows, round(wide * height / width / 2))))

    @classmethod
    def near(cls, width: int, height: int, columns: int, rows: int, at: tuple[int, int]) -> View:
        """The part around a place at which every word has room; all of the page where that fits."""
        wide, high = min(width, columns * FULL_PX), min(height, rows * FULL_PX * 2)
        left = max(0, min(at[0] - wide // 2, width - wide))
        top = max(0, min(at[1] - high // 2, height - high))
        return cls(Box(left, top, wide, high), max(1, wide // FULL_PX), max(1, high // (2 * FULL_PX)))

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
    drawn = cells(_part(pixels, look, view), view.columns, view.rows)
    styles: dict[tuple[int, int], Style] = {}
    taken = _tag(drawn, look, view, tags, tag_style, styles)
    _write(drawn, look, view, taken, styles)
    return [_line(line, row, styles) for row, line in enumerate(drawn)]


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


def _tag(
    drawn: list[list[Cell]],
    look: Look,
    view: View,
    tags: Mapping[str, str],
    style: Style,
    styles: dict[tuple[int, int], Style],
) -> set[tuple[int, int]]:
    """Put the tags down; the answer is the cells that they took."""
    taken: set[tuple[int, int]] = set()
    for mark in look.marks:
        tag = tags.get(mark.bid)
        column, row = view.cell(mark.box.left, mark.box.top + mark.box.height / 2)
        if not tag or not 0 <= row < view.rows or not -len(tag) < column < view.columns:
            continue
        column = max(0, min(column, view.columns - len(tag)))
        while taken & {(row, column + at) for at in range(len(tag))} and column + len(tag) < view.columns:
            column += 1
        for at, letter in enumerate(tag[: view.columns]):
            drawn[row][column + at] = (letter, b"")
            styles[row, column + at] = style
            taken.add((row, column + at))
    return taken


def _write(
    drawn: list[list[Cell]],
    look: Look,
    view: View,
    taken: set[tuple[int, int]],
    styles: dict[tuple[int, int], Style],
) -> None:
    """Put the words down, the larger ones first."""
    rows: dict[int, list[tuple[int, Words]]] = {}
    for words in sorted(look.texts, key=lambda each: -each.box.height):
        column, row = view.cell(words.box.left, words.box.top + words.box.height / 2)
        end = view.cell(words.box.left + words.box.width, 0)[0]
        if not 0 <= row < view.rows or column >= view.columns or end <= 0:
            continue
        others = rows.setdefault(row, [])
        if all(end <= begin or column >= begin + 1 and column >= _end(other, view) for begin, other in others):
            others.append((column, words))
    for row, placed in rows.items():
        placed.sort()
        for at, (column, words) in enumerate(placed):
            limit = placed[at + 1][0] - 1 if at + 1 < len(placed) else view.columns
            _put(drawn, words, look, view, row, column, min(limit, view.columns), taken, styles)


def _end(words: Words, view: View) -> int:
    return view.cell(words.box.left + words.box.width, 0)[0]


def _put(
    drawn: list[list[Cell]],
    words: Words,
    look: Look,
    view: View,
    row: int,
    column: int,
    limit: int,
    taken: set[tuple[int, int]],
    styles: dict[tuple[int, int], Style],
) -> None:
    """One line of words from a column on, cut where it would run into the next."""
    text = words.text
    if column < 0:  # it begins left of what is in view
        hidden = view.part.left - words.box.left
        text, column = text[hidden * len(text) // max(1, words.box.width) :], 0
    room = limit - column
    if room < min(LEAST_CELLS, cell_len(text)):
        return
    shown = sanitize_line(text, room)
    wide = max(cell_len(shown), min(_end(words, view), limit) - column)
    ground, ink = _colours(drawn[row][column : column + wide])
    mark = look.mark_at(words.box.left + words.box.width / 2, words.box.top + words.box.height / 2)
    style = style_of(ink + ground)
    if mark is not None and mark.kind == "link":
        style += Style(underline=True)
    if words.box.height >= LARGE_PX:
        style += Style(bold=True)
    at = column
    for letter in shown:
        places = [(row, at + offset) for offset in range(cell_len(letter))]
        if not places and at > column and (row, at - 1) not in taken:  # it stands on the letter before
            drawn[row][at - 1] = (drawn[row][at - 1][0] + letter, b"")
        if all(place not in taken and place[1] < view.columns for place in places):
            for offset, (_, here) in enumerate(places):
                drawn[row][here] = ("" if offset else letter, b"")
                styles[row, here] = style
        at += len(places)
    for rest in range(at, column + wide):  # what the picture had of the words
        if rest < view.columns and (row, rest) not in taken:
            drawn[row][rest] = (" ", ground + ground)


def _colours(under: Iterable[Cell]) -> tuple[bytes, bytes]:
    """The colour that these cells have most of, and an ink that can be read on it."""
    counts: Counter[bytes] = Counter()
    for glyph, colours in under:
        if colours:
            counts[colours[3:]] += 2 if glyph == " " else 1
            if glyph != " ":
                counts[colours[:3]] += 1
    if not counts:
        return WHITE, BLACK
    ground = counts.most_common(1)[0][0]
    light = _light(ground)
    ink = max(counts, key=lambda colour: abs(_light(colour) - light))
    if abs(_light(ink) - light) < CONTRAST:
        ink = BLACK if light > 127 else WHITE
    return ground, ink


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
