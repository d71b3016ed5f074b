"""The folder of event files of OpenHands, zipped: those of V0, and those of the SDK for events that came from it.

    events/<id>.json                  one event of V0; metadata.json beside the folder
    events/event-<number>-<id>.json   one event of the SDK as it was imported; base_state.json beside the folder

The same conversation makes the same bytes. The list of names is kept to the end, as every zip has it there.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import suppress
from typing import BinaryIO

from core.events import Envelope, envelope_to_dict, to_json
from core.exchange.archive import member
from core.exchange.as_v0 import as_sdk, as_v0
from core.exchange.imported import JsonObject, origin_of
from core.exchange.pages import Page, Told

_STRANGE = re.compile(r"[^0-9A-Za-z-]")


class Writer:
    """Writes the zip."""

    def __init__(self, out: BinaryIO, told: Told) -> None:
        self._told = told
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED)
        told.scratch.callback(self._close)
        self._beside: tuple[str, JsonObject] | None = None

    def take(self, page: Page) -> None:
        """Write the next events, each into its own member."""
        for envelope in page.events:
            original = as_sdk(envelope, page)
            if envelope.id == 0:
                self._beside = self._found_beside(envelope, is_sdk=original is not None)
            if original is None:
                self._add(f"events/{envelope.id}.json", as_v0(envelope, page))
            else:
                name = _STRANGE.sub("", str(original.get("id", "")))[:64] or "0"
                self._add(f"events/event-{envelope.id:05d}-{name}.json", original)

    def end(self) -> None:
        """Write what lies beside the events."""
        if self._beside is not None:
            self._add(*self._beside)
        self._zip.close()

    def _found_beside(self, first: Envelope, *, is_sdk: bool) -> tuple[str, JsonObject] | None:
        about = origin_of(envelope_to_dict(first)).get("about") or {}
        name = "base_state" if is_sdk else "metadata"
        found = about.get(name)
        if isinstance(found, dict):
            return f"{name}.json", found
        info = self._told.info
        made = {"conversation_id": info.id, "title": info.title, "created_at": info.created_at.isoformat()}
        return None if is_sdk else ("metadata.json", made)

    def _add(self, name: str, value: JsonObject) -> None:
        self._zip.writestr(member(name), to_json(value))

    def _close(self) -> None:
        """Let go of the output where the export failed: a zip would write its end into it whenever it is collected."""
        with suppress(OSError, ValueError):
            self._zip.close()
