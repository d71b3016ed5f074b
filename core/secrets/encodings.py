"""The forms in which a known secret can stand in a text: as it is, and as the usual programs write it.

Base64 has three forms and base32 five, by where among other bytes a value begins; only the characters that come of the
value alone are a form. Of a value of several lines, each line that is long enough is a secret by itself: programs print
lines. Forms that are spread over lines or columns are the matter of `layouts`. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from core.secrets.names import MIN_LENGTH
from core.secrets.quoting import quoted

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
    yield from quoted(text)
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for before in range(3):
        coded = base64.b64encode(bytes(before) + raw)
        yield (inner := _of_the_value_alone(coded, before, len(raw), 6))
        yield inner.translate(bytes.maketrans(b"+/", b"-_"))
    for before in range(5):
        yield _of_the_value_alone(base64.b32encode(bytes(before) + raw), before, len(raw), 5)


def _of_the_value_alone(coded: bytes, before: int, size: int, bits: int) -> bytes:
    """Without the characters at the borders, which are made of bits of the neighbours, too."""
    return coded[-(-before * 8 // bits) : (before + size) * 8 // bits]
