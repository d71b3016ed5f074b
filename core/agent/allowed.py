"""Which of the projects' agents the user has read and allowed: by their file, and by what stood in it.

An agent from a project is a text by others that would direct a model here. It works only while it is, to the letter,
what the user was shown. Kept in `allowed-agents.json` of the home; one that cannot be read allows nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from core.agent.files import AgentFile
from core.errors import ConfigurationError
from core.regular_files import read_text

NAME = "allowed-agents.json"


class Allowed:
    """The book of one home."""

    def __init__(self, home: Path) -> None:
        self._path = home / NAME

    def has(self, file: AgentFile) -> bool:
        """Whether the user has allowed this very text at this place."""
        return self._read().get(str(file.path)) == file.digest

    def add(self, file: AgentFile) -> None:
        """Allow it as it stands. Raises ConfigurationError where that cannot be written down."""
        self._write({**self._read(), str(file.path): file.digest})

    def forget_below(self, folder: str) -> None:
        """Allow none of a project's any more. Raises ConfigurationError where that cannot be written down."""
        before = self._read()
        kept = {path: digest for path, digest in before.items() if Path(folder) not in Path(path).parents}
        if kept != before:
            self._write(kept)

    def _write(self, book: dict[str, str]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=NAME)
            with os.fdopen(handle, "w", encoding="utf-8") as new:
                json.dump(book, new, indent=1)
            os.replace(name, self._path)
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error.strerror}. Make room there.") from error

    def _read(self) -> dict[str, str]:
        try:
            book = json.loads(read_text(self._path))
        except (OSError, ValueError, RecursionError):
            return {}
        return book if isinstance(book, dict) else {}
