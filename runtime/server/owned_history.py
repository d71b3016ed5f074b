"""The history of edits of a server that several conversations have one after another: each has its own on the disk.

Invariant: nobody takes back an edit of somebody else. What is edited before anybody has claimed the server is kept in
memory, and ends with this life.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from runtime.server.history import History, HistoryInMemory, Step
from runtime.server.kept_history import KeptHistory

FOLDER_CHARS = 32


class OwnedHistory:
    """Implements History: in memory, until `claim` names the owner."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history: History = HistoryInMemory()

    def claim(self, owner: str) -> None:
        """Go on with what this owner has edited before. Blocks. Raises OSError where it cannot be had."""
        name = hashlib.sha256(owner.encode()).hexdigest()[:FOLDER_CHARS]
        self._history = KeptHistory(self._folder / name)

    def push(self, path: str, before: bytes, after: bytes) -> None:
        self._history.push(path, before, after)

    def last(self, path: str) -> Step | None:
        return self._history.last(path)

    def pop(self, path: str) -> None:
        self._history.pop(path)
