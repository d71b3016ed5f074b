"""Which files in which folders the user has approved or refused.

TrustStore keeps the answers in `trust.json` in the home folder, readable only by its owner. A folder is identified by
its resolved path, a piece by its path and the hash of its text, so changed and new files need another approval.
Refusals are stored as well, so that nobody is asked twice about the same text. If the file cannot be read, nothing is
trusted.

TrustPolicy combines the store with the setting trust.projects. All methods block.
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
class TrustState:
    """The pieces of a folder by the user's answers."""

    survey: Survey
    trusted: tuple[Piece, ...] = ()
    waiting: tuple[Piece, ...] = ()
    """Pieces that the user has not approved with their current text."""
    is_refused: bool = True
    """Whether the user has refused all waiting pieces."""
    changed: frozenset[str] = field(default_factory=frozenset)
    """Paths of waiting pieces that were approved with another text."""

    @property
    def needs_answer(self) -> bool:
        """Whether the user should be asked."""
        return bool(self.waiting) and not self.is_refused

    def of(self, *kinds: Kind) -> list[Piece]:
        """The trusted pieces of these kinds."""
        return [piece for piece in self.trusted if piece.kind in kinds]


class TrustStore:
    """The stored answers of one home folder."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def state_of(self, survey: Survey) -> TrustState:
        """Look up the answers for the pieces of a survey. Raises ConfigurationError if the file cannot be read."""
        entry = self._read().get(survey.folder, {})
        yes, no = entry.get("yes", {}), entry.get("no", {})
        trusted = tuple(piece for piece in survey.pieces if yes.get(piece.path) == piece.digest)
        waiting = tuple(piece for piece in survey.pieces if yes.get(piece.path) != piece.digest)
        is_refused = all(no.get(piece.path) == piece.digest for piece in waiting)
        return TrustState(survey, trusted, waiting, is_refused, frozenset(p.path for p in waiting if p.path in yes))

    def approve(self, folder: str, pieces: Iterable[Piece]) -> None:
        """Store the approval of these pieces. Raises ConfigurationError."""
        self._answer(folder, pieces, "yes", "no")

    def refuse(self, folder: str, pieces: Iterable[Piece]) -> None:
        """Store the refusal of these pieces. Raises ConfigurationError."""
        self._answer(folder, pieces, "no", "yes")

    def _answer(self, folder: str, pieces: Iterable[Piece], what: str, other: str) -> None:
        folders = self._read()
        entry = folders.pop(folder, {})
        said = {piece.path: piece.digest for piece in pieces}
        entry[what] = {**entry.get(what, {}), **said}
        entry[other] = {path: digest for path, digest in entry.get(other, {}).items() if path not in said}
        folders[folder] = entry  # the newest last, because the oldest are dropped
        self._write(dict(list(folders.items())[-MAX_FOLDERS:]))

    def revoke(self, folder: str) -> bool:
        """Delete all answers for a folder. Returns whether it had approvals. Raises ConfigurationError."""
        folders = self._read()
        entry = folders.pop(folder, None)
        if entry is not None:
            self._write(folders)
        return bool(entry and entry.get("yes"))

    def folders(self) -> dict[str, int]:
        """Return the number of approved files by folder. Raises ConfigurationError."""
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
    """Parse the entry of one folder. Raises TypeError, AttributeError."""
    return {what: {str(path): str(digest) for path, digest in said.get(what, {}).items()} for what in ("yes", "no")}


ASK, ALWAYS, NEVER = "ask", "always", "never"
"""Values of the setting trust.projects."""


class TrustPolicy:
    """The trust of one home folder. `mode` and `disabled` return current settings."""

    def __init__(self, home: Path, mode: Callable[[], str], disabled: Callable[[], Collection[str]] = tuple) -> None:
        self.store = TrustStore(home)
        self._mode = mode
        self._disabled = disabled

    @property
    def disabled(self) -> Collection[str]:
        """Names of microagents and skills that are never used, wherever they come from."""
        return self._disabled()

    @property
    def mode(self) -> str:
        """The current value of trust.projects."""
        return self._mode()

    def state_of(self, survey: Survey) -> TrustState:
        """Look up the answers for a survey. Approves nothing if the setting is NEVER or the file is unreadable."""
        if self.mode == NEVER:
            return TrustState(survey, waiting=survey.pieces)
        try:
            return self.store.state_of(survey)
        except ConfigurationError as error:
            reported = replace(survey, problems=(*survey.problems, str(error)))
            return TrustState(reported, waiting=survey.pieces)
