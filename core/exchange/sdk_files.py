"""The folder of a conversation of the OpenHands SDK (V1), zipped.

    events/event-<number>-<id>.json    one event: as it was imported, or in the SDK's words (`core.exchange.sdk_out`)
    base_state.json                    beside the folder, where it was imported; else the SDK makes its own
    v0.jsonl                           what the SDK's words do not hold (`core.exchange.sdk_beside`)

The same conversation makes the same bytes. The list of names is kept to the end, as every zip has it there.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from core.events import Envelope, envelope_to_dict, to_json
from core.exchange import sdk_beside
from core.exchange.as_v0 import as_sdk, whole
from core.exchange.event_files import MANY, lay_beside
from core.exchange.imported import JsonObject
from core.exchange.pages import Page, Told
from core.exchange.sdk_out import KEY, Words
from core.exchange.sources import MAX_ENTRIES
from core.exchange.zipped import Part, Zipped

_STRANGE = re.compile(r"[^0-9A-Za-z-]")


class Writer:
    """Writes the zip."""

    def __init__(self, out: BinaryIO, told: Told) -> None:
        self._told = told
        self._zip = Zipped(out, told.scratch)
        self._words = Words()
        self._state: JsonObject | None = None
        self._beside = Part(told.scratch)
        self._beside.add(sdk_beside.head(told.info))

    def take(self, page: Page) -> None:
        """Write the next events, each into its own member."""
        for envelope in page.events:
            if envelope.id == 0:
                self._state = lay_beside(envelope, "base_state")
            original = as_sdk(envelope)
            if original is None:
                self._say(whole(envelope, page))
            else:
                self._words.keep(envelope, original)
                self._add(envelope.id, original)

    def end(self) -> None:
        """Write what lies beside the events."""
        if self._state is not None:
            self._zip.add("base_state.json", to_json(self._state))
        self._zip.add_part(sdk_beside.NAME, self._beside)
        if self._zip.count > MAX_ENTRIES:
            self._told.note(MANY)
        self._zip.end()

    def _say(self, envelope: Envelope) -> None:
        form = envelope_to_dict(envelope, derived=False)
        event = self._words.say(envelope, form)
        is_whole = event.get("key") == KEY
        self._beside.add(sdk_beside.line(envelope.id, self._add(envelope.id, event), None if is_whole else form))

    def _add(self, number: int, event: JsonObject) -> str:
        """Write an event's file; its text."""
        name = _STRANGE.sub("", str(event.get("id", "")))[:64] or "0"
        data = to_json(event)
        self._zip.add(f"events/event-{number:05d}-{name}.json", data)
        return data
