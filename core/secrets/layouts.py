"""Layouts that spread a value over a text: escape codes between its letters, wrapped lines, and dumps of bytes.

A layout has the bytes that a reader sees, and their positions in the text. Ordinary text has none, which the beginning
of each line shows. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from core.secrets import byte_dumps
from core.secrets.byte_dumps import Span

CODES = re.compile(
    rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]P^_X][^\x07\x1b]{0,2000}+(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[=>78cDEHMNOZ])"
    rb"|[\x0e\x0f]"
)
_BEGUN_CODE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[()*+]|[\]P^_X][^\x07\x1b]{0,2000}\x1b?)?\Z")
"""An incomplete escape code at the end of a piece."""
_TOKEN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
"""The characters of base64, base32 and hexadecimal digits."""
_WRAPPED_CHARS = 20
"""Minimum length of wrapped lines, so that a column of short words is not one text."""
_NEAR_BYTES = 4096
"""How far back a word that continues in the next line is searched."""
_LINE = re.compile(rb"\n(?:([A-Za-z0-9+/=_-]{2,}+\r?+(?=\n|\Z))|" + byte_dumps.BEGINNING + rb")")
_FIRST_LINE = re.compile(rb"(?:([A-Za-z0-9+/=_-]{2,}+\r?+(?=\n|\Z))|" + byte_dumps.BEGINNING + rb")")


@dataclass(frozen=True, slots=True)
class JoinedText:
    """Parts of a text, joined."""

    data: bytes
    parts: list[Span]
    begins: list[int]
    """The begin of each part in `data`."""

    @classmethod
    def of(cls, text: bytes, parts: Iterable[Span]) -> JoinedText:
        """Join these parts of a text."""
        parts = [part for part in parts if part[0] < part[1]]
        sizes = accumulate((end - begin for begin, end in parts), initial=0)
        return cls(b"".join(text[begin:end] for begin, end in parts), parts, list(sizes)[:-1] or [0])

    def place(self, place: int) -> int:
        """The position in the text of a byte of `data`."""
        if not self.parts:
            return 0
        number = bisect_right(self.begins, place) - 1
        return self.parts[number][0] + place - self.begins[number]

    def pieces(self, begin: int, end: int) -> list[Span]:
        """The positions in the text of these bytes of `data`."""
        found = []
        for number in range(bisect_right(self.begins, begin) - 1, bisect_right(self.begins, end - 1)):
            first, last = self.parts[number]
            found.append(
                (max(first, first + begin - self.begins[number]), min(last, first + end - self.begins[number]))
            )
        return found


def without_codes(text: bytes, *, is_cut: bool = False) -> JoinedText | None:
    """The text without escape codes; None if it has none. `is_cut` also removes an incomplete code at the end."""
    if b"\x1b" not in text and b"\x0e" not in text and b"\x0f" not in text:
        return None
    parts, place = list[Span](), 0
    for code in CODES.finditer(text):
        parts.append((place, code.start()))
        place = code.end()
    begun = _BEGUN_CODE.search(text, max(place, len(text) - 2_100)) if is_cut else None
    parts.append((place, begun.start() if begun else len(text)))
    return JoinedText.of(text, parts)


def quickly_without_codes(text: bytes) -> bytes:
    """The bytes of `without_codes`, but several times faster."""
    return CODES.sub(b"", text) if b"\x1b" in text or b"\x0e" in text or b"\x0f" in text else text


def spread(text: bytes) -> Iterator[JoinedText | byte_dumps.Dump]:
    """The wrapped lines and dumps in a text without escape codes."""
    first, parsed_until = _FIRST_LINE.match(text), 0
    for found in (*([first] if first else []), *_LINE.finditer(text)):
        begin = found.start() + (found is not first)
        if begin < parsed_until:
            continue
        if found[1] is None:
            dump_end, read = byte_dumps.read(text, begin)
            yield from read
            parsed_until = max(dump_end, begin + 1)
        else:
            parts, parsed_until = _wrapped_parts(text, begin)
            if len(parts) > 1 and max(end - begin for begin, end in parts) >= _WRAPPED_CHARS:
                yield JoinedText.of(text, parts)


def _wrapped_parts(text: bytes, begin: int) -> tuple[list[Span], int]:
    """The line that begins here, the following ones without spaces, and the words before and after them.

    Also returns the begin of the first line with a space.
    """
    parts = []
    near = text[max(begin - _NEAR_BYTES, 0) : begin]
    before = near.rstrip(b"\r\n")
    if before and len(near) - len(before) <= len(b"\r\n"):
        end = begin - len(near) + len(before)
        parts.append((end - len(before) + len(before.rstrip(_TOKEN)), end))
    while begin < len(text):
        newline = text.find(b"\n", begin)
        line = text[begin : newline if newline >= 0 else len(text)]
        word = len(line) - len(line.lstrip(_TOKEN))
        parts.append((begin, begin + word))
        if newline < 0 or not word or line[word:] not in (b"", b"\r"):
            break
        begin = newline + 1
    return parts, begin


def last_wrapped(text: bytes) -> JoinedText | None:
    """The word at the end of an incomplete text, with the lines before it that it may continue; None if complete."""
    run = len(text) - len(text.rstrip(_TOKEN + b"\r\n"))
    if run < _WRAPPED_CHARS or b"\n" not in text[len(text) - run :]:
        return None
    start = len(text) - run
    return JoinedText.of(
        text, [(start + word.start(), start + word.end()) for word in re.finditer(rb"[^\r\n]+", text[start:])]
    )
