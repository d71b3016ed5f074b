"""MarkBook: the events of saved conversations that the user marked, one small file a conversation, `marks/ID.json`.

Marks are the user's and no part of a log, so they stand beside the database: a reader of a log need not be able to
write to it. A file is written whole and then put in the place of the old one, so a crash leaves the one or the other.
What is no list of event ids is as good as none. Blocks; call it in a thread.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from core.errors import StoreError

MOST = 10_000
"""Marks of a conversation; a file with more was not written here."""
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,127}")


class MarkBook:
    """The marks of one home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "marks"

    def read(self, conversation_id: str) -> list[int]:
        """The marked events of a conversation, in order."""
        try:
            found = json.loads(self._file(conversation_id).read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return []
        if not isinstance(found, list) or len(found) > MOST:
            return []
        return sorted({event for event in found if type(event) is int and 0 <= event < 2**53})

    def write(self, conversation_id: str, marked: Sequence[int]) -> None:
        """Keep these marks and no others. Raises StoreError."""
        file = self._file(conversation_id)
        try:
            if not marked:
                file.unlink(missing_ok=True)
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self.folder, prefix=".", delete=False, encoding="utf-8") as new:
                json.dump(sorted(set(marked))[:MOST], new)
                new.flush()
                os.fsync(new.fileno())
            os.replace(new.name, file)
        except OSError as error:
            raise StoreError(
                f"The mark could not be kept in {self.folder}: {error.strerror or error}. Make the folder writable."
            ) from error

    def forget(self, conversation_id: str) -> None:
        """Keep no marks of a conversation that was deleted. Raises StoreError."""
        self.write(conversation_id, ())

    def _file(self, conversation_id: str) -> Path:
        if not _NAME.fullmatch(conversation_id):
            raise StoreError(f"The conversation {conversation_id!a} has no name that a file can have.")
        return self.folder / f"{conversation_id}.json"
