"""Mounts that enforce the rules of the user: denied files are hidden or read-only, whatever a program inside does.

Merged with the mounts that protect the workspace (`runtime.isolation.protected_paths`), of which the stricter one
counts. Only what exists is mounted on, so nothing is created in the user's folder. Used by WorkspaceGuard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.sandbox_types import Denials
from runtime.isolation.protected_paths import Access, Mount, Mounts

_STRICTNESS: dict[Access, int] = {"open": 0, "read-only": 1, "empty": 2, "hidden file": 3, "hidden folder": 3}


@dataclass(frozen=True, slots=True)
class Sight:
    """What a sandbox sees beside the workspace."""

    readable: tuple[Path, ...] = ()
    """In sight, and read-only."""
    hidden: tuple[Path, ...] = ()
    """Out of sight, also where it lies in the workspace."""
    needed: tuple[Path, ...] = ()
    """What it cannot be started without: a rule does not hide it."""


def deny(found: Mounts, denials: Denials, workspace: Path, sight: Sight) -> None:
    """Add what enforces the denials to the mounts of a sandbox. Blocks for a moment."""
    writable = [workspace, *found.opened]
    hidden = [*_shown(denials.unreadable, [*writable, *sight.readable], sight, (workspace, *sight.needed))]
    closed = [*_shown(denials.unwritable, writable, sight, ())]
    if not hidden and not closed:
        return
    merged = {mount.path: mount for mount in found.mounts}
    for path in closed:
        _merge(merged, Mount(path, "read-only"))
    for path in hidden:
        _merge(merged, Mount(path, "hidden folder" if path.is_dir() else "hidden file"))
    for path in (*closed, *hidden):  # a folder above could be renamed, and another one be put in its place
        for top in writable:
            for above in path.parents:
                if above.is_relative_to(top) and above != top:
                    _merge(merged, Mount(above, "open"))
    found.mounts = [mount for path, mount in sorted(merged.items()) if not _is_covered(mount, merged)]
    kept = {mount.path for mount in found.mounts}
    found.placeholders = [path for path in found.placeholders if path in kept]
    found.guarded = [*dict.fromkeys([*(path for path in found.guarded if path in kept), *sorted(kept)])]


def _shown(denied: Iterable[str], tops: Sequence[Path], sight: Sight, needed: Sequence[Path]) -> Iterable[Path]:
    """What is to be mounted of denied paths: what a sandbox shows of them, and can do without."""
    for path in map(Path, denied):
        shown = [path] if any(path.is_relative_to(top) for top in tops) else []
        shown += [top for top in tops if top.is_relative_to(path) and top != path]
        for one in shown:
            is_seen = not any(one.is_relative_to(folder) for folder in sight.hidden)
            if is_seen and not any(need.is_relative_to(one) for need in needed):
                yield one


def _merge(merged: dict[Path, Mount], mount: Mount) -> None:
    known = merged.get(mount.path)
    if known is None or _STRICTNESS[known.access] < _STRICTNESS[mount.access]:
        merged[mount.path] = mount


def _is_covered(mount: Mount, merged: dict[Path, Mount]) -> bool:
    """Whether a folder above hides it, or is read-only so that this one must not be open."""
    above = [merged[path].access for path in mount.path.parents if path in merged]
    return "hidden folder" in above or (mount.access == "open" and any(access != "open" for access in above))
