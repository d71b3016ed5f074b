"""Bookmarks: the events that the user marked, in one small file per conversation, `marks/ID.json`.

They are not part of the log, so a replay can write them without write access to the database. A file is replaced
atomically. An invalid file counts as empty. Blocks; call it in a thread.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from core.errors import StoreError

MAX_BOOKMARKS = 10_000
"""Bookmarks in one conversation; Handloom does not write files with more."""
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,127}")


class Bookmarks:
    """The bookmarks of one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "marks"

    def read(self, conversation_id: str) -> list[int]:
        """The ids of the marked events of a conversation, sorted."""
        try:
            found = json.loads(self._file(conversation_id).read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return []
        if not isinstance(found, list) or len(found) > MAX_BOOKMARKS:
            return []
        return sorted({event for event in found if type(event) is int and 0 <= event < 2**53})

    def write(self, conversation_id: str, event_ids: Sequence[int]) -> None:
        """Replace the bookmarks of a conversation. Raises StoreError."""
        file = self._file(conversation_id)
        try:
            if not event_ids:
                file.unlink(missing_ok=True)
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self.folder, prefix=".", delete=False, encoding="utf-8") as new:
                json.dump(sorted(set(event_ids))[:MAX_BOOKMARKS], new)
                new.flush()
                os.fsync(new.fileno())
            os.replace(new.name, file)
        except OSError as error:
            raise StoreError(
                f"The bookmark could not be saved in {self.folder}: {error.strerror or error}. Make it writable."
            ) from error

    def delete(self, conversation_id: str) -> None:
        self.write(conversation_id, ())

    def _file(self, conversation_id: str) -> Path:
        if not _NAME.fullmatch(conversation_id):
            raise StoreError(f"The conversation {conversation_id!a} has an id that cannot be a file name.")
        return self.folder / f"{conversation_id}.json"
