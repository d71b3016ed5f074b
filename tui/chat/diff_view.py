"""Draws pieces of diffs as lines, in one column or side by side.

What is not the file's text (numbers, signs, padding) is marked by `GUTTER`, and text side by side by its side, so that
a selection copies nothing but code. The sign is always there, not only the colour. Long lines wrap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style

from tui.chat.diffs import changed_words, paired
from tui.chat.overlays import GUTTER, SIDES
from tui.find.pane_search import without_colour

if TYPE_CHECKING:
    from tui.chat.diffs import Spans
    from tui.chat.text_pieces import Piece

MIN_WIDTH_OF_TWO_NUMBERS = 60
MIN_WIDTH_OF_NUMBER = 30
Line = list[Segment]
Parts = list[tuple[Style, str]]
_WORDS = {"-": "removed-word", "+": "added-word"}
_LINES = {"-": "removed", "+": "added"}


class DiffLines:
    """Draws pieces of diffs with one set of styles."""

    def __init__(self, styles: Mapping[str, Style], width: int, split: bool) -> None:
        self._styles = styles
        self._width = width
        self._split = split

    def gap(self, piece: Piece) -> Iterator[Line]:
        """Draw the line for what is left out."""
        from tui.terminal_io.sanitizer import sanitize_line

        style = self._styles["muted"] + GUTTER
        yield [Segment("  " + sanitize_line(piece.text, self._width - 2), style)]

    def lines(self, piece: Piece) -> Iterator[Line]:
        change = _Change(piece, self._styles)
        return self._side_by_side(change) if self._split else self._one_column(change)

    def _one_column(self, change: _Change) -> Iterator[Line]:
        digits = change.digits if self._width >= MIN_WIDTH_OF_NUMBER else 0
        both = self._width >= MIN_WIDTH_OF_TWO_NUMBERS
        blank = " " * digits
        for index, (sign, _) in enumerate(change.lines):
            old, new = (f"{number:>{digits}}" if digits and number else blank for number in change.numbers[index])
            number = (f"{old} {new} " if both else f"{new if sign == '+' else old} ") if digits else ""
            yield from self._rows(change, index, "  " + number, self._width)

    def _rows(self, change: _Change, index: int, lead: str, width: int, side: str = "") -> list[Line]:
        """Draw one line of the file with its gutter, in as many rows as it needs."""
        sign = change.lines[index][0]
        line_style = self._styles[_LINES.get(sign, "text")]
        tint = line_style.background_style
        muted = self._styles["muted"] + tint + GUTTER
        room = max(1, width - cell_len(lead) - 2)
        parts = change.parts(index, tint)
        if side:
            parts = [(style + SIDES[side], text) for style, text in parts]
        rows = []
        for number, row in enumerate(wrapped(parts, room)):
            first = number == 0
            used = sum(segment.cell_length for segment in row)
            rows.append(
                [
                    Segment(lead if first else " " * cell_len(lead), muted),
                    Segment(f"{sign if first else '·'} ", line_style + GUTTER if first else muted),
                    *row,
                    Segment(" " * max(0, room - used), tint + GUTTER),
                ]
            )
        return rows

    def _side_by_side(self, change: _Change) -> Iterator[Line]:
        half = max(4, (self._width - 3) // 2)
        digits = change.digits
        bar = Segment(" ", self._styles["text"] + GUTTER)
        margin = Segment("  ", self._styles["text"] + GUTTER)
        for old, new in change.rows:
            left = self._half(change, old, 0, digits, half)
            right = self._half(change, new, 1, digits, half)
            empty = [Segment(" " * half, self._styles["text"] + GUTTER)]
            for row in range(max(len(left), len(right))):
                yield [
                    margin,
                    *(left[row] if row < len(left) else empty),
                    bar,
                    *(right[row] if row < len(right) else empty),
                ]

    def _half(self, change: _Change, index: int | None, side: int, digits: int, width: int) -> list[Line]:
        if index is None:
            return []
        number = change.numbers[index][side]
        lead = f"{number or '':>{digits}} " if digits else ""
        return self._rows(change, index, lead, width, ("old", "new")[side])


class _Change:
    """The lines of one piece with their numbers, partners, colours and marks."""

    def __init__(self, piece: Piece, styles: Mapping[str, Style]) -> None:
        self._styles = styles
        self.lines = [(line[:1] if line[:1] in "+-\\" and line else " ", line[1:]) for line in piece.text.split("\n")]
        old, new, self.digits = piece.numbers or (0, 0, 0)
        self.numbers: list[tuple[int, int]] = []
        self.rows: list[tuple[int | None, int | None]] = []
        """Side by side: the indices of the left and the right line."""
        self._marks: dict[int, Spans] = {}
        removed: list[int] = []
        added: list[int] = []
        for index, (sign, _) in enumerate(self.lines):
            self.numbers.append((old if sign in " -" else 0, new if sign in " +" else 0))
            old, new = old + (sign in " -"), new + (sign in " +")
            if sign == "-" and added:
                self._compare(removed, added)
                removed, added = [], []
            if sign == "-":
                removed.append(index)
            elif sign == "+":
                added.append(index)
            else:
                self._compare(removed, added)
                removed, added = [], []
                self.rows.append((index, index))
        self._compare(removed, added)
        self._colours = self._coloured(piece.language)

    def _compare(self, removed: list[int], added: list[int]) -> None:
        texts = [[self.lines[index][1] for index in side] for side in (removed, added)]
        for left, right in paired(*texts):
            old = removed[left] if left is not None else None
            new = added[right] if right is not None else None
            self.rows.append((old, new))
            if old is not None and new is not None:
                marks = changed_words(self.lines[old][1], self.lines[new][1])
                if marks is not None:
                    self._marks[old], self._marks[new] = marks

    def _coloured(self, language: str) -> list[list[tuple[str, str]]]:
        """Return the lines as (role, text) parts; each side of the change is highlighted as code of its own."""
        plain = [[("muted" if sign == "\\" else "code", text)] for sign, text in self.lines]
        if not language:
            return plain
        from tui.chat.syntax_colors import coloured_lines

        for other in "+-":
            side = [index for index, (sign, _) in enumerate(self.lines) if sign not in (other, "\\")]
            coloured = coloured_lines("\n".join(self.lines[index][1] for index in side), language)
            if len(coloured) == len(side):
                for index, parts in zip(side, coloured, strict=True):
                    plain[index] = parts
        return plain

    def parts(self, index: int, tint: Style) -> Parts:
        """Return one line in its colours, with changed words marked."""
        marks = self._marks.get(index, [])
        strong = without_colour(self._styles[_WORDS[self.lines[index][0]]]) if marks else Style()
        found: Parts = []
        at = 0
        for role, text in self._colours[index]:
            style = self._styles[role] + tint
            end = at + len(text)
            here = at
            for start, stop in ((max(first, at), min(last, end)) for first, last in marks):
                if start < stop:
                    found += [(style, text[here - at : start - at]), (style + strong, text[start - at : stop - at])]
                    here = stop
            found.append((style, text[here - at :]))
            at = end
        return [(style, text) for style, text in found if text]


def wrapped(parts: Parts, room: int) -> list[Line]:
    """Cut styled text into rows of at most `room` cells."""
    rows: list[Line] = [[]]
    used = 0
    for style, text in parts:
        width = cell_len(text)
        if used + width <= room:
            rows[-1].append(Segment(text, style))
            used += width
            continue
        start = 0
        for index, character in enumerate(text):
            cells = get_character_cell_size(character)
            if used + cells > room and (used or index > start):
                rows[-1].append(Segment(text[start:index], style))
                rows.append([])
                start, used = index, 0
            used += cells
        rows[-1].append(Segment(text[start:], style))
    return rows
