"""How programs spread a value over a text: colour codes between its letters, line breaks, and dumps of bytes.

A `Layout` holds the bytes that a reader would see, and where each stands. `layouts` gives those in which a value could
hide that cannot be found in the text as it is; ordinary text has none, and one look at the beginning of each line tells
that. Dumps are read in `dumps`. Pure.
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
"""At the end of a piece, a code whose rest comes with the next one."""
_TOKEN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
"""What base64, base32 and hexadecimal digits are made of."""
_WRAPPED_CHARS = 20
"""Programs that break lines break longer ones; a column of short words is not taken for one text."""
_NEAR_BYTES = 4096
"""How far back the word is looked for that goes on in the next line."""
_LINE = re.compile(rb"\n(?:([A-Za-z0-9+/=_-]{2,}+\r?+(?=\n|\Z))|" + byte_dumps.BEGINNING + rb")")
_FIRST_LINE = re.compile(rb"(?:([A-Za-z0-9+/=_-]{2,}+\r?+(?=\n|\Z))|" + byte_dumps.BEGINNING + rb")")


@dataclass(frozen=True, slots=True)
class Kept:
    """Parts of a text, in order, as one text."""

    data: bytes
    parts: list[Span]
    begins: list[int]
    """Where in `data` each part begins."""

    @classmethod
    def of(cls, text: bytes, parts: Iterable[Span]) -> Kept:
        """These parts of a text."""
        parts = [part for part in parts if part[0] < part[1]]
        sizes = accumulate((end - begin for begin, end in parts), initial=0)
        return cls(b"".join(text[begin:end] for begin, end in parts), parts, list(sizes)[:-1] or [0])

    def place(self, place: int) -> int:
        """Where in the text a byte of `data` stands."""
        if not self.parts:
            return 0
        number = bisect_right(self.begins, place) - 1
        return self.parts[number][0] + place - self.begins[number]

    def pieces(self, begin: int, end: int) -> list[Span]:
        """Where in the text these bytes of `data` stand."""
        found = []
        for number in range(bisect_right(self.begins, begin) - 1, bisect_right(self.begins, end - 1)):
            first, last = self.parts[number]
            found.append(
                (max(first, first + begin - self.begins[number]), min(last, first + end - self.begins[number]))
            )
        return found


def without_codes(text: bytes, *, is_cut: bool = False) -> Kept | None:
    """The text without escape codes; None where it has none. `is_cut` leaves out a code that has only begun, too."""
    if b"\x1b" not in text and b"\x0e" not in text and b"\x0f" not in text:
        return None
    parts, place = list[Span](), 0
    for code in CODES.finditer(text):
        parts.append((place, code.start()))
        place = code.end()
    begun = _BEGUN_CODE.search(text, max(place, len(text) - 2_100)) if is_cut else None
    parts.append((place, begun.start() if begun else len(text)))
    return Kept.of(text, parts)


def quickly_without_codes(text: bytes) -> bytes:
    """The bytes of `without_codes`, several times as fast."""
    return CODES.sub(b"", text) if b"\x1b" in text or b"\x0e" in text or b"\x0f" in text else text


def spread(text: bytes) -> Iterator[Kept | byte_dumps.Dump]:
    """What is wrapped over lines, and dumps. `text` is without escape codes."""
    first, read_until = _FIRST_LINE.match(text), 0
    for found in (*([first] if first else []), *_LINE.finditer(text)):
        begin = found.start() + (found is not first)
        if begin < read_until:
            continue
        if found[1] is None:
            dump_end, read = byte_dumps.read(text, begin)
            yield from read
            read_until = max(dump_end, begin + 1)
        else:
            parts, read_until = _wrapped_parts(text, begin)
            if len(parts) > 1 and max(end - begin for begin, end in parts) >= _WRAPPED_CHARS:
                yield Kept.of(text, parts)


def _wrapped_parts(text: bytes, begin: int) -> tuple[list[Span], int]:
    """The line that begins here, those that follow without a blank, and the words before and after them.

    And where the first line begins that has a blank.
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


def last_wrapped(text: bytes) -> Kept | None:
    """The word at the end of a text that is cut, with the lines before that it may go on from; None for a whole one."""
    run = len(text) - len(text.rstrip(_TOKEN + b"\r\n"))
    if run < _WRAPPED_CHARS or b"\n" not in text[len(text) - run :]:
        return None
    start = len(text) - run
    return Kept.of(
        text, [(start + word.start(), start + word.end()) for word in re.finditer(rb"[^\r\n]+", text[start:])]
    )
