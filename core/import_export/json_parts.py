"""How two JSON values differ, and how one is put together from the other and the difference. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.events import to_json

JsonObject = dict[str, Any]
_PLAIN = {str, int, float, bool, type(None)}
_ABSENT = object()


def merge(ours: JsonObject, parts: Mapping[str, Any]) -> JsonObject:
    """`ours` with `parts` added, at every depth."""
    both = dict(ours)
    for key, value in parts.items():
        old = both.get(key)
        both[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) and value else value
    return both


def without(form: JsonObject, added: Mapping[str, Any]) -> JsonObject:
    """`form` without the fields that `added_parts` found."""
    left = dict(form)
    for key, below in added.items():
        if isinstance(below, dict) and below and isinstance(left.get(key), dict):
            left[key] = without(left[key], below)
        elif not below:
            left.pop(key, None)
    return left


def added_parts(ours: Mapping[str, Any], original: Mapping[str, Any]) -> JsonObject:
    """The fields of `ours` that `original` does not have at all: each with {}, or with those in it."""
    found: JsonObject = {}
    for key, value in ours.items():
        if key not in original:
            found[key] = {}
            continue
        other = original[key]
        if isinstance(value, dict) and isinstance(other, dict) and (below := added_parts(value, other)):
            found[key] = below
    return found


def missing_parts(original: Mapping[str, Any], ours: Mapping[str, Any]) -> JsonObject:
    """The parts of `original` that differ or are missing in `ours`; `merge` puts them back."""
    found: JsonObject = {}
    for key, value in original.items():
        other = ours.get(key, _ABSENT)
        if (
            type(value) is type(other)
            and value == other
            and (type(value) in _PLAIN or to_json(value) == to_json(other))
        ):
            continue  # the fast path for nearly all; JSON tells 1 from true
        if isinstance(value, dict) and value and isinstance(other, dict):
            if below := missing_parts(value, other):
                found[key] = below
        elif not is_same(value, other):
            found[key] = value
    return found


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same: 1 and 1.0 are, 1 and true are not."""
    if type(one) is type(other) and not isinstance(one, dict | list):
        return bool(one == other)
    if one != other:
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
