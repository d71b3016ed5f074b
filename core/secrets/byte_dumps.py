"""Parser for dumps of od, xxd and hexdump: the bytes of a dump, and where the dump shows each of them. Pure.

The format is not always clear, such as the byte order, so a dump is parsed in every format that fits. A line may have
an offset, has columns with the bytes, and may repeat the bytes as text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

Span = tuple[int, int]
Cell = tuple[int, int, int]
"""A byte, and the begin and end of its column."""

_CHAR = rb"(?: {3}[!-~]| {2}\\[0abtnvfr]| [0-7]{3}| {4})"
BEGINNING = (
    rb"(?:[0-9a-fA-F]{6,16}+(?::? {1,4}+[0-9a-fA-F]{2,16}+[ \r\n]|" + _CHAR + rb"{4})"
    rb"| {0,4}+(?:[0-9a-fA-F]{2,16}+ {1,4}+){3}| (?:  [!-~]| \\[0abtnvfr]|[0-7]{3})" + _CHAR + rb"{3})"
)
"""The beginning of a line of a dump. Each alternative fails fast."""
_OFFSET = re.compile(rb"[0-9a-fA-F]{6,16}(:?)(?=[ \r\n]|\Z)")
_COLUMN = re.compile(rb"( {0,4})(-?[0-9a-fA-F]+)(?=[ \r\n]|\Z)")
_OTHER_CHAR = re.compile(rb" {3}([!-~])| {2}(\\[0abtnvfr])| ([0-7]{3})|( {4})")
_BEGUN_LINE = re.compile(rb"\n?[0-9a-fA-F]{0,16}:? *(?:[0-9a-fA-F]|\\)?")
_ESCAPED = {b"\\0": 0, b"\\a": 7, b"\\b": 8, b"\\t": 9, b"\\n": 10, b"\\v": 11, b"\\f": 12, b"\\r": 13}
_SKIPPED_LINES = 2
"""Lines in another format between two lines of a dump, as in `od -t x1c`."""
_OFFSET_WIDTHS = (7, 6, 8)
"""Widths of octal and decimal offsets, of `-A x`, and of those of hexdump."""
_LEAST_BYTES = 7
"""A shorter dump cannot contain a secret."""


@dataclass(slots=True)
class Dump:
    """The bytes of a dump, with their positions in order."""

    data: bytes = b""
    cells: list[Span] = field(default_factory=list)
    """The position of each byte in the columns."""
    begins: list[int] = field(default_factory=list)
    """The index of the first byte of each line."""
    lines: list[Span] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)
    """The position of the text of each line, or -1."""

    def place(self, number: int) -> int:
        """The begin of the line that shows a byte."""
        return self.lines[bisect_right(self.begins, number) - 1][0]

    def pieces(self, begin: int, end: int) -> list[Span]:
        """The positions that show these bytes, in columns and texts."""
        found = []
        for line in range(bisect_right(self.begins, begin) - 1, bisect_right(self.begins, end - 1)):
            first = max(begin, self.begins[line])
            last = min(end, self.begins[line + 1] if line + 1 < len(self.begins) else len(self.data))
            cells = self.cells[first:last]
            found.append((min(cell[0] for cell in cells), max(cell[1] for cell in cells)))
            if (text := self.texts[line]) >= 0:
                text_begin = text + first - self.begins[line]
                text_end = min(text_begin + last - first, self.lines[line][1])
                found.append((min(text_begin, text_end), text_end))
        return found


def may_go_on(text: bytes, dump: Dump) -> bool:
    """Whether the rest of a text after a dump may be the beginning of its next line."""
    return _BEGUN_LINE.fullmatch(text, dump.lines[-1][1]) is not None


def read(text: bytes, begin: int) -> tuple[int, list[Dump]]:
    """Parse a dump that begins here. Returns its end, and the dump in every format that fits."""
    dumps, end = list[Dump](), begin
    for way in (_big, _little, _octal, _octal_words, _bits, _decimal, None):
        dump = _read_as(text, begin, way)
        if len(dump.data) >= _LEAST_BYTES:
            dumps.append(dump)
            end = max(end, dump.lines[-1][1])
    return end, dumps


Way = Callable[[bytes], bytes | None]
"""Decodes a column; returns None if it is not one."""


def _read_as(text: bytes, begin: int, way: Way | None) -> Dump:
    """Parse a dump in one format; None is the format of `od -c`."""
    dump, data, skipped = Dump(), bytearray(), 0
    while begin < len(text) and skipped <= _SKIPPED_LINES:
        newline = text.find(b"\n", begin)
        end = newline if newline >= 0 else len(text)
        line = _chars(text, begin, end) if way is None else _columns(text, begin, end, way)
        if line is None:
            skipped += 1
        elif line[0]:
            skipped = 0
            cells, text_begin = line
            dump.begins.append(len(data))
            dump.lines.append((begin, end))
            dump.texts.append(text_begin)
            dump.cells += [cell[1:] for cell in cells]
            data += bytes(cell[0] for cell in cells)
        else:
            break  # the offset after the last byte
        begin = end + 1
    dump.data = bytes(data)
    return dump


def _columns(text: bytes, begin: int, end: int, way: Way) -> tuple[list[Cell], int] | None:
    """The bytes of one line, and the position of its text; None if it is not a line of a dump."""
    offset = _OFFSET.match(text, begin, end)
    place, is_xxd = (offset.end(), offset[1] == b":") if offset else (begin, False)
    cells = list[Cell]()
    while (column := _COLUMN.match(text, place, end)) is not None:
        if is_xxd and cells and len(column[1]) > 1:
            break  # the text begins after two blanks
        if (value := way(column[2])) is None:
            break
        cells += _cells(value, column, is_reversed=way is _little)
        place = column.end()
    rest = text[place:end].strip(b" \r")
    if not rest:
        return (cells, -1) if cells or offset else None
    if not cells or not (is_xxd or rest[:1] in (b"|", b">") or end == len(text)):
        return None
    return cells, _text_begin(text, place, end, len(cells), has_border=rest[:1] in (b"|", b">") and not is_xxd)


def _text_begin(text: bytes, place: int, end: int, size: int, *, has_border: bool) -> int:
    """The begin of the text of a line: its last bytes without the border and the line end."""
    line_end = end - text[place:end].endswith(b"\r")
    return max(line_end - size - has_border, place)


def _cells(value: bytes, column: re.Match[bytes], *, is_reversed: bool) -> list[Cell]:
    begin, end = column.span(2)
    if end - begin != 2 * len(value):
        return [(byte, begin, end) for byte in value]
    places = range(end - 2, begin - 1, -2) if is_reversed else range(begin, end, 2)
    return [(byte, place, place + 2) for byte, place in zip(value, places, strict=True)]


def _chars(text: bytes, begin: int, end: int) -> tuple[list[Cell], int] | None:
    """The bytes of a line of `od -c`, after an offset or spaces; None if it is not such a line."""
    if (offset := _OFFSET.match(text, begin, end)) is not None:
        return (cells, -1) if (cells := _chars_from(text, offset.end(), end)) is not None else None
    for width in (0, *_OFFSET_WIDTHS):
        if text.startswith(b" " * width, begin) and (cells := _chars_from(text, begin + width, end)):
            return cells, -1
    return None


def _chars_from(text: bytes, place: int, end: int) -> list[Cell] | None:
    cells = list[Cell]()
    while (found := _OTHER_CHAR.match(text, place, end)) is not None:
        plain, escaped, octal = found[1], found[2], found[3]
        value = plain[0] if plain else _ESCAPED[escaped] if escaped else int(octal, 8) & 255 if octal else 32
        cells.append((value, *found.span()))
        place = found.end()
    return None if text[place:end].strip(b" \r") and end < len(text) else cells


def _big(column: bytes) -> bytes | None:
    if len(column) % 2 or len(column) > 16 or column.startswith(b"-"):
        return None
    return bytes.fromhex(column.decode())


def _little(column: bytes) -> bytes | None:
    """The format of `od -x` and hexdump. Columns of one byte are left to `_big`."""
    return value[::-1] if len(column) > 2 and (value := _big(column)) is not None else None


def _octal(column: bytes) -> bytes | None:
    return bytes([int(column, 8)]) if re.fullmatch(rb"[0-3][0-7]{2}", column) else None


def _octal_words(column: bytes) -> bytes | None:
    return int(column, 8).to_bytes(2, "little") if re.fullmatch(rb"[01][0-7]{5}", column) else None


def _bits(column: bytes) -> bytes | None:
    return bytes([int(column, 2)]) if re.fullmatch(rb"[01]{8}", column) else None


def _decimal(column: bytes) -> bytes | None:
    return bytes([int(column) & 255]) if re.fullmatch(rb"-?[0-9]{1,3}", column) and -129 < int(column) < 256 else None
