"""What is drawn over a row of the chat, and what a selection takes out of it. Pure functions on strips."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

_WORD = re.compile(r"[\w./:@~+-]*\w[\w/]*|\s+|.")
"""Paths, addresses and names are words, without the full stop at the end of a sentence."""
CURSOR = "▎"
GUTTER = Style(meta={"part": "gutter"})
"""Marks what is not part of the conversation: margins, bars, line numbers, padding. It is never copied."""
SIDES = {side: Style(meta={"part": side}) for side in ("old", "new")}
"""Marks the two sides of a diff; a selection copies the side that it began in."""


def with_cursor(strip: Strip, x: int, style: Style) -> Strip:
    """Put the mark of the block cursor at cell `x`, if there is room."""
    if x < 0:
        return strip
    return Strip.join([strip.crop(0, x), Strip([Segment(CURSOR, style + GUTTER)], 1), strip.crop(x + 1)])


def with_chip(strip: Strip, text: str, style: Style) -> Strip:
    """Put a chip in the middle of a row, if there is room."""
    width = cell_len(text)
    left = (strip.cell_length - width) // 2
    if left < 0:
        return strip
    return Strip.join([strip.crop(0, left), Strip([Segment(text, style)], width), strip.crop(left + width)])


def parts_of(strip: Strip) -> Iterator[tuple[int, str, str]]:
    """Yield the parts of a row that belong to the conversation: start, text, and side of a diff."""
    at = 0
    for text, style, _ in strip:
        part = str(style.meta.get("part", "")) if style is not None and style._meta else ""
        if part != "gutter":
            yield at, text, part
        at += len(text)


def side_at(strip: Strip, index: int) -> str:
    """Return the side of a diff that a character of a row is on, or left of; the new one if there is none."""
    found = ""
    for at, _, part in parts_of(strip):
        if at > index and found:
            break
        found = part
    return found or "new"


def selected_text(strip: Strip, span: tuple[int, int], side: str) -> str:
    """Return the conversation's text between two characters of a row; of a diff, the text on `side`."""
    start, end = span
    taken = []
    for at, text, part in parts_of(strip):
        if part in ("", side):
            taken.append(text[max(0, start - at) : None if end == -1 else max(0, end - at)])
    return "".join(taken).rstrip()


def word_at(strip: Strip, index: int) -> tuple[int, int]:
    """Return start and end of the word at a character of a row; blanks are a word, too."""
    for at, text, _ in _joined(strip):
        for word in _WORD.finditer(text):
            if at + word.start() <= index < at + word.end():
                return at + word.start(), at + word.end()
    return index, index


def _joined(strip: Strip) -> Iterator[tuple[int, str, str]]:
    """Join the parts of a row that follow each other."""
    begin, whole, side = 0, "", ""
    for at, text, part in parts_of(strip):
        if whole and (at != begin + len(whole) or part != side):
            yield begin, whole, side
            whole = ""
        if not whole:
            begin, side = at, part
        whole += text
    if whole:
        yield begin, whole, side
