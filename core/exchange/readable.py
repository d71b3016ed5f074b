"""Text from outside for documents that people read: nothing in it acts, deceives or hides.

Control characters become visible glyphs, invisible ones and those that turn the reading direction their names, colour
sequences of programs are left out. Newlines and tabs stay. Pure.
"""

from __future__ import annotations

import re
from datetime import datetime

_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_HIDDEN = re.compile(
    "[\x80-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0"
    "\ufff0-\ufffb\U000e0000-\U000e0fff]"
)


def readable(text: str) -> str:
    """The text as it can be read; the same object where nothing is wrong with it."""
    if text.isascii() and text.isprintable():
        return text
    text = _COLOURS.sub("", text).replace("\r\n", "\n") if "\x1b" in text or "\r" in text else text
    return _HIDDEN.sub(_named, _CONTROL.sub(_pictured, text))


def hidden_named(text: str) -> str:
    """The text of a terminal, whose escape sequences act: only what hides or turns the reading direction is named."""
    return _HIDDEN.sub(_named, text)


def one_line(text: str, limit: int = 200) -> str:
    """The beginning of a text as one line of at most `limit` characters."""
    line = " ".join(readable(text[: limit * 4]).split())
    return line if len(line) <= limit and len(text) <= limit * 4 else f"{line[: limit - 1]}…"


def clock(at: datetime) -> str:
    """A moment for people everywhere: UTC, to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def dollars(cost: float | None) -> str:
    """What was paid; a small sum is not rounded to nothing."""
    if cost is None:
        return "cost unknown"
    return f"${cost:.2f}" if cost >= 0.1 or not cost else f"${cost:.4f}"


def _pictured(control: re.Match[str]) -> str:
    code = ord(control[0])
    return "␡" if code == 0x7F else chr(0x2400 + code)


def _named(hidden: re.Match[str]) -> str:
    return f"⟦U+{ord(hidden[0]):04X}⟧"
