"""Export for OpenHands V0: the trajectory (one flat JSON list) and the zipped folder of event files.

    events/<id>.json    one event; an event imported from the SDK includes its original
    metadata.json       beside the folder

An imported event carries the fields that ours does not hold (`core.import_export.imported_conversation`), and they are
put back. Ids and causes are those of the log: a conversation that went on after an import has events of both. The same
conversation makes the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, BinaryIO

from core.events import Envelope, drop_for_trajectory, envelope_to_dict, to_json
from core.import_export.formats import ExportContext, Page
from core.import_export.imported_conversation import KEY, JsonObject, as_it_came, origin_of, origins_of
from core.import_export.sdk_import import is_sdk_event
from core.import_export.untrusted_files import MAX_ENTRIES
from core.import_export.zip_writer import ZipWriter
from core.store.blobs import put_in
from core.store.conversations import ConversationInfo

PLACE = ("id", "cause", "conversation_id")
"""Fields that the log decides; the imported values are not put back."""
MANY = f"It has more than {MAX_ENTRIES:,} files: unpack it before you import it again."


class TrajectoryWriter:
    """Writes the list, one event at a time, without page trees and page screenshots."""

    def __init__(self, out: BinaryIO, context: ExportContext) -> None:
        self._out = out
        self._separator = "[\n"

    def take(self, page: Page) -> None:
        """Write the next events."""
        for envelope in page.events:
            text = json.dumps(drop_for_trajectory(as_v0(envelope, page)), indent=4)
            indented = text.replace("\n", "\n    ")
            self._out.write(f"{self._separator}    {indented}".encode())
            self._separator = ",\n"

    def end(self) -> None:
        """Close the list; an empty one is `[]`."""
        self._out.write(b"[]\n" if self._separator == "[\n" else b"\n]\n")


class EventFilesWriter:
    """Writes the zip of event files. The table of names stays in memory, as in every zip."""

    def __init__(self, out: BinaryIO, context: ExportContext) -> None:
        self._context = context
        self._zip = ZipWriter(out, context.scratch)
        self._metadata: JsonObject | None = None

    def take(self, page: Page) -> None:
        """Write each of the next events as a file."""
        for envelope in page.events:
            if envelope.id == 0:
                self._metadata = _imported_metadata(envelope) or _metadata(self._context.info)
            self._zip.add(f"events/{envelope.id}.json", to_json(as_v0(envelope, page, with_original=True)))

    def end(self) -> None:
        """Write the metadata."""
        if self._metadata is not None:
            self._zip.add("metadata.json", to_json(self._metadata))
        if self._zip.count > MAX_ENTRIES:
            self._context.note(MANY)
        self._zip.end()


def _imported_metadata(first: Envelope) -> JsonObject | None:
    """The metadata that the conversation with this first event was imported with."""
    for origin in origins_of(envelope_to_dict(first)):
        found: Any = (origin.get("about") or {}).get("metadata")
        if isinstance(found, dict):
            return found
    return None


def _metadata(info: ConversationInfo) -> JsonObject:
    return {"conversation_id": info.id, "title": info.title, "created_at": info.created_at.isoformat()}


def as_v0(envelope: Envelope, page: Page, *, with_original: bool = False) -> JsonObject:
    """The event in V0 form, with whole pictures; `with_original` adds the original of an SDK event."""
    if envelope.event.pictures:
        envelope = replace(envelope, event=put_in(envelope.event, dict(page.blobs)))
    form = envelope_to_dict(envelope)
    if not origin_of(form):
        return form
    came = as_it_came(form)
    if is_sdk_event(came):
        return form if with_original else {key: value for key, value in form.items() if key != KEY}
    place = {key: value for key, value in (origin_of(form).get("place") or {}).items() if key not in PLACE}
    return {**came, **place, **{key: form[key] for key in PLACE if key in form}}
