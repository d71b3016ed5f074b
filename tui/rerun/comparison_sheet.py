"""The texts of a rerun: marks and summaries, and the two results of an action as rows of text. Pure; no Textual.

A sheet knows the height of each line and formats only the rows that are asked for, so that a long result costs only
what is visible. Texts are sanitised; long lines wrap, so that nothing is cut off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size

from core.rerun.alignment import Pair, Pairing
from core.rerun.comparison import Comparison, Line, Outcome, Spans
from tui.i18n import _
from tui.terminal_io.sanitizer import sanitize, sanitize_line, without_colours

MARKS = {
    Outcome.SAME: "✓",
    Outcome.ALIKE: "≈",
    Outcome.DIFFERENT: "✕",
    Outcome.MISSING: "□",
    Outcome.NOT_RUN: "○",
}
OPEN = "·"
"""The mark of an action without an outcome yet."""
WORDS = {
    Outcome.SAME: _("same"),
    Outcome.ALIKE: _("same except for expected differences"),
    Outcome.DIFFERENT: _("different"),
    Outcome.MISSING: _("missing"),
    Outcome.NOT_RUN: _("not run again"),
}
RULES = {
    "addresses": _("addresses"),
    "commits": _("commits"),
    "durations": _("durations"),
    "file dates": _("file dates"),
    "host": _("host"),
    "ids": _("ids"),
    "interpreters": _("interpreters"),
    "kernel ids": _("kernel ids"),
    "ports": _("ports"),
    "process ids": _("process ids"),
    "temporary paths": _("temporary paths"),
    "times": _("times"),
    "workspace": _("workspace"),
}


def rule_words(names: Iterable[str]) -> str:
    return _(", ").join(RULES[name] for name in sorted(names))


def summary(pairing: Pairing) -> str:
    """How many actions came out how, in one line."""
    counts = pairing.counts()
    parts = [f"{counts[outcome]} {WORDS[outcome]}" for outcome in Outcome if counts[outcome]]
    if still := len(pairing.pairs) - counts.total():
        parts.append(_("{count} not reached").format(count=still))
    return _(", ").join(parts)


MAX_LINES = 10_000
"""Lines of a result that are shown; `--json` has all that differ."""
BAR = " │ "
Part = tuple[str, str]
"""A role, and a text that has it."""
Row = list[Part]


class Cell(NamedTuple):
    """One line of one side."""

    sign: str
    text: str
    """Not sanitised."""
    spans: Spans
    marked: str
    """The role of the marked spans."""


_SIGNS = {Outcome.SAME: " ", Outcome.ALIKE: "≈", Outcome.NOT_RUN: "○", Outcome.MISSING: "□"}
_ROLES = {" ": "text", "≈": "alike", "○": "muted", "□": "muted", "-": "old", "+": "new"}


class Sheet:
    """The results of one action, laid out for a width. `is_split` shows them side by side."""

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
        self.first_difference = self._starts[first] if first is not None else None

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


def head(pair: Pair, width: int, *, is_split: bool) -> list[Row]:
    """The rows above a sheet: the action, the outcome, and which side is which."""
    rows: list[Row] = [[("title", sanitize_line(pair.step.action.message, width))]]
    comparison = pair.comparison
    if comparison is None:
        return [*rows, [("muted", _("No result yet."))], []]
    parts = [WORDS[comparison.outcome]]
    if comparison.rules:
        parts.append(_("except for: {rules}").format(rules=rule_words(comparison.rules)))
    if comparison.differences:
        parts.append(_("differing lines: {count}").format(count=comparison.differences))
    rows.append([(str(comparison.outcome), sanitize_line(" · ".join(parts), width))])
    room = (width - len(BAR)) // 2
    sides = _padded([("muted", "  " + _("recorded"))], room) if is_split else []
    return [*rows, [*sides, ("muted", BAR + "  " + _("new"))] if is_split else []]


def _parts(cell: Cell) -> Iterator[Part]:
    """The sanitised text of a cell in pieces, with the marked ones separate."""
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
    """A cell wrapped into rows of at most `room` cells."""
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
