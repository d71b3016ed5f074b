"""Permissions: what the user has allowed or denied on a card, and how far that reaches.

Those of a project and those that hold everywhere lie in one file of the home, which only its owner reads; those of a
conversation are events of its log. Invariant: a file that cannot be understood is never written over and never
allows. Several programs share the file: each change is made under a lock, to what the file says at that moment.
Blocking: call it in a thread.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError, UsageError
from core.regular_files import read_text
from core.security.confirmation import Verdict
from core.security.patterns import Pattern, PatternError, parse
from core.store.locks import FileLock

PERMISSIONS = "permissions.json"
MAX_BYTES = 4 * 1024 * 1024


class Scope(StrEnum):
    """How far an answer reaches."""

    ONCE = "once"
    CONVERSATION = "conversation"
    PROJECT = "project"
    EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class Permission:
    """One answer that is kept."""

    verdict: Verdict
    pattern: Pattern
    scope: Scope
    folder: str = ""
    """The project, links followed; empty where it holds everywhere."""
    at: str = ""
    """When it was given: UTC, ISO 8601."""
    conversation: str = ""
    """The id of the conversation in which it was given."""
    id: str = ""
    informed: bool = False
    """Whether it answered a question of taint or of the analyzers; one that did not spares none of those."""

    def __str__(self) -> str:
        return f"permission {self.id} ({self.scope}) {self.verdict} {self.pattern}".replace("  ", " ")

    def holds_in(self, folder: str) -> bool:
        """Whether it counts for work in a folder, links followed."""
        return self.scope is not Scope.PROJECT or self.folder == folder


def given(
    verdict: Verdict, pattern: Pattern, scope: Scope, *, folder: str, conversation: str, informed: bool = False
) -> Permission:
    """A permission that is given now."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    place = os.path.realpath(folder) if scope is Scope.PROJECT else ""
    return Permission(verdict, pattern, scope, place, at, conversation, uuid.uuid4().hex[:8], informed)


class PermissionFile:
    """The permissions of one home."""

    def __init__(self, home: Path) -> None:
        self.path = home / PERMISSIONS

    def read(self) -> tuple[Permission, ...]:
        """All of them, the oldest first. Raises ConfigurationError where the file cannot be understood."""
        try:
            if self.path.stat().st_size > MAX_BYTES:
                raise ValueError("it is too long")
            entries = json.loads(read_text(self.path))
            return tuple(_from_json(entry) for entry in entries["permissions"])
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigurationError(
                f"{self.path} cannot be read: {error}. Mend it or move it away; until then every action is asked about."
            ) from None

    def add(self, permissions: Iterable[Permission]) -> None:
        """Keep these, too; those that are kept already are not kept twice. Raises ConfigurationError."""
        with self._lock():
            kept = list(self.read())
            known = {_meaning(one) for one in kept}
            kept += [one for one in permissions if _meaning(one) not in known]
            self._write(kept)

    def revoke(self, ids: Iterable[str]) -> None:
        """Take these back. Raises UsageError where one of them is not there, ConfigurationError."""
        wanted = set(ids)
        with self._lock():
            kept = self.read()
            if unknown := wanted - {one.id for one in kept}:
                raise UsageError(f"There is no permission {', '.join(sorted(unknown))}. See: handloom permissions list")
            self._write([one for one in kept if one.id not in wanted])

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = FileLock(self.path.with_suffix(".lock"))
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.acquire()
        except OSError as error:
            raise self._failed(error) from None
        try:
            yield
        finally:
            lock.release()

    def _write(self, permissions: Iterable[Permission]) -> None:
        text = json.dumps({"permissions": [_to_json(one) for one in permissions]}, indent=1, ensure_ascii=False)
        try:
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False, encoding="utf-8") as new:  # 0600
                new.write(text + "\n")
                new.flush()
                os.fsync(new.fileno())
            os.replace(new.name, self.path)
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> ConfigurationError:
        return ConfigurationError(f"{self.path} cannot be written: {error.strerror or error}. Nothing was kept.")


def _meaning(permission: Permission) -> tuple[object, ...]:
    return (permission.verdict, permission.pattern, permission.scope, permission.folder, permission.informed)


def _to_json(permission: Permission) -> dict[str, str | bool]:
    texts = {name: str(value) for name, value in asdict(permission).items() if value and name != "informed"}
    return {**texts, "pattern": str(permission.pattern), **({"informed": True} if permission.informed else {})}


def _from_json(entry: dict[str, Any]) -> Permission:
    """Raises ValueError, KeyError or TypeError."""
    try:
        pattern = parse(str(entry["pattern"]))
    except PatternError as error:
        raise ValueError(str(error)) from None
    texts = {name: str(entry.get(name, "")) for name in ("folder", "at", "conversation", "id")}
    scope = Scope(entry["scope"])
    if scope is Scope.PROJECT and not texts["folder"]:
        raise ValueError("a permission of a project names no folder")
    return Permission(Verdict(entry["verdict"]), pattern, scope, **texts, informed=entry.get("informed") is True)
