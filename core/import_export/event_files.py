"""The folder of event files of OpenHands V0, zipped.

    events/<id>.json    one event; what came from the SDK carries its original along
    metadata.json       beside the folder

The same conversation makes the same bytes. The list of names is kept to the end, as every zip has it there.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from core.events import Envelope, envelope_to_dict, to_json
from core.import_export.export_pages import Page, Told
from core.import_export.imported_conversation import JsonObject, origins_of
from core.import_export.untrusted_files import MAX_ENTRIES
from core.import_export.v0_export import as_v0
from core.import_export.zip_writer import Zipped
from core.store.conversations import ConversationInfo

MANY = f"It has more than {MAX_ENTRIES:,} files: unpack it before you import it again."


class Writer:
    """Writes the zip."""

    def __init__(self, out: BinaryIO, told: Told) -> None:
        self._told = told
        self._zip = Zipped(out, told.scratch)
        self._beside: JsonObject | None = None

    def take(self, page: Page) -> None:
        """Write the next events, each into its own member."""
        for envelope in page.events:
            if envelope.id == 0:
                self._beside = lay_beside(envelope, "metadata") or _metadata(self._told.info)
            self._zip.add(f"events/{envelope.id}.json", to_json(as_v0(envelope, page, carries=True)))

    def end(self) -> None:
        """Write what lies beside the events."""
        if self._beside is not None:
            self._zip.add("metadata.json", to_json(self._beside))
        if self._zip.count > MAX_ENTRIES:
            self._told.note(MANY)
        self._zip.end()


def lay_beside(first: Envelope, name: str) -> JsonObject | None:
    """What lay beside the events under that name when a conversation with this first event was imported."""
    for origin in origins_of(envelope_to_dict(first)):
        found: Any = (origin.get("about") or {}).get(name)
        if isinstance(found, dict):
            return found
    return None


def _metadata(info: ConversationInfo) -> JsonObject:
    return {"conversation_id": info.id, "title": info.title, "created_at": info.created_at.isoformat()}
