"""Read-only mounts for paths of a workspace that the user's programs run later outside of the sandbox, and for deny
rules.

A hook, an editor's task, a shell's start file: what a sandbox wrote there would run with the user's rights. What exists
when a sandbox starts is read-only in it. A mount needs an existing path, and the user's folder must stay as it is, so
missing names are only watched: `runtime.isolation.workspace_guard` moves them away when they appear. Inside `.git`,
where git would obey a file at once, missing names get a placeholder as a mount point.

Deny rules of the user hide files or make them read-only, whatever a program does. Only existing files are mounted, and
of two mounts for a path the stricter one counts.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from core.autorun_paths import NESTED
from core.regular_files import read_text
from core.sandbox_types import Denials
from runtime.isolation.git_config import Targets, targets

MAX_PATH_BYTES = 4096
_GIT_FOLDERS = ("hooks", "modules")
COMMON_DIR = "commondir"
"""In a repository's folder: where else git finds its settings and hooks; see gitrepository-layout(5)."""
ITSELF = ".\n"
"""A common folder that is the folder itself: the placeholder's content, since git reads the file wherever it is."""
WORKTREE_CONFIG = "config.worktree"
CONTENTS = {
    COMMON_DIR: ITSELF,
    WORKTREE_CONFIG: "# Handloom keeps this file here while a sandbox runs. It changes no setting.\n",
}
"""Content of placeholders that are files, by name. With a folder in their place git would refuse to work."""
MAX_WORKTREES = 50


Access = Literal["open", "read-only", "empty", "hidden file", "hidden folder"]


class ProtectionError(Exception):
    """A path that cannot be protected; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A path mounted on itself. The order of mounts matters, because one may contain another."""

    path: Path
    access: Access
    """`open` only prevents renaming, `empty` shows a read-only empty folder, and hidden paths cannot be opened."""
    is_placeholder: bool = False
    """Whether the mount point was made only for this mount."""


@dataclass
class Mounts:
    """The mounts that protect a workspace."""

    mounts: list[Mount] = field(default_factory=list)
    """In order."""
    placeholders: list[Path] = field(default_factory=list)
    """Mount points to make first: files for the names in CONTENTS, else empty folders."""
    mount_points: list[Path] = field(default_factory=list)
    """All mount points."""
    watched: list[str] = field(default_factory=list)
    """Missing protected paths, relative to the workspace."""
    left_out: int = 0
    """The number of files that git's settings and hooks point at and that are too many to be read-only."""
    writable: list[Path] = field(default_factory=list)
    """Writable folders outside of the workspace that its git needs."""


def protecting_mounts(workspace: Path, names: Iterable[str], nested: Iterable[str] = ()) -> Mounts:
    """Return mounts that make these paths read-only, and git's; `nested` are deeper paths that `audit` found.

    Reads the workspace and changes nothing. Raises ProtectionError for a symbolic link, which cannot be mounted on; a
    nested one is skipped.
    """
    found = Mounts()
    for name in (*names, *NESTED):
        if is_missing(workspace / name):
            found.watched.append(name)
            continue
        for folder in reversed((workspace / name).relative_to(workspace).parents[:-1]):
            _hold(workspace / folder, found)
        _protect(workspace / name, found)
    git = workspace / ".git"
    if _kind(git) == stat.S_IFDIR:
        _protect_repository(git, found)
    elif _kind(git):
        _protect(git, found)
        if (worktree := _worktree_folder(git)) is not None:
            common = worktree.parent.parent
            found.writable.append(common)
            _protect_repository(common, found)
            if worktree / COMMON_DIR not in found.mount_points:
                _protect_worktree(worktree, found)
    inner = [workspace / name for name in nested]
    for path in inner:
        with suppress(ProtectionError, OSError):
            (_protect_repository if path.name == ".git" else _protect)(path, found)
    repositories = [path for path in found.mount_points if _kind(path / "HEAD")]
    home = Path(os.path.expanduser("~"))
    users = [home / ".gitconfig", home / ".config/git/config"]
    _protect_targets(workspace, targets(workspace, repositories, [workspace / name for name in names], users), found)
    return found


def _protect_targets(workspace: Path, targets: Targets, found: Mounts) -> None:
    """Make read-only what settings and hooks point at. Their parent folders are mounted too, so they cannot be
    renamed.
    """
    closed = [mount.path for mount in found.mounts if mount.access != "open"]
    above: set[Path] = set()
    for path in targets.existing:
        if not any(path.is_relative_to(other) for other in closed):
            above |= {folder for folder in path.parents if folder.is_relative_to(workspace) and folder != workspace}
            found.mounts.append(Mount(path, "read-only"))
            found.mount_points.append(path)
    opened = sorted(above - set(found.mount_points))
    found.mounts[:0] = [
        Mount(folder, "open") for folder in opened
    ]  # first, because a later mount would hide mounts below it
    found.mount_points += opened
    found.watched += [name for name in targets.missing if not any((workspace / name).is_relative_to(p) for p in closed)]
    found.left_out = targets.left_out


def _hold(folder: Path, found: Mounts) -> None:
    """Leave a folder writable, so that it only cannot be renamed."""
    if _kind(folder) != stat.S_IFDIR:
        _protect(folder, found)
    elif folder not in found.mount_points:
        found.mount_points.append(folder)
        found.mounts.append(Mount(folder, "open"))


def _protect_repository(git: Path, found: Mounts) -> None:
    """Leave a repository's folder writable, except for what git runs."""
    found.mount_points.append(git)
    found.mounts.append(Mount(git, "open"))  # so that it cannot be renamed
    if _kind(git / "config"):
        _protect(git / "config", found)
    for name in _GIT_FOLDERS:
        _protect(git / name, found)
    for name in CONTENTS:
        _protect_file(git / name, found)
    for worktree in sorted(_folders(git / "worktrees"))[:MAX_WORKTREES]:
        _protect_worktree(worktree, found)


def _protect_worktree(worktree: Path, found: Mounts) -> None:
    """Leave a worktree's data writable, except for what tells git where settings and hooks are."""
    _protect(worktree / COMMON_DIR, found)
    _protect_file(worktree / WORKTREE_CONFIG, found)


def _protect_file(file: Path, found: Mounts) -> None:
    if _kind(file) is None or is_placeholder(file):
        found.placeholders.append(file)
        found.mount_points.append(file)
        found.mounts.append(Mount(file, "read-only", is_placeholder=True))
    else:
        _protect(file, found)


def is_placeholder(file: Path) -> bool:
    """Return whether a file has only a placeholder's content."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        whole = CONTENTS[file.name].encode()
        return stat.S_ISREG(os.fstat(fd).st_mode) and os.read(fd, len(whole) + 1) == whole
    finally:
        os.close(fd)


def _folders(path: Path) -> list[Path]:
    try:
        return [entry for entry in path.iterdir() if _kind(entry) == stat.S_IFDIR]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _worktree_folder(file: Path) -> Path | None:
    """Return the repository's folder for the worktree whose `.git` is this file.

    Returns None unless that folder names the file as well: otherwise the file could open any folder.
    """
    try:
        worktree = Path(read_text(file, MAX_PATH_BYTES).removeprefix("gitdir:").strip())
        named = Path(read_text(worktree / "gitdir", MAX_PATH_BYTES).strip())
        is_its_own = worktree.is_absolute() and named.resolve() == file.resolve() and worktree == worktree.resolve()
    except (OSError, UnicodeDecodeError, ValueError):
        return None
    return worktree if is_its_own and worktree.parent.name == "worktrees" else None


class HeldMounts:
    """The mount points of one sandbox while it runs: placeholders exist as long as any process needs them.

    If a mount point is renamed or removed on the host, its mount goes too, in every sandbox. So only the last process
    that holds a placeholder removes it, and `replaced` reports everything else. Raises OSError.
    """

    def __init__(self, found: Mounts, owner: tuple[int, int] | None) -> None:
        self._locks: dict[Path, int] = {}
        try:
            for path in found.placeholders:
                self._locks[path] = _locked(path, owner)
            self._identities = {path: _identity(path) for path in found.mount_points}
        except BaseException:
            self.close()
            raise

    def replaced(self) -> Path | None:
        """Return a path that was replaced since the start and so is no longer protected, or None."""
        return next((path for path, identity in self._identities.items() if _identity(path) != identity), None)

    def identities(self) -> tuple[tuple[int, int], ...]:
        """Device and inode of every mount point, in order."""
        return tuple(identity for identity in self._identities.values() if identity is not None)

    def close(self, *, leave: bool = False) -> None:
        """Release the placeholders and remove unused ones; `leave` keeps them for a sandbox that outlasts us.

        A placeholder that is not empty, or is gone, is not ours any more.
        """
        for path, lock in self._locks.items():
            with suppress(OSError):
                if not leave:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove_placeholder(path)
            os.close(lock)
        self._locks.clear()


def _locked(path: Path, owner: tuple[int, int] | None) -> int:
    """Make a placeholder that is not removed as long as the returned descriptor is open."""
    while True:
        _make_placeholder(path)
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_SH)  # an exclusive holder is about to remove it
        status = os.fstat(lock)
        if _identity(path) == (status.st_dev, status.st_ino):
            if owner is not None:
                os.fchown(lock, *owner)
            return lock
        os.close(lock)


def _make_placeholder(path: Path) -> None:
    """Make a placeholder. Raises FileExistsError if something of another kind is there."""
    if (content := CONTENTS.get(path.name)) is None:
        path.mkdir(mode=0o755, exist_ok=True)
        return
    whole = path.with_name(f"{path.name}.{secrets.token_hex(8)}")  # so that git on the host never reads half of it
    made = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.write(made, content.encode())
        _give_name(whole, path)
    finally:
        os.close(made)
        whole.unlink(missing_ok=True)


def _give_name(file: Path, name: Path) -> None:
    """Rename a file without replacing an existing one."""
    try:
        name.hardlink_to(file)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if _kind(name) is None:
            file.rename(name)


def _remove_placeholder(path: Path) -> None:
    if path.name not in CONTENTS or path.is_dir():
        path.rmdir()
    elif is_placeholder(path):
        path.unlink()


def remove_left(placeholders: Iterable[Path]) -> None:
    """Remove placeholders of killed processes, unless another process holds them. Does not raise."""
    for path in placeholders:
        with suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_placeholder(path)
            finally:
                os.close(lock)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _protect(path: Path, found: Mounts) -> None:
    kind = _kind(path)
    if kind == stat.S_IFLNK:
        raise ProtectionError(
            f"{path} is a symbolic link, which cannot be protected. Replace it with the file itself, or remove it from "
            "sandbox.protected_paths"
        )
    found.mount_points.append(path)
    if kind is None or (kind == stat.S_IFDIR and not any(path.iterdir())):
        found.placeholders.append(path)  # also a leftover of a killed process
        found.mounts.append(Mount(path, "empty", is_placeholder=True))
    else:
        found.mounts.append(Mount(path, "read-only"))


def is_missing(path: Path) -> bool:
    """Return whether a path does not exist, or is an empty folder, which means nothing to any program."""
    kind = _kind(path)
    return kind is None or (kind == stat.S_IFDIR and not any(path.iterdir()))


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


_STRICTNESS: dict[Access, int] = {"open": 0, "read-only": 1, "empty": 2, "hidden file": 3, "hidden folder": 3}


@dataclass(frozen=True, slots=True)
class Visibility:
    """What a sandbox sees besides the workspace."""

    readable: tuple[Path, ...] = ()
    """Visible and read-only."""
    hidden: tuple[Path, ...] = ()
    """Hidden, even in the workspace."""
    needed: tuple[Path, ...] = ()
    """Required to start the sandbox, so that no rule hides it."""


def deny(found: Mounts, denials: Denials, workspace: Path, visibility: Visibility) -> None:
    """Add the mounts that enforce deny rules. Blocks briefly."""
    writable = [workspace, *found.writable]
    readable, needed = [*writable, *visibility.readable], (workspace, *visibility.needed)
    hidden = [*_visible(denials.unreadable, readable, visibility, needed)]
    read_only = [*_visible(denials.unwritable, writable, visibility, ())]
    if not hidden and not read_only:
        return
    merged = {mount.path: mount for mount in found.mounts}
    for path in read_only:
        _merge(merged, Mount(path, "read-only"))
    for path in hidden:
        _merge(merged, Mount(path, "hidden folder" if path.is_dir() else "hidden file"))
    for path in (*read_only, *hidden):  # a parent folder could be renamed and replaced
        for top in writable:
            for above in path.parents:
                if above.is_relative_to(top) and above != top:
                    _merge(merged, Mount(above, "open"))
    found.mounts = [mount for path, mount in sorted(merged.items()) if not _is_covered(mount, merged)]
    kept = {mount.path for mount in found.mounts}
    found.placeholders = [path for path in found.placeholders if path in kept]
    found.mount_points = [*dict.fromkeys([*(path for path in found.mount_points if path in kept), *sorted(kept)])]


def _visible(
    denied: Iterable[str], roots: Sequence[Path], visibility: Visibility, needed: Sequence[Path]
) -> Iterable[Path]:
    """Yield the denied paths that the sandbox would see and does not need."""
    for path in map(Path, denied):
        candidates = [path] if any(path.is_relative_to(root) for root in roots) else []
        candidates += [root for root in roots if root.is_relative_to(path) and root != path]
        for candidate in candidates:
            is_hidden = any(candidate.is_relative_to(folder) for folder in visibility.hidden)
            if not is_hidden and not any(need.is_relative_to(candidate) for need in needed):
                yield candidate


def _merge(merged: dict[Path, Mount], mount: Mount) -> None:
    known = merged.get(mount.path)
    if known is None or _STRICTNESS[known.access] < _STRICTNESS[mount.access]:
        merged[mount.path] = mount


def _is_covered(mount: Mount, merged: dict[Path, Mount]) -> bool:
    """Return whether a parent folder hides this mount, or is read-only so that this one must not be open."""
    above = [merged[path].access for path in mount.path.parents if path in merged]
    return "hidden folder" in above or (mount.access == "open" and any(access != "open" for access in above))
