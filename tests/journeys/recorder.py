"""Keeps what was on the screen of a journey, for the manual."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from tests.journeys.terminal import Terminal


class Recorder:
    """The screens of a terminal as an asciicast, a frame for each that is waited for."""

    def __init__(self, terminal: Terminal, columns: int, rows: int) -> None:
        self.terminal = terminal
        self._begun = time.monotonic()
        self._lines = [json.dumps({"version": 2, "width": columns, "height": rows})]

    def sees(self, *texts: str, gone: bool = False) -> str:
        """Wait for texts, and keep the screen."""
        screen = self.terminal.wait_for(*texts, gone=gone)
        drawn = "\x1b[H\x1b[2J" + screen.rstrip("\n").replace("\n", "\r\n")
        self._lines.append(json.dumps([round(time.monotonic() - self._begun, 2), "o", drawn]))
        return screen

    def save(self, folder: Path, name: str) -> None:
        """Write the recording: to the folder that HANDLOOM_CASTS names, else to this one."""
        Path(os.environ.get("HANDLOOM_CASTS") or folder, name).write_text("\n".join(self._lines) + "\n", "utf-8")
