"""What is known of checkpoints: a workspace as it was at one moment, and how two moments differ. Pure data.

The store is `runtime.checkpoints.checkpoint_store`; core asks for one as `core.protocols.Checkpoints`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of a workspace at one moment. Its texts are foreign."""

    id: str
    """Hexadecimal; names it in the store of its workspace."""
    label: str
    """What it was taken for."""
    files: int
    """That are in it."""
    changed: int
    """Files that had changed, come or gone since the one before, whichever conversation took that in this workspace."""
    bytes: int
    """What was read."""
    skipped: tuple[str, ...] = ()
    """Files that are not in it and that restoring leaves alone, each with the reason behind it."""


class ChangeKind(StrEnum):
    """What became of a file."""

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
    """Lines; 0 where it is binary."""
    removed: int
    binary: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    before: Checkpoint
    """The workspace as it was until then: restoring this one undoes it."""
    changes: tuple[FileChange, ...]
    """What became of each file that was written or removed."""
    kept: tuple[str, ...] = ()
    """Paths that would have gone and were left, because the checkpoint's own ignore files name them, or that stood in
    the way and now have another name, which is this."""
