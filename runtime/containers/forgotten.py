"""Sandboxes whose conversations were deleted while their engine did not answer, so that their containers go later.

A file for each below the sandboxes of the home, which holds the address of its engine: another engine that answers
says nothing about it. All calls block for milliseconds.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = "forgotten"


class Forgotten:
    """Those at the engine at this address."""

    def __init__(self, parent: Path, engine: str) -> None:
        self._folder = parent / FOLDER
        self._engine = engine

    def add(self, token: str) -> None:
        """Note a sandbox down. On the disk when this returns. Raises OSError."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        with open(self._folder / token, "w", encoding="utf-8") as file:
            file.write(self._engine)
            file.flush()
            os.fsync(file.fileno())

    def tokens(self) -> list[str]:
        """Those whose containers are still to go. Raises OSError."""
        if not self._folder.is_dir():
            return []
        return [path.name for path in self._folder.iterdir() if path.read_text("utf-8", "replace") == self._engine]

    def remove(self, token: str) -> None:
        """Its container is gone. Raises OSError."""
        (self._folder / token).unlink(missing_ok=True)
