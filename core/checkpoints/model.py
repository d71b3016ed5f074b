"""Checkpoints: the files of a workspace at one moment, and how two moments differ. Pure data.

The store is `runtime.checkpoints.checkpoint_store`; core uses it as `core.protocols.Checkpoints`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of a workspace at one moment. Its texts are foreign."""

    id: str
    """Hexadecimal, unique in the store of its workspace."""
    label: str
    """The reason for taking it."""
    files: int
    """The number of files in it."""
    changed: int
    """Files that were changed, created or deleted since the checkpoint before, in this workspace by any conversation.
    """
    bytes: int
    """The bytes that were read."""
    skipped: tuple[str, ...] = ()
    """Files that are not in it and that a restore leaves alone, each with the reason."""


class ChangeKind(StrEnum):
    """How a file changed."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that differs between two checkpoints."""

    path: str
    """Relative to the workspace. Foreign; bytes that are no UTF-8 are lone surrogates."""
    kind: ChangeKind
    added: int
    """Lines; 0 if the file is binary."""
    removed: int
    binary: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    before: Checkpoint
    """The workspace before: restoring this checkpoint undoes the restore."""
    changes: tuple[FileChange, ...]
    """The change of each file that was written or deleted."""
    kept: tuple[str, ...] = ()
    """Paths that were kept although they are not in the checkpoint, because its ignore files name them, or that were
    renamed to this because they were in the way."""
