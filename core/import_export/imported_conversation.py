"""A conversation that was read from a file and is not stored yet, and the `imported` field of its events.

An imported event may carry `imported`, so that nothing of the file is lost and an export can put it back:

    place      id, timestamp, source, cause and conversation_id of the file, if ours differ
    parts      fields of the file's event that our form of it does not hold
    original   the whole event, if it has another vocabulary or does not fit ours
    about      on the first event: the folder's other files (`metadata`, `base_state`), and `conversation_id`
    before     the `imported` field that the event already had, from an earlier import
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from core.events import Envelope, to_json
from core.store.blobs import Blob
from core.store.recordings import RecordedFrame

KEY = "imported"
OPAQUE = "imported"
"""The kind of an event that is kept without being understood."""

JsonObject = dict[str, Any]
_ORIGIN = {"place", "parts", "original", "about", "before"}
_PLAIN = {str, int, float, bool, type(None)}
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A conversation read from a file."""

    format: str
    """`openhands`, `openhands-sdk` or `archive`."""
    title: str
    workspace: str
    """The folder that the file names; it may be on another machine."""
    model: str
    created_at: datetime
    envelopes: Sequence[Envelope]
    """Ids start at 0 and have no gaps; pictures refer to `blobs`."""
    blobs: list[Blob] = field(default_factory=list)
    recorded: list[RecordedFrame] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Sentences for the user about what is wrong with the file."""


def origin_of(form: Mapping[str, Any]) -> JsonObject:
    """The `imported` field of an event in V0 form; empty for an event that was made here."""
    return dict(form[KEY]) if is_origin(form.get(KEY)) else {}


def origins_of(form: Mapping[str, Any]) -> Iterator[JsonObject]:
    """The `imported` fields of an event in V0 form, one for each time it was imported, the latest first."""
    origin: Any = form.get(KEY)
    while is_origin(origin):
        yield dict(origin)
        origin = origin.get("before")


def is_origin(value: Any) -> bool:
    """Whether a JSON value was written by an import, and is not a foreign field that has the same name."""
    if not isinstance(value, dict) or not value or not value.keys() <= _ORIGIN:
        return False
    return all(isinstance(inner, dict) for key, inner in value.items() if key != "before")


def as_it_came(form: JsonObject, *, place: bool = False) -> JsonObject:
    """The event as the file had it, with its id, cause and time if `place`.

    For an event of another vocabulary, or one that is not understood, this is the original.
    """
    origin = origin_of(form)
    if not origin:
        return form
    if isinstance(origin.get("original"), dict):
        return dict(origin["original"])
    came = {key: value for key, value in form.items() if key != KEY}
    came = merged(came, origin.get("parts") or {})
    if "before" in origin:
        came[KEY] = origin["before"]
    return {**came, **(origin.get("place") or {})} if place else came


def merged(kept: JsonObject, parts: Mapping[str, Any]) -> JsonObject:
    """`kept` with `parts` added, at every depth."""
    both = dict(kept)
    for key, value in parts.items():
        old = both.get(key)
        both[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) and value else value
    return both


def lost(was: Mapping[str, Any], kept: Mapping[str, Any]) -> JsonObject:
    """The parts of `was` that differ or are missing in `kept`; `merged` puts them back."""
    found: JsonObject = {}
    for key, value in was.items():
        other = kept.get(key, _ABSENT)
        if (
            type(value) is type(other)
            and value == other
            and (type(value) in _PLAIN or to_json(value) == to_json(other))
        ):
            continue  # the fast path for nearly all; JSON tells 1 from true
        if isinstance(value, dict) and value and isinstance(other, dict):
            if below := lost(value, other):
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
