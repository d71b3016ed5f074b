"""Events of a file in their order here: ids from 0 without gaps, causes that come before, times that can be.

Invariant of this room: nothing of an event is lost, and none is left out. What has to be another than in the file, its
id, its cause, its time, is kept as it stood (`core.import_export.imported_conversation`), and the user is told how
often. An event of a known kind that does not fit it, from a newer version perhaps, is kept whole as one that is not
understood. Pure.
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
from core.secrets import Masker
from core.store.blobs import Blob, BlobRef, pictures_of, put_in, take_out
from core.store.event_rows import StoredEvents

FUTURE = timedelta(days=1)
"""How far ahead of our clock a time may be: those of OpenHands have no zone, and are taken as UTC."""
MAX_KIND_CHARS = 100
_ABSENT = object()
_NOTHING_FORGOTTEN: JsonObject = {
    "forgotten_event_ids": [],
    "forgotten_events_start_id": None,
    "forgotten_events_end_id": None,
}
_Pair = tuple[JsonObject, JsonObject | None]
"""An event in V0 form, and its original where that is another one."""
_SOURCES = {source.value: source for source in EventSource}
_DERIVED = ("message", "success", "conversation_id")
_PLACE = ("id", "timestamp", "source", "cause", "conversation_id")
_NOT_INNER = {*_PLACE, KEY}
_TELL = {
    "time": "Events without a time that can be read, which got that of the event before: {count}.",
    "future": "Events with a time in the future, which got the time of the import: {count}.",
    "source": "Events that do not say who they are from, and count as the environment's: {count}.",
    "cause": "Events with a cause that does not come before them, which have none here: {count}.",
    "opaque": "Events that this version does not understand, kept as they came: {count}.",
    "secret": "Events that held secrets of this machine, which are masked: {count}.",
    "reference": "Events that name others that are not in the file, which is left out here: {count}.",
}


@dataclass
class Numbering:
    """Makes envelopes of V0 forms. Use once: `envelopes`, then `blobs` and `warnings`."""

    conversation_id: str
    now: datetime
    masker: Masker = field(default_factory=Masker)
    check: Callable[[], None] = lambda: None
    """Called for each event; raises where the user wants it to end."""
    blobs: dict[str, Blob] = field(default_factory=dict)
    references: set[str] = field(default_factory=set)
    """Digests of the pictures to which the events refer."""
    warnings: list[str] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)
    _is_sorted: bool = False
    _sorted_ids: list[int] = field(default_factory=list)
    _places: dict[int, list[int]] = field(default_factory=dict)
    """Where events of an id of the file are here, in order, where not every event has one; more than one where the
    id stood twice."""

    def envelopes(
        self, forms: Sequence[Any], originals: Sequence[JsonObject | None] = (), about: JsonObject | None = None
    ) -> StoredEvents:
        """The events in their order, each packed as soon as it is made. Raises Fault.

        `originals` are the same events in another vocabulary, one for each form or None where the form is all there is,
        and `about` is what lay beside them; both are carried along.
        """
        for number, form in enumerate(forms, 1):
            if not isinstance(form, dict) or not ("action" in form or "observation" in form):
                raise Fault("it is no event: one has the key 'action' or the key 'observation'", f"value {number}")
        if not forms:
            raise Fault("there is no event in it")
        found = StoredEvents(self.conversation_id)
        before: datetime | None = None
        for id, pair in enumerate(self._ordered(list(zip_longest(forms, originals)))):
            self.check()
            envelope, form = self._made(id, pair, before, None if id else about)
            found.add(envelope, form)
            before = envelope.timestamp
        self.warnings += [text.format(count=self._counts[what]) for what, text in _TELL.items() if self._counts[what]]
        return found

    def place_of(self, id: Any, before: int) -> int | None:
        """Where the last event of this id in the file is that comes before ours of the number `before`."""
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
                self.warnings.append("The events were not in order; they are sorted by their ids.")
        elif any(id is not None for id in ids):
            self.warnings.append("Not every event has an id that is a number; they stay in the order of the file.")
        if not self._is_sorted:
            for place, id in enumerate(ids):
                if isinstance(id, int) and _is_id(id):
                    self._places.setdefault(id, []).append(place)
        known = self._sorted_ids or [id for id, places in self._places.items() for _ in places]
        if twice := len(known) - len(set(known)):
            self.warnings.append(f"Events with an id that another one has, both kept, one after the other: {twice}.")
        if known and max(known) >= len(ordered):
            self.warnings.append(f"Ids were missing; the {len(ordered)} events are numbered from 0.")
        return ordered

    def _made(
        self, id: int, pair: _Pair, before: datetime | None, about: JsonObject | None
    ) -> tuple[Envelope, JsonObject | None]:
        """The event, and its stored form where that falls off on the way."""
        form, original = self._masked(pair) if self.masker else pair
        at, source = self._time(form.get("timestamp"), before), self._source(form.get("source"))
        cause, earlier = self._cause(form.get("cause"), id), form.get(KEY, _ABSENT)
        inner = {key: value for key, value in form.items() if key not in _NOT_INNER}
        try:
            event, carried = _understood(inner)
        except EventFormatError:
            self._counts["opaque"] += 1
            event, carried = event_from_dict(_opaque(inner))
            original, earlier = original or form, _ABSENT
        if isinstance(event, ConsentAction):  # nobody here has said so
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
        envelope = self._renamed(envelope, id)
        kept = None if original else envelope_to_dict(envelope)
        provenance = {"original": original} if kept is None else _provenance(form, inner, kept)
        if about:
            provenance["about"] = self.masker.mask(about)
        if earlier is not _ABSENT:
            provenance = {**provenance, "before": earlier} if provenance or not is_origin(earlier) else earlier
        if provenance:
            envelope = _with(envelope, provenance)
        if not envelope.event.pictures:
            return envelope, None if kept is None else _stored_form(kept, envelope)
        return self._without_pictures(envelope), None

    def _masked(self, pair: _Pair) -> _Pair:
        if not any(each and self.masker.may_mask(to_json(each)) for each in pair):
            return pair
        form, original = (self.masker.mask(each, is_field=is_field) for each in pair)
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

    def _renamed(self, envelope: Envelope, id: int) -> Envelope:
        """With the ids in the event itself, which name other events, as they are here."""
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
        """Where the events of the file with these ids, and those between, are here, before ours of that number."""
        if not self._is_sorted:
            return 0, -1
        ids = self._sorted_ids
        first, last = bisect_left(ids, start), bisect_right(ids, end) - 1
        return first, min(last, before - 1)

    def _without_pictures(self, envelope: Envelope) -> Envelope:
        """Pictures beside the event; those whose URL would come back otherwise stay in it."""
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
    """The event as this version knows it, and what it does not know of it. Raises EventFormatError."""
    if "action" in inner and "observation" in inner:
        raise EventFormatError("an action and an observation at once")
    kind = inner.get("action", inner.get("observation"))
    if not isinstance(kind, str) or not 0 < len(kind) <= MAX_KIND_CHARS or not kind.isprintable():
        raise EventFormatError("a kind without a name")
    return event_from_dict(inner)


def _opaque(inner: JsonObject) -> JsonObject:
    """The V0 form of an event that stands in for one that is not understood."""
    return {"action" if "action" in inner and "observation" not in inner else "observation": OPAQUE}


def _provenance(form: JsonObject, inner: JsonObject, kept: JsonObject) -> JsonObject:
    """What of the file's form, and of that without its place, is not in the form of the event here."""
    place = {key: form[key] for key in _PLACE if key in form and not is_same(form[key], kept.get(key, _ABSENT))}
    parts = lost(inner, kept)
    return ({"place": place} if place else {}) | ({"parts": parts} if parts else {})


def _stored_form(kept: JsonObject, envelope: Envelope) -> JsonObject | None:
    """The form as `envelope_to_dict` has it without what is derived, from the one with it and what is carried.

    None for an event of an unknown kind, of which nothing is derived.
    """
    if isinstance(envelope.event, UnknownAction | UnknownObservation):
        return None
    carried = envelope.carried
    form = {key: value for key, value in kept.items() if key not in _DERIVED or key in carried}
    return {**form, KEY: carried[KEY]} if KEY in carried else form


def _with(envelope: Envelope, provenance: JsonObject) -> Envelope:
    """The envelope as it is read again from its stored form with the provenance in it."""
    match envelope.event:
        case UnknownAction(raw=raw) | UnknownObservation(raw=raw):
            return replace(envelope, event=envelope.event.model_copy(update={"raw": {**raw, KEY: provenance}}))
    return replace(envelope, carried={**envelope.carried, KEY: provenance})
