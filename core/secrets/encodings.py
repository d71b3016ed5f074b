"""The forms of a secret in texts: plain, encoded, quoted and escaped.

Base64 has three forms and base32 five, depending on the bytes before the value; a form has only the characters that
depend on the value alone. Each long enough line of a value is a secret too, because programs print single lines. Quoted
forms are without the quotes. Values that are spread over lines or columns are found by `layouts`. Pure.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

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
    yield from _in_addresses(text.encode("utf-8", _ERRORS))


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
