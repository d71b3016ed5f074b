"""A conversation that was read from a file and is not stored yet: its events in order, and their `imported` field.

Pure. Ids start at 0 without gaps, causes come earlier, times are plausible. Ids of the file are kept, with null events
in its gaps, because V0's trajectories leave null events out; only if two events share an id, or nearly all are missing,
events are numbered anew. Nothing of an event is lost, and no event is left out; a warning says how many were changed.
An event of a known kind that does not fit it, perhaps from a newer version, is kept whole without being understood.
What our form of an event does not hold is in its `imported` field, so that an export can put it back:

    place      id, timestamp, source, cause and conversation_id of the file, if ours differ
    parts      fields of the file's event that our form of it does not hold
    added      fields of our form that the file's event does not have, each with {} or the added fields in it
    original   the whole event, if it has another vocabulary or does not fit ours
    about      on the first event: the folder's other files (`metadata`, `base_state`), and `conversation_id`
    before     the `imported` field that the event already had, from an earlier import
    filler     this event was not in the file: it fills a gap, and is in no export but an archive
    record     the agent and the place in its session from which this event was made (`core.import_export.agents`)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
    NullObservation,
    UnknownAction,
    UnknownObservation,
    envelope_to_dict,
    event_from_dict,
    event_to_dict,
    is_field,
    to_json,
)
from core.import_export.bounded_json import Fault
from core.import_export.json_parts import added_parts, is_same, merge, missing_parts, without
from core.secrets import Redactor
from core.store.blobs import Blob, BlobRef, embed_pictures, extract_pictures, picture_urls
from core.store.event_rows import StoredEvents
from core.store.recordings import RecordedFrame

MAX_TITLE_CHARS = 200
KEY = "imported"
OPAQUE = "imported"
"""The kind of an event that is kept without being understood."""

JsonObject = dict[str, Any]
FILLER = "filler"
MAX_GAPS = 1_000
"""Ids that may be missing in a file, besides three for each of its events."""
RECORD = "record"
_IMPORTED_KEYS = {"place", "parts", "added", "original", "about", "before", FILLER, RECORD}
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    format: str
    """`openhands`, `openhands-sdk`, `archive`, or the name of another agent."""
    title: str
    workspace: str
    """The folder that the file names; it may be on another machine."""
    model: str
    created_at: datetime
    envelopes: Sequence[Envelope]
    """Ids start at 0 and have no gaps; pictures refer to `blobs`."""
    blobs: list[Blob] = field(default_factory=list)
    recorded: list[RecordedFrame] = field(default_factory=list)
    fillers: int = 0
    """How many of the events were not in the file and fill its gaps."""
    warnings: list[str] = field(default_factory=list)
    """Sentences for the user about what is wrong with the file."""


def imported_field(form: Mapping[str, Any]) -> JsonObject:
    """The `imported` field of an event in V0 form; empty for an event that was made here."""
    return dict(form[KEY]) if is_imported_field(form.get(KEY)) else {}


def imported_fields(form: Mapping[str, Any]) -> Iterator[JsonObject]:
    """The `imported` fields of an event in V0 form, one for each time it was imported, the latest first."""
    origin: Any = form.get(KEY)
    while is_imported_field(origin):
        yield dict(origin)
        origin = origin.get("before")


def is_imported_field(value: Any) -> bool:
    """Whether a JSON value was written by an import, and is not a foreign field that has the same name."""
    if not isinstance(value, dict) or not value or not value.keys() <= _IMPORTED_KEYS:
        return False
    return all(isinstance(inner, dict) for key, inner in value.items() if key != "before")


def is_filler(envelope: Envelope, form: Mapping[str, Any]) -> bool:
    """Whether an event, with its V0 form, fills a gap of the ids in the file that it was imported from."""
    return isinstance(envelope.event, NullObservation) and FILLER in imported_field(form)


def original_form(form: JsonObject, *, place: bool = False) -> JsonObject:
    """The event as the file had it, with its id, cause and time if `place`.

    For an event of another vocabulary, or one that is not understood, this is the original.
    """
    origin = imported_field(form)
    if not origin:
        return form
    if isinstance(origin.get("original"), dict):
        return dict(origin["original"])
    restored = {key: value for key, value in form.items() if key != KEY}
    restored = without(merge(restored, origin.get("parts") or {}), origin.get("added") or {})
    if "before" in origin:
        restored[KEY] = origin["before"]
    return {**restored, **(origin.get("place") or {})} if place else restored


FUTURE = timedelta(days=1)
"""How far in the future a time may be: times of OpenHands have no zone and are taken as UTC."""
MAX_KIND_CHARS = 100
_NOTHING_FORGOTTEN: JsonObject = {
    "forgotten_event_ids": [],
    "forgotten_events_start_id": None,
    "forgotten_events_end_id": None,
}
_FILLER_MARK: JsonObject = {FILLER: {}}
_FILLER_FORM: JsonObject = {
    **event_to_dict(NullObservation(), derived=False),
    "source": EventSource.ENVIRONMENT.value,
    KEY: _FILLER_MARK,
}
_Pair = tuple[JsonObject, JsonObject | None]
"""An event in V0 form, and its original if that differs."""
_SOURCES = {source.value: source for source in EventSource}
_DERIVED = ("message", "success", "conversation_id")
_PLACE = ("id", "timestamp", "source", "cause", "conversation_id")
_NOT_INNER = {*_PLACE, KEY}
_NOT_COMPARED = {*_NOT_INNER, *_DERIVED}
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
class EnvelopeBuilder:
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
    fillers: int = 0
    """How many events fill gaps."""
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
            envelope, form = self._make_envelope(id, pair, before, None if id else about)
            found.add(envelope, form)
            before = envelope.timestamp
        self.warnings += [
            text.format(count=self._counts[what]) for what, text in _WARNINGS.items() if self._counts[what]
        ]
        return found

    def begin(self, count: int) -> None:
        """Prepare for `envelope`: there are so many events, and the id of each is its place."""
        self._is_sorted, self._sorted_ids = True, list(range(count))

    def envelope(self, form: JsonObject, before: datetime | None) -> tuple[Envelope, JsonObject | None]:
        """One event of those that `begin` counts, and its stored form if that is known; `before` is the time before.

        Call it in the order of the ids.
        """
        return self._make_envelope(form["id"], (form, None), before, None)

    def new_id(self, id: Any, before: int) -> int | None:
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
            if self._is_sorted and not twice and max(known) <= 4 * len(ordered) + MAX_GAPS:
                return self._filled(ordered)
            self.warnings.append(f"Ids were missing; the {len(ordered)} events were numbered from 0.")
        return ordered

    def _filled(self, ordered: list[_Pair]) -> list[_Pair]:
        """The events with a null event for each id that is missing."""
        filled: list[_Pair] = []
        timestamp = self._any_time(form.get("timestamp") for form, _ in ordered)
        for form, original in ordered:
            while len(filled) < form["id"]:
                filler = {**_FILLER_FORM, "id": len(filled), "timestamp": timestamp}
                filled.append((filler, None))
            filled.append((form, original))
            timestamp = self._any_time([form.get("timestamp"), timestamp])
        self._sorted_ids = list(range(len(filled)))
        self.fillers = len(filled) - len(ordered)
        return filled

    def _any_time(self, texts: Iterable[Any]) -> str:
        """The first of these that is a time, else now."""
        for text in texts:
            with suppress(ValueError, TypeError, OverflowError):
                return utc(text).isoformat()
        return self.now.isoformat()

    def _make_envelope(
        self, id: int, pair: _Pair, before: datetime | None, about: JsonObject | None
    ) -> tuple[Envelope, JsonObject | None]:
        """The event, and its stored form if that is already known."""
        form, original = self._redacted(pair) if self.redactor else pair
        at, source = self._time(form.get("timestamp"), before), self._source(form.get("source"))
        cause, earlier = self._cause(form.get("cause"), id), form.get(KEY, _ABSENT)
        inner = {key: value for key, value in form.items() if key not in _NOT_INNER}
        try:
            event, carried = _parse_event(inner)
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
        ours = None if original else envelope_to_dict(envelope)
        provenance = {"original": original} if ours is None else _provenance(form, inner, ours)
        if isinstance(earlier, dict) and RECORD in earlier:  # made here, so nothing of it is missing
            provenance, earlier = earlier, _ABSENT
        if earlier is _FILLER_MARK:
            provenance, earlier = dict(_FILLER_MARK), _ABSENT
        if about:
            provenance["about"] = self.redactor.redact(about)
        if earlier is not _ABSENT:
            provenance = {**provenance, "before": earlier} if provenance or not is_imported_field(earlier) else earlier
        if provenance:
            envelope = _with_imported_field(envelope, provenance)
        if not envelope.event.pictures:
            return envelope, None if ours is None else _stored_form(ours, envelope)
        return self._extract_pictures(envelope), None

    def _redacted(self, pair: _Pair) -> _Pair:
        if not any(each and self.redactor.may_redact(to_json(each)) for each in pair):
            return pair
        form, original = (self.redactor.redact(each, is_field=is_field) for each in pair)
        self._counts["secret"] += form is not pair[0] or original is not pair[1]
        return form, original

    def _time(self, text: Any, before: datetime | None) -> datetime:
        try:
            found = utc(text)
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
        found = self.new_id(cause, id)
        self._counts["cause"] += found is None
        return found

    def _with_new_ids(self, envelope: Envelope, id: int) -> Envelope:
        """The event with its references to other events changed to their new ids."""
        match envelope.event:
            case CondensationAction(forgotten_event_ids=[*old]):
                new = [place for each in old if (place := self.new_id(each, id)) is not None]
                update: JsonObject = {"forgotten_event_ids": new}
            case CondensationAction(forgotten_events_start_id=int(start), forgotten_events_end_id=int(end)):
                first, last = self._range(start, end, id)
                old, new, update = [start], [first] if first <= last else [], _NOTHING_FORGOTTEN
                if new:
                    update = {"forgotten_events_start_id": first, "forgotten_events_end_id": last}
            case CheckpointObservation(after=after):
                place = self.new_id(after, id)
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

    def _extract_pictures(self, envelope: Envelope) -> Envelope:
        """The event with its pictures moved to `blobs`, except those whose URL would come back changed."""
        event, blobs = extract_pictures(envelope.event)
        by_digest = {blob.ref.digest: blob for blob in blobs}
        if event is not envelope.event and embed_pictures(event, by_digest) == envelope.event:
            self.blobs.update(by_digest)
            envelope = replace(envelope, event=event)
        references = map(BlobRef.parse, picture_urls(envelope.event))
        self.references.update(ref.digest for ref in references if ref is not None)
        return envelope


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parse_event(inner: JsonObject) -> tuple[Event, dict[str, JsonValue]]:
    """The event, and its fields that this version does not know. Raises EventFormatError."""
    if "action" in inner and "observation" in inner:
        raise EventFormatError("both an action and an observation")
    kind = inner.get("action", inner.get("observation"))
    if not isinstance(kind, str) or not 0 < len(kind) <= MAX_KIND_CHARS or not kind.isprintable():
        raise EventFormatError("a kind without a name")
    return event_from_dict(inner)


def _opaque(inner: JsonObject) -> JsonObject:
    return {"action" if "action" in inner and "observation" not in inner else "observation": OPAQUE}


def _provenance(form: JsonObject, inner: JsonObject, ours: JsonObject) -> JsonObject:
    """What the form of the imported event does not hold of the file's form."""
    place = {key: form[key] for key in _PLACE if key in form and not is_same(form[key], ours.get(key, _ABSENT))}
    parts = missing_parts(inner, ours)
    added = added_parts({key: value for key, value in ours.items() if key not in _NOT_COMPARED}, inner)
    return {name: found for name, found in (("place", place), ("parts", parts), ("added", added)) if found}


def _stored_form(ours: JsonObject, envelope: Envelope) -> JsonObject | None:
    """The form without derived fields and with the carried ones; None for an event of an unknown kind."""
    if isinstance(envelope.event, UnknownAction | UnknownObservation):
        return None
    carried = envelope.carried
    form = {key: value for key, value in ours.items() if key not in _DERIVED or key in carried}
    return {**form, KEY: carried[KEY]} if KEY in carried else form


def _with_imported_field(envelope: Envelope, provenance: JsonObject) -> Envelope:
    """The envelope with the `imported` field, as it will be read from the database."""
    match envelope.event:
        case UnknownAction(raw=raw) | UnknownObservation(raw=raw):
            return replace(envelope, event=envelope.event.model_copy(update={"raw": {**raw, KEY: provenance}}))
    return replace(envelope, carried={**envelope.carried, KEY: provenance})


def utc(text: Any) -> datetime:
    """An ISO time; without a zone it is UTC. Raises ValueError, TypeError or OverflowError."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def storable_text(text: str) -> str:
    """The text as a database column can hold it: without lone surrogates and NULs."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
