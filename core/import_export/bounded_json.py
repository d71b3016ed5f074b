"""JSON from untrusted files: the standard parser, with bounds on everything that costs time or memory.

Accepted JSON is read without loss. Everything else raises a Fault that says where and why. The standard parser alone
accepts NaN, keeps the last of two equal keys, and has no bounds on depth and count; here these are refused. Callers
bound the size of a file before they read it. Pure functions.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 64
"""Nested lists and objects in one value; events of real conversations have fewer than 15 levels."""
MAX_VALUE_BYTES = 32 * 1024 * 1024
"""Size of one value, such as an event: as much as the largest picture that is kept."""
MAX_VALUES = 1_000_000
MAX_KEYS = 10_000
"""Keys of one object; the widest of a real conversation, a page's tree, has some hundreds."""
MAX_PARTS = 300_000
"""Lists, objects and items in one value; the tree of a large page has some 100,000."""
MAX_FILE_PARTS = 10_000_000
"""The same for a whole list of values: 100,000 events have half as many. Each takes up to 64 bytes of memory."""
MAX_DIGITS = 300
"""Digits of an integer; Python's own bound depends on its settings."""

_BLANK = re.compile(r"[ \t\r\n]*+")
_WRAPPED = re.compile(r'\{[ \t\r\n]*"trajectory"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SHOWN_CHARS = 40
_TOO_DEEP = f"lists and objects are nested more than {MAX_DEPTH} levels deep"
_CUT_OFF = "the file was cut off, or a bracket or a quote is missing"


class Fault(ValueError):
    """Data that is refused: `why` and `where`. `hint` is advice for the user, if another copy is not enough."""

    def __init__(self, why: str, where: str = "", hint: str = "") -> None:
        super().__init__(why)
        self.why, self.where, self.hint = why, where, hint


def parse(data: bytes) -> Any:
    """The single value in `data`. Raises Fault."""
    if len(data) > MAX_VALUE_BYTES:
        raise Fault(f"one value has {len(data) / 1e6:.0f} MB, and the limit is {MAX_VALUE_BYTES / 1e6:.0f}")
    text = _text(data, MAX_PARTS)
    value, end = _value(text, _after_blank(text, 0))
    if (rest := _after_blank(text, end)) < len(text):
        raise Fault(f"it is not JSON (extra data: {_shown(text[rest:])})", f"at character {rest}")
    return value


def values(data: bytes) -> Iterator[Any]:
    """The lists and objects of a list, or of a file that has one after another (JSON Lines). Raises Fault.

    `{"trajectory": [...]}`, the answer of OpenHands' server, counts as its list.
    """
    text = _text(data, MAX_FILE_PARTS)
    del data
    place = _after_blank(text, 0)
    if place == len(text):
        raise Fault("it is empty")
    wrapped = _WRAPPED.match(text, place)
    place = wrapped.end() if wrapped else place
    is_list = text[place] == "["
    place = _after_blank(text, place + is_list)
    number = 0
    while place < len(text) and not (is_list and text[place] == "]"):
        number += 1
        if is_list and number > 1:
            if text[place] != ",":
                raise Fault("a comma is missing or the list does not end", f"at character {place}")
            place = _after_blank(text, place + 1)
        if number > MAX_VALUES:
            raise Fault(f"there are more than {MAX_VALUES:,} values", f"at character {place}")
        if place < len(text) and text[place] not in "[{":
            raise Fault(f"an object should begin here, not {_shown(text[place:])}", f"at character {place}")
        try:
            value, end = _value(text, place)
        except Fault as fault:
            fault.where = f"value {number}" + (f", {fault.where}" if fault.where else "")
            raise
        yield value
        place = _after_blank(text, end)
    if is_list:
        _check_end(text, place, is_wrapped=wrapped is not None)


def _check_end(text: str, place: int, *, is_wrapped: bool) -> None:
    """Check that the list, and the object around it, end at `place` and nothing follows."""
    for bracket in ("]", "}") if is_wrapped else ("]",):
        if place >= len(text) or text[place] != bracket:
            raise Fault(_CUT_OFF, f"at character {place}")
        place = _after_blank(text, place + 1)
    if place < len(text):
        raise Fault(f"something follows after the end of the list: {_shown(text[place:])}", f"at character {place}")


def _text(data: bytes, max_parts: int) -> str:
    """The text of JSON data, checked for the number of its parts.

    The first bytes tell the encoding, as the standard says: UTF-8, UTF-16 or UTF-32, with or without a mark.
    """
    encoding = json.detect_encoding(data)
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Fault(f"the bytes are not {error.encoding.upper()} text", f"at byte {error.start}") from error
    _check_parts(data if encoding.startswith("utf-8") else text.encode("utf-8", "replace"), max_parts)
    return text


def _check_parts(data: bytes, limit: int) -> None:
    """Raise Fault for data with more parts. Commas and brackets in strings do not count."""
    if data.count(b"[") + data.count(b"{") + data.count(b",") <= limit:
        return
    parts, place = 0, 0
    while place < len(data):
        quote = data.find(b'"', place)
        end = len(data) if quote < 0 else quote
        parts += sum(data.count(mark, place, end) for mark in (b",", b"[", b"{"))
        if parts > limit:
            raise Fault(f"there are more than {limit:,} parts in one value or file")
        string = _STRING.match(data, end)
        place = string.end() if string else len(data)  # the parser will refuse the unterminated string


def _value(text: str, place: int) -> tuple[Any, int]:
    """The value at `place`, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, place)
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated"):
            raise Fault(_CUT_OFF, f"at character {error.pos}") from error
        why = f"it is not JSON ({error.msg[:1].lower()}{error.msg[1:]})"
        raise Fault(why, f"at character {error.pos}") from error
    except RecursionError as error:
        raise Fault(_TOO_DEEP, f"at character {place}") from error
    size = end - place
    if size > MAX_VALUE_BYTES:
        raise Fault(f"one value has {size / 1e6:.0f} MB, and the limit is {MAX_VALUE_BYTES / 1e6:.0f}")
    if text.count("[", place, end) + text.count("{", place, end) > MAX_DEPTH:
        _check_depth(value)
    if size > MAX_PARTS:
        _check_parts(text[place:end].encode("utf-8", "replace"), MAX_PARTS)
    return value, end


def _after_blank(text: str, place: int) -> int:
    blank = _BLANK.match(text, place)
    return blank.end() if blank else place


def _check_depth(value: Any) -> None:
    waiting = [(value, 1)]
    while waiting:
        container, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise Fault(_TOO_DEEP)
        items = container.values() if isinstance(container, dict) else container
        waiting += [(item, depth + 1) for item in items if isinstance(item, dict | list)]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counted = Counter(key for key, _ in pairs)
        raise Fault(f"the key {_shown(counted.most_common(1)[0][0])} appears twice in one object")
    if len(found) > MAX_KEYS:
        raise Fault(f"one object has {len(found):,} keys, and the limit is {MAX_KEYS:,}")
    try:
        "".join(found).encode("utf-8")
    except UnicodeEncodeError as error:
        raise Fault("a key contains half of a surrogate pair") from error
    return found


def _constant(name: str) -> Any:
    raise Fault(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    if (count := len(digits.removeprefix("-"))) > MAX_DIGITS:
        raise Fault(f"an integer has {count:,} digits, and the limit is {MAX_DIGITS}")
    return int(digits)


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Fault(f"the number {_shown(text)} is too large")
    return number


def _shown(text: str) -> str:
    """The beginning of untrusted text, as printable ASCII."""
    return ascii(text[:_SHOWN_CHARS])


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_number
)
