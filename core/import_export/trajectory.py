"""The trajectory of OpenHands V0: one flat JSON list of events, pages without trees and without pictures."""

from __future__ import annotations

import json
from typing import BinaryIO

from core.events import drop_for_trajectory
from core.import_export.export_pages import Page, Told
from core.import_export.v0_export import as_v0


class Writer:
    """Writes the list, an event at a time."""

    def __init__(self, out: BinaryIO, told: Told) -> None:
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
        """Close the list; one without events is written as `[]`."""
        self._out.write(b"[]\n" if self._separator == "[\n" else b"\n]\n")
