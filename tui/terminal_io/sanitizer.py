"""Sanitises foreign text, so that a terminal can only draw it.

Tool output, files, model text, names and titles are hostile. Clean text has no control and no invisible character but
the newline; it reads in the order in which it is stored; and its width is the sum of the widths of its characters, so
that every terminal lays it out as Handloom does. Nothing is hidden: control characters become visible glyphs. Models
call this when they receive text; `tui.terminal_io.strip_filter` is the second line of defence. Pure functions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import chain

from rich.cells import cell_len, set_cell_size

TAB_WIDTH = 8
MAX_MARKS = 16
"""Combining marks on one character: scripts need a handful, and more would paint over other lines."""

# A class of characters below U+10000 compiles to a bitmap, which is 60 times as fast as a list of ranges. So higher
# characters have patterns of their own, which are only used if the text has any.
_HIDDEN = (
    "\x80-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
)
"""C1, bidi controls, line separators, lone surrogates, fillers, and others without a glyph."""
_HIGH_HIDDEN = (
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
    "\U0010eeee"
)
"""The last is the placeholder of pictures in kitty and others; only `tui.terminal_io.graphics` may write it."""
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f"
_HIGH_SELECTORS = "\U000e0100-\U000e01ef\U0001f3fb-\U0001f3ff"
"""The last are skin tones: kitty and others draw them into the character before, xterm beside it."""

_ASCII_HOSTILE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_HOSTILE = re.compile(rf"[\x00-\x09\x0b-\x1f\x7f{_HIDDEN}{_JOINERS}{_SELECTORS}]")
_HIGH = re.compile("[\U00010000-\U0010ffff]")
_HIGH_HOSTILE = re.compile(f"[{_HIGH_HIDDEN}{_HIGH_SELECTORS}]")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_HIDDEN_RUN = re.compile(f"(?:[{_HIDDEN}{_JOINERS}]|[{_HIGH_HIDDEN}])+")
_DROPPED = re.compile(
    f"[{_SELECTORS}]|[{_HIGH_SELECTORS}]|(?<=[^\x00-\x7f])[{_JOINERS}](?=[^\x00-\x7f{_HIDDEN}{_JOINERS}])"
)
"""Selectors, and joiners inside a word: they only choose a form of their neighbours, at widths that differ."""
_SGR = re.compile(r"\x1b\[[0-9;:]*m")


def sanitize(text: str) -> str:
    """Make everything visible that could control a terminal or deceive a reader.

    Newlines stay, tabs become spaces. Clean text is returned as the same object. Idempotent, and the same for a whole
    text and line by line.
    """
    if text.isascii():
        return text if _ASCII_HOSTILE.search(text) is None else _visible_ascii(text)
    high = _HIGH.search(text) is not None
    if _HOSTILE.search(text) is not None or (high and _HIGH_HOSTILE.search(text) is not None):
        text = _visible_ascii(_DROPPED.sub("", text))
        text = _HIDDEN_RUN.sub(_name_run, text)
    return _mark_flood(high).sub(r"\1", text)


def sanitize_line(text: str, limit: int) -> str:
    """Return one clean line of at most `limit` cells, with an ellipsis if it was cut.

    Reads only a few characters per cell, so a line of 10 MB costs as much as a short one.
    """
    if limit <= 0:
        return ""
    head = text[: limit * (MAX_MARKS + 2)]
    line = sanitize(head).replace("\n", "␊")
    if len(head) == len(text) and cell_len(line) <= limit:
        return line
    return set_cell_size(line, limit - 1).rstrip() + "…"


def without_colours(text: str) -> str:
    """Remove colour sequences from a program's output, which nobody wants to read as glyphs."""
    return _SGR.sub("", text) if "\x1b[" in text else text


def _visible_ascii(text: str) -> str:
    text = _CONTROL.sub(_control_picture, text.replace("\r\n", "\n"))
    return text.expandtabs(TAB_WIDTH) if "\t" in text else text


def _control_picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "␡" if code == 0x7F else chr(0x2400 + code)


def _name_run(match: re.Match[str]) -> str:
    """`⟦U+202E⟧` for one hidden character, `⟦U+202E+6⟧` for it and six more."""
    run = match[0]
    more = f"+{len(run) - 1}" if len(run) > 1 else ""
    return f"⟦U+{ord(run[0]):04X}{more}⟧"


_LOW_MARKS = (range(0x300, 0x3100), range(0xA600, 0xAC00), range(0xD7B0, 0xD800), range(0xF900, 0x10000))
_HIGH_MARKS = (
    range(0x10000, 0x12000),
    range(0x16A00, 0x17000),
    range(0x1BC00, 0x1BD00),
    range(0x1CF00, 0x1EA00),
)
"""Where Unicode has marks. The ideographs and syllables between have none and would take most of the time."""


@cache
def _mark_flood(high: bool) -> re.Pattern[str]:
    """Return a pattern of more than MAX_MARKS zero-width marks; `high` includes those above U+FFFF.

    Built when it is first needed, because going through Unicode takes some milliseconds.
    """
    mark = f"[{_marks(_LOW_MARKS)}]"
    if high:
        mark = f"(?:{mark}|[{_marks(_HIGH_MARKS)}])"
    return re.compile(f"({mark}{{{MAX_MARKS}}}){mark}+")


def _marks(blocks: Iterable[range]) -> str:
    """Return the body of a character class of the marks in `blocks`."""
    ranges: list[tuple[int, int]] = []
    for code in chain.from_iterable(blocks):
        conjoining_jamo = 0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FB
        if conjoining_jamo or unicodedata.category(chr(code)) in ("Mn", "Me"):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges)
