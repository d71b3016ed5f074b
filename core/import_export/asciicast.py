"""Asciicast, version 2: the terminal as it was recorded, for asciinema and its players.

One JSON object with the size and the time, then a line `[seconds, "o", text]` for each piece of output. Time never
goes back, even where the clock of the machine did.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import BinaryIO

from core.import_export.export_pages import Page, Told
from core.import_export.terminal_text import HEIGHT, WIDTH, Terminal

NOT_RECORDED = "Not all of the terminal was recorded; there the output of commands stands in for it, without its pace."


class Writer:
    """Writes the cast."""

    def __init__(self, out: BinaryIO, told: Told) -> None:
        self._out, self._told = out, told
        self._terminal = Terminal()
        self._began_at: datetime | None = None
        self._latest_s = 0.0

    def take(self, page: Page) -> None:
        """Write what the terminal showed during the next events."""
        for shown in self._terminal.take(page):
            if self._began_at is None:
                self._begin(shown.at)
            assert self._began_at is not None
            self._latest_s = max(self._latest_s, (shown.at - self._began_at).total_seconds())
            self._line([round(self._latest_s, 6), "o", shown.text])

    def end(self) -> None:
        """A cast without output has its first line all the same."""
        if self._began_at is None:
            self._begin(self._told.info.created_at)
        if self._terminal.is_guessed:
            self._told.note(NOT_RECORDED)

    def _begin(self, at: datetime) -> None:
        self._began_at = at
        header: dict[str, object] = {"version": 2, "width": WIDTH, "height": HEIGHT, "timestamp": int(at.timestamp())}
        if title := " ".join(self._told.info.title.split()):
            header["title"] = title
        self._line({**header, "env": {"TERM": "xterm-256color"}})

    def _line(self, value: object) -> None:
        self._out.write(json.dumps(value).encode() + b"\n")
