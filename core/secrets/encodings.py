"""The forms in which a known secret can stand in a text: as it is, and as the usual programs write it.

Base64 has three forms, by where among other bytes a value begins; only the characters that come of the value alone are
a form. Of a value of several lines, each line that is long enough is a secret by itself: programs print lines. Pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

from core.secrets.names import MIN_LENGTH

MAX_LINES = 2_000
"""Of one value. A private key has some fifty."""


def forms(value: str) -> frozenset[bytes]:
    """Every form of a value that is masked, none of them under MIN_LENGTH bytes. None of a value that is too short."""
    if len(value) < MIN_LENGTH:
        return frozenset()
    found = {form for part in _parts(value) for form in _forms(part)}
    return frozenset(form for form in found if len(form) >= MIN_LENGTH)


def _parts(value: str) -> Iterator[str]:
    """The value and, where it has several, its lines; not the lines that say what a key is."""
    yield value
    lines = value.splitlines()
    if len(lines) > 1:
        for line in lines[:MAX_LINES]:
            stripped = line.strip()
            if len(stripped) >= MIN_LENGTH and not stripped.startswith("-----"):
                yield stripped


def _forms(text: str) -> Iterator[bytes]:
    raw = text.encode("utf-8", "surrogatepass")
    yield raw
    for is_ascii in (True, False):
        yield json.dumps(text, ensure_ascii=is_ascii)[1:-1].encode("utf-8", "surrogatepass")
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    escaped = quote(raw, safe="")
    yield escaped.encode()
    yield quote(raw, safe="/:@").encode()
    yield escaped.replace("%20", "+").encode()
    yield "".join(part.lower() if index else part for index, part in _escapes(escaped)).encode()
    for before in range(3):
        # Characters at the borders are made of bits of the neighbours, too.
        begin, end = (before * 8 + 5) // 6, (before + len(raw)) * 8 // 6
        coded = base64.b64encode(bytes(before) + raw)[begin:end]
        yield coded
        yield coded.translate(bytes.maketrans(b"+/", b"-_"))


def _escapes(escaped: str) -> Iterator[tuple[int, str]]:
    """The pieces of a URL-encoded text: 1 with each escape, 0 with what stands between."""
    place = 0
    while (found := escaped.find("%", place)) >= 0:
        yield 0, escaped[place:found]
        yield 1, escaped[found : found + 3]
        place = found + 3
    yield 0, escaped[place:]
