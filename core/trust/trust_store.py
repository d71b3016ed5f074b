"""The book of trust: which folders the user said yes to, and to which texts in them.

Kept in `trust.json` of the home, which nobody else may read. A folder is known by its resolved path, a piece by its
path and the hash of its text; so what changes, or is added, waits for another yes. A no is remembered as well, for the
same texts: nobody is asked twice. A book that cannot be read trusts nothing. All methods block.

The gate: what of a project counts in this process, by the book and by the setting. Its methods block.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from core.regular_files import read_bytes
from core.trust.folder_survey import Kind, Piece, Survey

NAME = "trust.json"
VERSION = 1
MAX_FOLDERS = 10_000


@dataclass(frozen=True, slots=True)
class Standing:
    """How the pieces of a folder stand with the user."""

    survey: Survey
    trusted: tuple[Piece, ...] = ()
    waiting: tuple[Piece, ...] = ()
    """Those that the user has not said yes to, as they are."""
    is_asked: bool = True
    """Whether the user was asked about all that waits, and said no."""
    changed: frozenset[str] = field(default_factory=frozenset)
    """Paths of those that wait and had a yes when they were otherwise."""

    @property
    def is_open(self) -> bool:
        """Whether there is something to ask."""
        return bool(self.waiting) and not self.is_asked

    def of(self, *kinds: Kind) -> list[Piece]:
        """The trusted pieces of these kinds."""
        return [piece for piece in self.trusted if piece.kind in kinds]


class Book:
    """The book of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def standing(self, survey: Survey) -> Standing:
        """How what was found stands. Raises ConfigurationError where the book cannot be read."""
        entry = self._read().get(survey.folder, {})
        yes, no = entry.get("yes", {}), entry.get("no", {})
        trusted = tuple(piece for piece in survey.pieces if yes.get(piece.path) == piece.digest)
        waiting = tuple(piece for piece in survey.pieces if yes.get(piece.path) != piece.digest)
        is_asked = all(no.get(piece.path) == piece.digest for piece in waiting)
        return Standing(survey, trusted, waiting, is_asked, frozenset(p.path for p in waiting if p.path in yes))

    def give(self, folder: str, pieces: Iterable[Piece]) -> None:
        """The user has read these, and says yes. Raises ConfigurationError."""
        self._answer(folder, pieces, "yes", "no")

    def refuse(self, folder: str, pieces: Iterable[Piece]) -> None:
        """The user was asked about these, and says no. Raises ConfigurationError."""
        self._answer(folder, pieces, "no", "yes")

    def _answer(self, folder: str, pieces: Iterable[Piece], what: str, other: str) -> None:
        folders = self._read()
        entry = folders.pop(folder, {})
        said = {piece.path: piece.digest for piece in pieces}
        entry[what] = {**entry.get(what, {}), **said}
        entry[other] = {path: digest for path, digest in entry.get(other, {}).items() if path not in said}
        folders[folder] = entry  # the latest last, so that the oldest are the ones that go
        self._write(dict(list(folders.items())[-MAX_FOLDERS:]))

    def revoke(self, folder: str) -> bool:
        """Take everything back that was said of a folder; says whether there was a yes. Raises ConfigurationError."""
        folders = self._read()
        entry = folders.pop(folder, None)
        if entry is not None:
            self._write(folders)
        return bool(entry and entry.get("yes"))

    def folders(self) -> dict[str, int]:
        """The trusted folders, with how many files of each have a yes. Raises ConfigurationError."""
        return {folder: len(entry["yes"]) for folder, entry in self._read().items() if entry.get("yes")}

    def _read(self) -> dict[str, dict[str, dict[str, str]]]:
        path = self._home / NAME
        try:
            said = json.loads(read_bytes(path))
            if said["version"] != VERSION:
                raise ValueError("it is of another version")
            return {str(folder): _entry(entry) for folder, entry in said["folders"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            text = f"{path} cannot be read: {error}. Move it away; then every folder asks again."
            raise ConfigurationError(text) from error

    def _write(self, folders: dict[str, Any]) -> None:
        path = self._home / NAME
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._home, delete=False, encoding="utf-8") as new:  # 0600
                json.dump({"version": VERSION, "folders": folders}, new, indent=1)
            os.replace(new.name, path)
        except OSError as error:
            text = f"{path} cannot be written: {error.strerror or error}. Make room there, and try again."
            raise ConfigurationError(text) from error


def _entry(said: Any) -> dict[str, dict[str, str]]:
    """One folder's lines. Raises TypeError, AttributeError."""
    return {what: {str(path): str(digest) for path, digest in said.get(what, {}).items()} for what in ("yes", "no")}


ASK, ALWAYS, NEVER = "ask", "always", "never"
"""What the setting trust.projects may be."""


class Gate:
    """Of one home. `mode` and `disabled`, the names of what is never told, are the settings as they stand."""

    def __init__(self, home: Path, mode: Callable[[], str], disabled: Callable[[], Collection[str]] = tuple) -> None:
        self.book = Book(home)
        self._mode = mode
        self._disabled = disabled

    @property
    def disabled(self) -> Collection[str]:
        """Names of microagents and skills that are never told, whoever brings them."""
        return self._disabled()

    @property
    def mode(self) -> str:
        """The setting as it stands."""
        return self._mode()

    def standing(self, survey: Survey) -> Standing:
        """How what was found stands; where nothing of projects counts, or the book is broken, nothing has a yes."""
        if self.mode == NEVER:
            return Standing(survey, waiting=survey.pieces)
        try:
            return self.book.standing(survey)
        except ConfigurationError as error:
            told = replace(survey, problems=(*survey.problems, str(error)))
            return Standing(told, waiting=survey.pieces)
