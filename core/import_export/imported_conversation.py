"""What a foreign file becomes before anything of it is stored: one value, and what it says of where it comes from.

An event that came from elsewhere may carry `imported`, an object beside its other parts, so that nothing of the file is
lost and an export can put it back:

    place      id, timestamp, source, cause and conversation_id as they stood in the file, where ours are others
    parts      parts of the file's event that our form of it does not hold
    original   the whole event, where it is of another vocabulary or does not fit ours
    about      on the first event: what lay beside the events (`metadata`, `base_state`), and `conversation_id`
    before     what `imported` was when the event came, from an import earlier on
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
"""The kind of an event that is kept and not understood."""

JsonObject = dict[str, Any]
_ORIGIN = {"place", "parts", "original", "about", "before"}
_PLAIN = {str, int, float, bool, type(None)}
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A whole conversation from elsewhere."""

    format: str
    """`openhands`, `openhands-sdk` or `archive`."""
    title: str
    workspace: str
    """The folder as the file names it; it may be of another machine, and nothing says that it is here."""
    model: str
    created_at: datetime
    envelopes: Sequence[Envelope]
    """Ids start at 0 and have no gaps; pictures are references to `blobs`."""
    blobs: list[Blob] = field(default_factory=list)
    recorded: list[RecordedFrame] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Sentences about what is not as it should be, for the user."""


def origin_of(form: Mapping[str, Any]) -> JsonObject:
    """What an event's V0 form says of where it comes from; empty for one that was made here."""
    return dict(form[KEY]) if is_origin(form.get(KEY)) else {}


def origins_of(form: Mapping[str, Any]) -> Iterator[JsonObject]:
    """What an event's V0 form says of where it comes from, import by import, the latest first."""
    said: Any = form.get(KEY)
    while is_origin(said):
        yield dict(said)
        said = said.get("before")


def is_origin(value: Any) -> bool:
    """Whether a JSON value is what an import wrote, and no part of that name which somebody else gave an event."""
    if not isinstance(value, dict) or not value or not value.keys() <= _ORIGIN:
        return False
    return all(isinstance(inner, dict) for key, inner in value.items() if key != "before")


def as_it_came(form: JsonObject, *, place: bool = False) -> JsonObject:
    """The V0 form with the parts of the file that ours does not hold, and with `place` with its id, cause and time.

    An event of another vocabulary, or one that is not understood, is its original.
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
    """`kept` with `parts` put into it, at every depth."""
    both = dict(kept)
    for key, value in parts.items():
        old = both.get(key)
        both[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) and value else value
    return both


def lost(was: Mapping[str, Any], kept: Mapping[str, Any]) -> JsonObject:
    """The parts of `was` that are not the same in `kept`; `merged` puts them back."""
    found: JsonObject = {}
    for key, value in was.items():
        other = kept.get(key, _ABSENT)
        if type(value) is type(other) and value == other and (type(value) in _PLAIN or _says(value) == _says(other)):
            continue  # the quick way for nearly all of them
        if isinstance(value, dict) and value and isinstance(other, dict):
            if below := lost(value, other):
                found[key] = below
        elif not is_same(value, other):
            found[key] = value
    return found


def _says(value: Any) -> str:
    """The JSON of a value: of two that are equal, it tells 1 from true."""
    return to_json(value)


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values say the same; 1 and 1.0 do, 1 and true do not."""
    if type(one) is type(other) and not isinstance(one, dict | list):
        return bool(one == other)
    if one != other:
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
