"""Imported events in order: ids from 0 without gaps, causes that come earlier, plausible times. Pure.

Nothing of an event is lost, and no event is left out. An id, cause or time that has to change is kept as it was
(`core.import_export.imported_conversation`), and a warning says how many. An event of a known kind that does not fit
it, perhaps from a newer version, is kept whole without being understood.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any

from pydantic import JsonValue

from core.events import (
    CheckpointObservation,
    CondensationAction,
    ConsentAction,
    Envelope,
    Event,
    EventFormatError,
    EventSource,
    UnknownAction,
    UnknownObservation,
    envelope_to_dict,
    event_from_dict,
    is_field,
    to_json,
)
from core.import_export.bounded_json import Fault
from core.import_export.imported_conversation import KEY, OPAQUE, JsonObject, is_origin, is_same, lost
from core.secrets import Redactor
from core.store.blobs import Blob, BlobRef, pictures_of, put_in, take_out
from core.store.event_rows import StoredEvents

FUTURE = timedelta(days=1)
"""How far in the future a time may be: times of OpenHands have no zone and are taken as UTC."""
MAX_KIND_CHARS = 100
_ABSENT = object()
_NOTHING_FORGOTTEN: JsonObject = {
    "forgotten_event_ids": [],
    "forgotten_events_start_id": None,
    "forgotten_events_end_id": None,
}
_Pair = tuple[JsonObject, JsonObject | None]
"""An event in V0 form, and its original if that differs."""
_SOURCES = {source.value: source for source in EventSource}
_DERIVED = ("message", "success", "conversation_id")
_PLACE = ("id", "timestamp", "source", "cause", "conversation_id")
_NOT_INNER = {*_PLACE, KEY}
_WARNINGS = {
    "time": "Events with an invalid time, which got the time of the event before: {count}.",
    "future": "Events with a time in the future, which got the time of the import: {count}.",
    "source": "Events without a source, which count as events of the environment: {count}.",
    "cause": "Events whose cause does not come before them, imported without a cause: {count}.",
    "opaque": "Events that this version does not understand, kept unchanged: {count}.",
    "secret": "Events that contained secrets of this machine, which were redacted: {count}.",
    "reference": "Events that refer to events that are not in the file; the reference was removed: {count}.",
}


@dataclass
class EventOrder:
    """Makes envelopes of V0 forms. Use it once: `envelopes`, then `blobs` and `warnings`."""

    conversation_id: str
    now: datetime
    redactor: Redactor = field(default_factory=Redactor)
    check: Callable[[], None] = lambda: None
    """Called for each event; raises to cancel."""
    blobs: dict[str, Blob] = field(default_factory=dict)
    references: set[str] = field(default_factory=set)
    """Digests of the pictures to which the events refer."""
    warnings: list[str] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)
    _is_sorted: bool = False
    _sorted_ids: list[int] = field(default_factory=list)
    _places: dict[int, list[int]] = field(default_factory=dict)
    """The new ids of each id in the file, if not every event has an id; several if an id was used twice."""

    def envelopes(
        self, forms: Sequence[Any], originals: Sequence[JsonObject | None] = (), about: JsonObject | None = None
    ) -> StoredEvents:
        """The events in order, each packed as soon as it is made. Raises Fault.

        `originals` are the same events in another vocabulary, and `about` is the metadata of the file; both are kept.
        """
        for number, form in enumerate(forms, 1):
            if not isinstance(form, dict) or not ("action" in form or "observation" in form):
                raise Fault("it is not an event: events have the key 'action' or 'observation'", f"value {number}")
        if not forms:
            raise Fault("it has no events")
        found = StoredEvents(self.conversation_id)
        before: datetime | None = None
        for id, pair in enumerate(self._ordered(list(zip_longest(forms, originals)))):
            self.check()
            envelope, form = self._made(id, pair, before, None if id else about)
            found.add(envelope, form)
            before = envelope.timestamp
        self.warnings += [
            text.format(count=self._counts[what]) for what, text in _WARNINGS.items() if self._counts[what]
        ]
        return found

    def place_of(self, id: Any, before: int) -> int | None:
        """The new id of the last event with this id in the file that comes before the new id `before`."""
        if not _is_id(id):
            return None
        if self._is_sorted:
            at = bisect_right(self._sorted_ids, id, 0, before)
            return at - 1 if at and self._sorted_ids[at - 1] == id else None
        places = self._places.get(id, [])
        at = bisect_left(places, before)
        return places[at - 1] if at else None

    def _ordered(self, pairs: list[_Pair]) -> list[_Pair]:
        ids = [form.get("id") for form, _ in pairs]
        ordered = pairs
        self._is_sorted = all(map(_is_id, ids))
        if self._is_sorted:
            ordered = sorted(pairs, key=lambda pair: int(pair[0]["id"]))
            self._sorted_ids = [form["id"] for form, _ in ordered]
            if self._sorted_ids != ids:
                self.warnings.append("The events were not in order; they were sorted by their ids.")
        elif any(id is not None for id in ids):
            self.warnings.append("Not every event has a number as its id; the order of the file was kept.")
        if not self._is_sorted:
            for place, id in enumerate(ids):
                if isinstance(id, int) and _is_id(id):
                    self._places.setdefault(id, []).append(place)
        known = self._sorted_ids or [id for id, places in self._places.items() for _ in places]
        if twice := len(known) - len(set(known)):
            self.warnings.append(f"Events whose id another event has, both kept, one after the other: {twice}.")
        if known and max(known) >= len(ordered):
            self.warnings.append(f"Ids were missing; the {len(ordered)} events were numbered from 0.")
        return ordered

    def _made(
        self, id: int, pair: _Pair, before: datetime | None, about: JsonObject | None
    ) -> tuple[Envelope, JsonObject | None]:
        """The event, and its stored form if that is already known."""
        form, original = self._redacted(pair) if self.redactor else pair
        at, source = self._time(form.get("timestamp"), before), self._source(form.get("source"))
        cause, earlier = self._cause(form.get("cause"), id), form.get(KEY, _ABSENT)
        inner = {key: value for key, value in form.items() if key not in _NOT_INNER}
        try:
            event, carried = _understood(inner)
        except EventFormatError:
            self._counts["opaque"] += 1
            event, carried = event_from_dict(_opaque(inner))
            original, earlier = original or form, _ABSENT
        if isinstance(event, ConsentAction):  # nobody agreed on this machine
            event = event.model_copy(update={"given": False})
        envelope = Envelope(
            conversation_id=self.conversation_id,
            id=id,
            timestamp=at,
            source=source,
            cause=cause,
            event=event,
            carried=carried,
        )
        envelope = self._with_new_ids(envelope, id)
        kept = None if original else envelope_to_dict(envelope)
        provenance = {"original": original} if kept is None else _provenance(form, inner, kept)
        if about:
            provenance["about"] = self.redactor.redact(about)
        if earlier is not _ABSENT:
            provenance = {**provenance, "before": earlier} if provenance or not is_origin(earlier) else earlier
        if provenance:
            envelope = _with(envelope, provenance)
        if not envelope.event.pictures:
            return envelope, None if kept is None else _stored_form(kept, envelope)
        return self._without_pictures(envelope), None

    def _redacted(self, pair: _Pair) -> _Pair:
        if not any(each and self.redactor.may_redact(to_json(each)) for each in pair):
            return pair
        form, original = (self.redactor.redact(each, is_field=is_field) for each in pair)
        self._counts["secret"] += form is not pair[0] or original is not pair[1]
        return form, original

    def _time(self, text: Any, before: datetime | None) -> datetime:
        try:
            found = datetime.fromisoformat(text)
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (ValueError, TypeError, OverflowError):
            self._counts["time"] += 1
            return before or self.now
        if found > self.now + FUTURE:
            self._counts["future"] += 1
            return self.now
        return found

    def _source(self, name: Any) -> EventSource:
        if isinstance(name, str) and name in _SOURCES:
            return _SOURCES[name]
        self._counts["source"] += 1
        return EventSource.ENVIRONMENT

    def _cause(self, cause: Any, id: int) -> int | None:
        if cause is None:
            return None
        found = self.place_of(cause, id)
        self._counts["cause"] += found is None
        return found

    def _with_new_ids(self, envelope: Envelope, id: int) -> Envelope:
        """The event with its references to other events changed to their new ids."""
        match envelope.event:
            case CondensationAction(forgotten_event_ids=[*old]):
                new = [place for each in old if (place := self.place_of(each, id)) is not None]
                update: JsonObject = {"forgotten_event_ids": new}
            case CondensationAction(forgotten_events_start_id=int(start), forgotten_events_end_id=int(end)):
                first, last = self._range(start, end, id)
                old, new, update = [start], [first] if first <= last else [], _NOTHING_FORGOTTEN
                if new:
                    update = {"forgotten_events_start_id": first, "forgotten_events_end_id": last}
            case CheckpointObservation(after=after):
                place = self.place_of(after, id)
                old, new = [after], [] if place is None else [place]
                update = {"after": -1 if place is None else place}
            case _:
                return envelope
        self._counts["reference"] += len(new) < len(old)
        return replace(envelope, event=envelope.event.model_copy(update=update))

    def _range(self, start: int, end: int, before: int) -> tuple[int, int]:
        """The new ids of the events from `start` to `end` that come before the new id `before`."""
        if not self._is_sorted:
            return 0, -1
        ids = self._sorted_ids
        first, last = bisect_left(ids, start), bisect_right(ids, end) - 1
        return first, min(last, before - 1)

    def _without_pictures(self, envelope: Envelope) -> Envelope:
        """The event with its pictures moved to `blobs`, except those whose URL would come back changed."""
        event, blobs = take_out(envelope.event)
        kept = {blob.ref.digest: blob for blob in blobs}
        if event is not envelope.event and put_in(event, kept) == envelope.event:
            self.blobs.update(kept)
            envelope = replace(envelope, event=event)
        references = map(BlobRef.parse, pictures_of(envelope.event))
        self.references.update(ref.digest for ref in references if ref is not None)
        return envelope


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _understood(inner: JsonObject) -> tuple[Event, dict[str, JsonValue]]:
    """The event, and its fields that this version does not know. Raises EventFormatError."""
    if "action" in inner and "observation" in inner:
        raise EventFormatError("both an action and an observation")
    kind = inner.get("action", inner.get("observation"))
    if not isinstance(kind, str) or not 0 < len(kind) <= MAX_KIND_CHARS or not kind.isprintable():
        raise EventFormatError("a kind without a name")
    return event_from_dict(inner)


def _opaque(inner: JsonObject) -> JsonObject:
    """The V0 form of a placeholder for an event that is not understood."""
    return {"action" if "action" in inner and "observation" not in inner else "observation": OPAQUE}


def _provenance(form: JsonObject, inner: JsonObject, kept: JsonObject) -> JsonObject:
    """What the form of the imported event does not hold of the file's form."""
    place = {key: form[key] for key in _PLACE if key in form and not is_same(form[key], kept.get(key, _ABSENT))}
    parts = lost(inner, kept)
    return ({"place": place} if place else {}) | ({"parts": parts} if parts else {})


def _stored_form(kept: JsonObject, envelope: Envelope) -> JsonObject | None:
    """The form without derived fields and with the carried ones; None for an event of an unknown kind."""
    if isinstance(envelope.event, UnknownAction | UnknownObservation):
        return None
    carried = envelope.carried
    form = {key: value for key, value in kept.items() if key not in _DERIVED or key in carried}
    return {**form, KEY: carried[KEY]} if KEY in carried else form


def _with(envelope: Envelope, provenance: JsonObject) -> Envelope:
    """The envelope with the `imported` field, as it will be read from the database."""
    match envelope.event:
        case UnknownAction(raw=raw) | UnknownObservation(raw=raw):
            return replace(envelope, event=envelope.event.model_copy(update={"raw": {**raw, KEY: provenance}}))
    return replace(envelope, carried={**envelope.carried, KEY: provenance})
