"""The sheet: two results as rows of text, side by side or in one column. Pure; no Textual.

Knows how high each line is and formats only those that are asked for, so that a long result costs what is in sight.
Texts are clean when they leave here; long lines go on below, so that nothing is cut off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size

from core.rerun.alignment import Pair
from core.rerun.comparison import Comparison, Line, Outcome, Spans
from tui.i18n import _
from tui.rerun.run_text import WORDS, rule_words
from tui.terminal_io.sanitizer import sanitize, sanitize_line, without_colours

MAX_LINES = 10_000
"""Lines of a result that are shown: more than anybody scrolls through; `--json` has all that differ."""
BAR = " │ "
Part = tuple[str, str]
"""A role, and a text that has it."""
Row = list[Part]


class Cell(NamedTuple):
    """One line of one side."""

    sign: str
    text: str
    """Not clean."""
    spans: Spans
    """What is marked in it."""
    marked: str
    """The role of what is marked."""


_SIGNS = {Outcome.SAME: " ", Outcome.ALIKE: "≈", Outcome.NOT_RUN: "○", Outcome.MISSING: "□"}
_ROLES = {" ": "text", "≈": "alike", "○": "muted", "□": "muted", "-": "old", "+": "new"}


class Sheet:
    """One action of a run, laid out for a width. `is_split` puts the new result beside the recorded one."""

    def __init__(self, pair: Pair, width: int, *, is_split: bool) -> None:
        self._width, self._is_split = max(width, 8), is_split
        self._room = (self._width - len(BAR)) // 2 if is_split else self._width
        comparison = pair.comparison or Comparison(Outcome.MISSING)
        shown = comparison.lines[:MAX_LINES]
        self._lines: list[list[Cell | None]] = [row for line in shown for row in self._cells(line)]
        differing = (
            number for number, line in enumerate(self._lines) if any(cell and cell.sign in "+-" for cell in line)
        )
        first = next(differing, None)
        self._starts = list(accumulate((self._height(line) for line in self._lines), initial=0))
        self.height = self._starts[-1]
        """Rows in all."""
        self.first_difference = self._starts[first] if first is not None else None
        """The row at which the first line that differs begins."""

    def _cells(self, line: Line) -> Iterator[list[Cell | None]]:
        """A line as rows of cells: two side by side, or one below the other."""
        differs = line.outcome is Outcome.DIFFERENT
        signs = ("-", "+") if differs else (_SIGNS[line.outcome],) * 2
        roles = ("old-word", "new-word") if differs else ("alike-word",) * 2
        old: Cell | None = None
        new: Cell | None = None
        if line.recorded is not None:
            old = Cell(signs[0], line.recorded, line.recorded_spans, roles[0])
        if line.new is not None:
            new = Cell(signs[1], line.new, line.new_spans, roles[1])
        if self._is_split:
            yield [old, new]
        elif differs or line.outcome is Outcome.NOT_RUN:
            for cell in (old, new):
                if cell is not None:
                    yield [cell]
        else:
            yield [new or old]

    def _height(self, cells: Sequence[Cell | None]) -> int:
        return max((_height(cell, self._room - 2) for cell in cells if cell is not None), default=1)

    def row(self, y: int) -> Row:
        """One row; empty beyond the last."""
        if y >= self.height:
            return []
        index = bisect_right(self._starts, y) - 1
        offset = y - self._starts[index]
        halves = [self._part(cell, offset) for cell in self._lines[index]]
        if not self._is_split:
            return halves[0]
        return [*_padded(halves[0], self._room), ("muted", BAR), *halves[1]]

    def _part(self, cell: Cell | None, offset: int) -> Row:
        if cell is None:
            return []
        rows = _folded(cell, self._room - 2)
        if offset >= len(rows):
            return []
        role = _ROLES[cell.sign]
        return [(role, f"{cell.sign if not offset else ' '} "), *rows[offset]]


def _differs(cells: Sequence[Cell | None]) -> bool:
    return any(cell is not None and cell.sign in "+-" for cell in cells)


def head(pair: Pair, width: int, *, is_split: bool) -> list[Row]:
    """What stands over a sheet: what was done, how it came out, and which side is which."""
    rows: list[Row] = [[("title", sanitize_line(pair.step.action.message, width))]]
    comparison = pair.comparison
    if comparison is None:
        return [*rows, [("muted", _("Not known yet."))], []]
    parts = [WORDS[comparison.outcome]]
    if comparison.rules:
        parts.append(_("but for: {rules}").format(rules=rule_words(comparison.rules)))
    if comparison.differences:
        parts.append(_("lines that differ: {count}").format(count=comparison.differences))
    rows.append([(str(comparison.outcome), sanitize_line(" · ".join(parts), width))])
    room = (width - len(BAR)) // 2
    sides = _padded([("muted", "  " + _("recorded"))], room) if is_split else []
    return [*rows, [*sides, ("muted", BAR + "  " + _("new"))] if is_split else []]


def _parts(cell: Cell) -> Iterator[Part]:
    """The clean text of a cell in pieces, what is marked in it apart."""
    plain, at = _ROLES[cell.sign], 0
    for start, end in cell.spans:
        yield plain, _clean(cell.text[at:start])
        yield cell.marked, _clean(cell.text[start:end])
        at = end
    yield plain, _clean(cell.text[at:])


def _clean(text: str) -> str:
    return sanitize(without_colours(text)).replace("\n", "␊")


def _height(cell: Cell, room: int) -> int:
    """How many rows a cell takes. Cheap where each character is one cell wide, as in nearly every line."""
    if cell.text.isascii() and cell.text.isprintable():
        return max(1, -(-len(cell.text) // max(room, 1)))
    return len(_folded(cell, room))


def _folded(cell: Cell, room: int) -> list[Row]:
    """A cell as rows of at most `room` cells, cut wherever a row is full; at least one."""
    rows: list[Row] = [[]]
    room, used = max(room, 1), 0
    for role, text in _parts(cell):
        start = 0
        for index, character in enumerate(text):
            cells = get_character_cell_size(character)
            if used + cells > room:
                rows[-1].append((role, text[start:index]))
                rows.append([])
                start, used = index, 0
            used += cells
        if text[start:]:
            rows[-1].append((role, text[start:]))
    return rows


def _padded(row: Row, width: int) -> Row:
    used = sum(cell_len(text) for role, text in row)
    return [*row, ("text", " " * max(0, width - used))]
