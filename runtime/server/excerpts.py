"""Parts of texts as the model reads them: numbered lines, ranges, what stands around an edit. Pure.

The texts are those of OpenHands' editor (`openhands_aci/editor/editor.py`), which models are tuned to.
"""

from __future__ import annotations

MAX_CHARS = 16_000
"""Of what one answer shows."""

_CLIPPED = (
    "<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. "
    "You should retry this tool after you have searched inside the file with `grep -n` in order to find the "
    "line numbers of what you are looking for.</NOTE>"
)


class RangeError(ValueError):
    """A range of lines that a text does not have; the text says why."""


def shown(text: str, what: str, view_range: list[int] | None = None) -> str:
    """A whole text with numbered lines, or the lines of a range, from 1. Raises RangeError."""
    lines = lines_of(text)
    if not view_range:
        return numbered("\n".join(lines), what)
    start, end, note = _checked_range(view_range, len(lines))
    return numbered("\n".join(lines[start - 1 : end]), what, start) + note


def numbered(text: str, what: str, first: int = 1) -> str:
    """Lines as `cat -n` shows them, cut where they are too many."""
    if len(text) > MAX_CHARS:
        text = text[:MAX_CHARS] + _CLIPPED
    numbered = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(text.split("\n"), first))
    return f"Here's the result of running `cat -n` on {what}:\n{numbered}\n"


def snippet(text: str, after: int, last: int) -> str:
    """The lines behind line `after`, to line `last`."""
    lines = text.split("\n", last)  # what comes behind stays in one piece
    return "\n".join((lines[:last] if len(lines) > last else lines_of(text))[max(0, after) :])


def lines_of(text: str) -> list[str]:
    """Lines without their ends, as `cat -n` counts them."""
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def line_numbers_of(text: str, part: str) -> list[int]:
    """The lines in which a part of a text begins."""
    numbers: dict[int, None] = {}
    line, counted = 1, 0
    at = text.find(part)
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        numbers[line] = None
        at = text.find(part, at + len(part))
    return list(numbers)


def _checked_range(view_range: list[int], count: int) -> tuple[int, int, str]:
    """First and last line to show, and the note for an end that was beyond the file. Raises RangeError."""
    if len(view_range) != 2:
        raise RangeError("It should be a list of two integers.")
    start, end = view_range
    if not 1 <= start <= count:
        hint = f"Its first element `{start}` should be within the range of lines of the file: {[1, count]}."
        raise RangeError(hint)
    if end == -1:
        return start, count, ""
    if end > count:
        note = f"\nNOTE: We only show up to {count} since there's only {count} lines in this file\n"
        return start, count, note
    if end < start:
        hint = f"Its second element `{end}` should be greater than or equal to the first element `{start}`."
        raise RangeError(hint)
    return start, end, ""
