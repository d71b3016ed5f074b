"""JSON from strangers: one value, or a long list of values, with bounds on everything that costs time or memory.

Invariant of this room: what is accepted is read without loss, and all else is refused with a Fault that says where and
why. Python's reader takes NaN for a number, the last of two equal keys for the only one, and any depth until it breaks;
here none of that passes. The structure is looked over first, as bytes and without making values, so that a file that is
cut off or nested too deeply costs no more than its reading. Pure functions.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_DEPTH = 64
"""Levels of lists and objects within one value; events of real conversations have fewer than 15."""
MAX_VALUE_BYTES = 32 * 1024 * 1024
"""One value, such as an event: as much as the largest picture that is kept."""
MAX_VALUES = 1_000_000
"""Values of one list."""
MAX_KEYS = 10_000
"""Keys of one object; the widest of a real conversation, a page's tree, has some hundreds."""
MAX_PARTS = 300_000
"""Lists, objects and their items within one value; the tree of a large page has some 100,000."""
MAX_DIGITS = 300
"""Of a whole number; Python's own bound is a matter of its settings."""

_BLANK = rb"[ \t\r\n]*+"
_SKIP = re.compile(_BLANK)
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]++|\\.)*+"[^"\[\]{}]*+)*+', re.DOTALL)
"""Everything up to the next bracket that is not inside a string."""
_SHOWN_CHARS = 40


class Fault(ValueError):
    """Data that is not accepted: where, and why. `hint` says what to do where more than a whole file is needed."""

    def __init__(self, why: str, where: str = "", hint: str = "") -> None:
        super().__init__(why)
        self.why, self.where, self.hint = why, where, hint


class Span(NamedTuple):
    """Where one value lies in the bytes."""

    start: int
    end: int


def as_utf8(data: bytes) -> bytes:
    """The same text in UTF-8 without a byte order mark. Raises Fault for bytes that are no text.

    As JSON demands it, the encoding is told by the first bytes: UTF-8, UTF-16 or UTF-32, with or without a mark.
    """
    encoding = json.detect_encoding(data)
    if encoding == "utf-8":
        return data
    try:
        return data.decode(encoding).removeprefix("\ufeff").encode("utf-8")
    except UnicodeDecodeError as error:
        raise Fault(f"the bytes are no {error.encoding.upper()} text", f"at byte {error.start}") from error
    except UnicodeEncodeError as error:
        raise Fault("half of a pair of code units stands alone", "in the text") from error


def spans(data: bytes) -> list[Span]:
    """Where the values of a list lie, or those that stand one behind another. Raises Fault.

    `data` is UTF-8. `{"trajectory": [...]}`, as OpenHands' server answers, counts as its list.
    """
    start, end = _content(data)
    is_list = data[start : start + 1] == b"["
    found: list[Span] = []
    place = _after_blank(data, start + is_list)
    while place < end:
        byte = data[place : place + 1]
        if is_list and byte == b"]":
            _nothing_behind(data, place + 1, end)
            return found
        if is_list and found:
            if byte != b",":
                raise Fault("a comma is missing or the list does not end", f"at byte {place}")
            place = _after_blank(data, place + 1)
        if place >= end:
            break
        if data[place : place + 1] not in (b"{", b"["):
            raise Fault(f"an object should begin here, not {_shown(data[place:end])}", f"at byte {place}")
        stop = _end_of(data, place, end)
        found.append(Span(place, stop))
        if len(found) > MAX_VALUES:
            raise Fault(f"there are more than {MAX_VALUES:,} values", f"at byte {place}")
        place = _after_blank(data, stop)
    if is_list:
        raise Fault("the file ends within its list; it was cut off", f"at byte {len(data)}")
    return found


def values(data: bytes) -> Iterator[Any]:
    """The values of a list, one by one; see `spans`. Raises Fault."""
    for number, span in enumerate(spans(data)):
        try:
            yield parse(data[span.start : span.end])
        except Fault as fault:
            fault.where = f"value {number + 1}, at byte {span.start}" + (f", {fault.where}" if fault.where else "")
            raise


def parse(data: bytes) -> Any:
    """One value. Raises Fault."""
    if len(data) > MAX_VALUE_BYTES:
        raise Fault(f"one value has {len(data) / 1e6:.0f} MB, and more than {MAX_VALUE_BYTES / 1e6:.0f} are not read")
    try:
        text = data.decode("utf-8")
        if data.count(b"[") + data.count(b"{") + data.count(b",") > MAX_PARTS:
            _count_parts(data)
        value = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise Fault("the bytes are no UTF-8 text", f"at byte {error.start} of it") from error
    except json.JSONDecodeError as error:
        raise Fault(
            f"it is no JSON ({error.msg[:1].lower()}{error.msg[1:]})", f"at character {error.pos} of it"
        ) from error
    except RecursionError as error:
        raise Fault(_TOO_DEEP) from error
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    return value


_TOO_MANY_PARTS = f"one value has more than {MAX_PARTS:,} parts"
_TOO_DEEP = f"lists and objects are nested more than {MAX_DEPTH} levels deep"


def _after_blank(data: bytes, place: int) -> int:
    blank = _SKIP.match(data, place)
    return blank.end() if blank else place


def _content(data: bytes) -> tuple[int, int]:
    """Where the list or the first value begins, and where what counts ends."""
    start = _after_blank(data, 0)
    if start == len(data):
        raise Fault("it is empty")
    wrapped = _WRAPPED.match(data, start)
    if wrapped is None:
        return start, len(data)
    end = len(data.rstrip(b" \t\r\n"))
    if data[end - 1 : end] != b"}":
        raise Fault("the file ends within its object; it was cut off", f"at byte {len(data)}")
    return wrapped.end(), end - 1


_WRAPPED = re.compile(rb"\{" + _BLANK + rb'"trajectory"' + _BLANK + rb":" + _BLANK + rb"(?=\[)")


def _nothing_behind(data: bytes, place: int, end: int) -> None:
    place = _after_blank(data, place)
    if place < end:
        raise Fault(f"something follows behind the end of the list: {_shown(data[place:])}", f"at byte {place}")


def _end_of(data: bytes, start: int, end: int) -> int:
    """Where the list or object that begins at `start` ends. Whether brackets match is not looked at."""
    depth, place, parts = 0, start, 0
    while place < end:
        byte = data[place]
        if byte in b"[{":
            depth, parts = depth + 1, parts + 1
            if depth > MAX_DEPTH:
                raise Fault(_TOO_DEEP, f"at byte {place}")
            if parts > MAX_PARTS:
                raise Fault(_TOO_MANY_PARTS, f"at byte {start}")
        elif byte in b"]}":
            depth -= 1
            if depth == 0:
                return place + 1
        else:
            break  # a string that does not end
        outside = _TO_BRACKET.match(data, place + 1)
        place = outside.end() if outside else end
    raise Fault("the file ends within a value; it was cut off, or a bracket or a quote is missing", f"at byte {start}")


def _count_parts(data: bytes) -> None:
    """Raise Fault where a value has too many parts; commas and brackets in its strings do not count."""
    parts, place = 0, 0
    while place < len(data):
        quote = data.find(b'"', place)
        end = len(data) if quote < 0 else quote
        parts += sum(data.count(mark, place, end) for mark in (b",", b"[", b"{"))
        if parts > MAX_PARTS:
            raise Fault(_TOO_MANY_PARTS)
        text = _STRING.match(data, end)
        place = text.end() if text else len(data)  # a string that does not end is refused by whoever reads it


_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


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
        raise Fault(f"the key {_shown(counted.most_common(1)[0][0])} stands twice in one object")
    if len(found) > MAX_KEYS:
        raise Fault(f"one object has {len(found):,} keys, and more than {MAX_KEYS:,} are not read")
    if "".join(found).isascii():
        return found
    for key in found:
        if not _is_encodable(key):
            raise Fault(f"half of a pair of code units stands alone in the key {_shown(key)}")
    return found


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _constant(name: str) -> Any:
    raise Fault(f"{name} is no number of JSON")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS and (count := len(digits.removeprefix("-"))) > MAX_DIGITS:
        raise Fault(f"a whole number has {count:,} digits, and more than {MAX_DIGITS} are not read")
    return int(digits)


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise Fault(f"the number {_shown(text)} is larger than any that can be kept")
    return number


def _shown(what: str | bytes) -> str:
    """A short, plain picture of strange data."""
    text = what[:_SHOWN_CHARS].decode("utf-8", "replace") if isinstance(what, bytes) else what
    return ascii(text[:_SHOWN_CHARS])


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_number
)
