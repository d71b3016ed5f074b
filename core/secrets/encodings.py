"""The forms of a secret in texts: plain, encoded, quoted and escaped.

Base64 has three forms and base32 five, depending on the bytes before the value; a form has only the characters that
depend on the value alone. Each long enough line of a value is a secret too, because programs print single lines. Quoted
forms are without the quotes.

Layouts spread a value over a text: escape codes between its letters, wrapped lines, and dumps of bytes. A layout has
the bytes that a reader sees, and their positions in the text. Ordinary text has none, which the beginning of each line
shows. Pure.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from urllib.parse import quote

from core.secrets import byte_dumps
from core.secrets.byte_dumps import Span
from core.secrets.variable_names import MIN_LENGTH

_ERRORS = "surrogatepass"
_SAFE_SETS = ("", "/", "/:@", "!'()*", ";/?:@&=+$,#!'()*")
"""Characters that are not escaped by Python's `quote` and JavaScript's encodeURIComponent and encodeURI."""
_BACKSLASHED = re.compile(r"[ \t!\"$&'()*,;<>?\[\\\]^`{|}]")
"""Characters that `printf %q` of bash escapes; `#` and `~` in some places only."""
_C_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\a": "\\a", "\b": "\\b", "\v": "\\v", "\f": "\\f"}
_JSON_DEPTH = 3
"""JSON in JSON in JSON, such as a tool result in a request in a log."""
_BYTES = ("{:02x}", "{:02X}", "{:02x} ", "{:02X} ", "{:02x}:", "{:02X}:", "\\x{:02x}", "\\x{:02X}")
"""Formats of bytes: hexadecimal digits, with spaces or colons, and escapes."""
_ENTITIES = ("&#{};", "&#x{:x};", "&#x{:X};")
_HTML_QUOTES = (('"', "'"), ("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&quot;", "&apos;"), ("&#34;", "&#39;"))


def quoted(text: str) -> Iterator[bytes]:
    """The quoted forms of a text, possibly with duplicates."""
    for form in (*_in_json(text), *_in_shells(text), *_in_programs(text), *_in_html(text)):
        yield form.encode("utf-8", _ERRORS)
    raw = text.encode("utf-8", _ERRORS)
    yield from _in_addresses(raw)
    yield "".join(map(_visible, raw)).encode()


def _in_json(text: str) -> Iterator[str]:
    for is_ascii in (True, False):
        form = text
        for _ in range(_JSON_DEPTH):
            form = json.dumps(form, ensure_ascii=is_ascii)[1:-1]
            yield form
            yield form.replace("/", "\\/")


def _in_shells(text: str) -> Iterator[str]:
    """`set -x` and `${x@Q}`, Python's shlex, `declare -p`, `printf %q`, and `$'...'` for control characters."""
    yield text.replace("'", "'\\''")
    yield text.replace("'", "'\"'\"'")
    yield re.sub(r"[$`\"\\]", r"\\\g<0>", text)
    plain = _BACKSLASHED.sub(r"\\\g<0>", text)
    yield plain
    yield re.sub(r"(?<=[:=])~|\A[~#]", r"\\\g<0>", plain)
    yield re.sub(r"[#~]", r"\\\g<0>", plain)
    ansi = "".join(_ansi_c(char) for char in text)
    yield ansi
    yield "".join(char if char < "\x80" else _octal(char) for char in ansi)
    yield "".join("\\\\" if char == "\\" else _c_escape(char) for char in text)


def _c_escape(char: str) -> str:
    """One character as `sed -n l` prints it, but for a backslash."""
    return _C_ESCAPES.get(char) or (char if " " <= char <= "~" else _octal(char))


def _visible(byte: int) -> str:
    """One byte as `cat -v` prints it."""
    if byte >= 0x80:
        return f"M-{_visible(byte - 0x80)}" if byte - 0x80 not in b"\t\n" else f"M-^{chr(byte - 0x40)}"
    return "^?" if byte == 0x7F else f"^{chr(byte + 0x40)}" if byte < 0x20 and byte not in b"\t\n" else chr(byte)


def _ansi_c(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if char == "\x1b":
        return "\\E"
    return _C_ESCAPES.get(char) or (_octal(char) if char < " " or char == "\x7f" else char)


def _octal(char: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", _ERRORS))


def _in_programs(text: str) -> Iterator[str]:
    """Python's repr with either quote, of text and of bytes, and quotes that are doubled as in SQL, CSV and YAML."""
    yield _inner(repr(text))
    yield _inner(repr(text + "\"'"))[: -len("\"\\'")]
    yield _inner(repr(text.encode("utf-8", _ERRORS)))
    for mark in "'\"":
        yield text.replace(mark, mark * 2)


def _inner(literal: str) -> str:
    """The text between the quotes of a literal."""
    return literal[literal.index(literal[-1]) + 1 : -1]


def _in_html(text: str) -> Iterator[str]:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for double, single in _HTML_QUOTES:
        yield escaped.replace('"', double).replace("'", single)
        yield escaped.replace('"', double)
    for entity in _ENTITIES:
        yield "".join(entity.format(ord(char)) for char in text)


def _in_addresses(raw: bytes) -> Iterator[bytes]:
    for safe in _SAFE_SETS:
        escaped = quote(raw, safe=safe)
        for form in (escaped, re.sub("%..", lambda found: found[0].lower(), escaped)):
            yield form.encode()
            yield form.replace("%20", "+").encode()


MAX_LINES = 2_000
"""Limit for one value. A private key has about fifty."""


def forms(value: str) -> frozenset[bytes]:
    """The forms of a value that are redacted, each of at least MIN_LENGTH bytes; none if the value is too short."""
    if len(value) < MIN_LENGTH:
        return frozenset()
    found = {form for part in _parts(value) for form in _forms(part)}
    return frozenset(form for form in found if len(form) >= MIN_LENGTH)


def lines(value: str) -> Iterator[bytes]:
    """The lines of a value, without those that only name the type of a key."""
    for part in _parts(value):
        if "\n" not in part:
            yield part.encode("utf-8", _ERRORS)


def _parts(value: str) -> Iterator[str]:
    """The value, and its lines if it has several."""
    yield value
    lines = value.splitlines()
    if len(lines) > 1:
        for line in lines[:MAX_LINES]:
            stripped = line.strip()
            if len(stripped) >= MIN_LENGTH and not stripped.startswith("-----"):
                yield stripped


def _forms(text: str) -> Iterator[bytes]:
    raw = text.encode("utf-8", _ERRORS)
    yield raw
    yield from quoted(text)
    for written in _BYTES:
        yield "".join(map(written.format, raw)).rstrip(" :").encode()
    for before in range(3):
        coded = base64.b64encode(bytes(before) + raw)
        yield (inner := _without_borders(coded, before, len(raw), 6))
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))
    for before in range(5):
        yield _without_borders(base64.b32encode(bytes(before) + raw), before, len(raw), 5)


def _without_borders(coded: bytes, before: int, size: int, bits: int) -> bytes:
    """Remove the characters at the borders, which also depend on neighbouring bytes."""
    return coded[-(-before * 8 // bits) : (before + size) * 8 // bits]


CODES = re.compile(
    rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]P^_X][^\x07\x1b]{0,2000}+(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[=>78cDEHMNOZ])"
    rb"|[\x0e\x0f]|\\\r?\n"
)
"""Also a line that a backslash continues, as in a shell and in `sed -n l`."""
_BEGUN_CODE = re.compile(rb"(?:\x1b(?:\[[0-?]*[ -/]*|[()*+]|[\]P^_X][^\x07\x1b]{0,2000}\x1b?)?|\\\r?)\Z")
"""An incomplete escape code at the end of a piece."""
_SIGNS = (b"\x1b", b"\x0e", b"\x0f", b"\\\n", b"\\\r\n")
"""A text without these has no complete code."""
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
    if not any(sign in text for sign in _SIGNS) and not (is_cut and text.endswith((b"\\", b"\\\r"))):
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
    return CODES.sub(b"", text) if any(sign in text for sign in _SIGNS) else text


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
