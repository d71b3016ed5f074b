"""Permissions: what the user has always allowed or denied, and where.

Permissions for a project and for everywhere are in a file of the home that only its owner can read; those of a
conversation are events of its log. Invariant: a file that cannot be parsed is never overwritten and never allows
anything. Several processes share the file, so each change is made under a lock. Blocking: call it in a thread.
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
    """Where a permission applies."""

    ONCE = "once"
    CONVERSATION = "conversation"
    PROJECT = "project"
    EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class Permission:
    """A stored answer of the user."""

    verdict: Verdict
    pattern: Pattern
    scope: Scope
    folder: str = ""
    """The resolved path of the project; empty for the other scopes."""
    at: str = ""
    """Time of the answer, UTC, ISO 8601."""
    conversation: str = ""
    """The id of the conversation in which the user answered."""
    id: str = ""
    informed: bool = False
    """Whether it answered a question of taint or of the analyzers, so that it also applies to those."""

    def __str__(self) -> str:
        return f"permission {self.id} ({self.scope}) {self.verdict} {self.pattern}".replace("  ", " ")

    def holds_in(self, folder: str) -> bool:
        """Whether it applies in a folder, which must be resolved."""
        return self.scope is not Scope.PROJECT or self.folder == folder


def new_permission(
    verdict: Verdict, pattern: Pattern, scope: Scope, *, folder: str, conversation: str, informed: bool = False
) -> Permission:
    """Make a permission with the current time and a new id."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    place = os.path.realpath(folder) if scope is Scope.PROJECT else ""
    return Permission(verdict, pattern, scope, place, at, conversation, uuid.uuid4().hex[:8], informed)


class PermissionFile:
    """The permissions in one home folder."""

    def __init__(self, home: Path) -> None:
        self.path = home / PERMISSIONS

    def read(self) -> tuple[Permission, ...]:
        """All permissions, the oldest first. Raises ConfigurationError if the file cannot be parsed."""
        try:
            if self.path.stat().st_size > MAX_BYTES:
                raise ValueError("it is too long")
            entries = json.loads(read_text(self.path))
            return tuple(_from_json(entry) for entry in entries["permissions"])
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigurationError(
                f"{self.path} cannot be read: {error}. Fix it or move it away. Until then, every action needs approval."
            ) from None

    def add(self, permissions: Iterable[Permission]) -> None:
        """Add permissions, except those that exist already. Raises ConfigurationError."""
        with self._lock():
            stored = list(self.read())
            known = {_identity(one) for one in stored}
            stored += [one for one in permissions if _identity(one) not in known]
            self._write(stored)

    def revoke(self, ids: Iterable[str]) -> None:
        """Delete permissions. Raises UsageError if one does not exist, ConfigurationError."""
        wanted = set(ids)
        with self._lock():
            stored = self.read()
            if unknown := wanted - {one.id for one in stored}:
                raise UsageError(f"There is no permission {', '.join(sorted(unknown))}. See: handloom permissions list")
            self._write([one for one in stored if one.id not in wanted])

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
        return ConfigurationError(f"{self.path} cannot be written: {error.strerror or error}. Nothing was saved.")


def _identity(permission: Permission) -> tuple[object, ...]:
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
        raise ValueError("a permission for a project has no folder")
    return Permission(Verdict(entry["verdict"]), pattern, scope, **texts, informed=entry.get("informed") is True)
