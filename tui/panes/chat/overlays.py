"""What is laid over a row of the transcript: block cursor, selection, chip. Pure functions on strips."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

CURSOR = "▎"


def with_cursor(strip: Strip, x: int, style: Style) -> Strip:
    """The row with the mark of the block cursor at cell `x`, if there is room."""
    if x < 0:
        return strip
    return Strip.join([strip.crop(0, x), Strip([Segment(CURSOR, style)], 1), strip.crop(x + 1)])


def with_selection(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    """The row with the characters of `span` marked; an end of -1 is the end of the row."""
    text = strip.text
    left, right = (strip.index_to_cell_position(at) if 0 <= at < len(text) else strip.cell_length for at in span)
    return Strip.join([strip.crop(0, left), strip.crop(left, right).apply_style(style), strip.crop(right)])


def with_chip(strip: Strip, text: str, style: Style) -> Strip:
    """The row with a chip in its middle, if there is room."""
    width = cell_len(text)
    left = (strip.cell_length - width) // 2
    if left < 0:
        return strip
    return Strip.join([strip.crop(0, left), Strip([Segment(text, style)], width), strip.crop(left + width)])
