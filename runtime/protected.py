"""Paths of a workspace that programs of the user's carry out by themselves, later and outside the sandbox.

A hook, an editor's task, a shell's start file: what a sandbox could write there would run with the user's rights. So
they are read-only in it, also those that do not exist yet. A path that does not exist gets a placeholder to mount on:
an empty folder, which git does not see and which can be taken away again without a risk to anything.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PROTECTED = (
    ".claude",
    ".cursor",
    ".devcontainer",
    ".dir-locals.el",
    ".envrc",
    ".exrc",
    ".githooks",
    ".handloom",
    ".husky",
    ".idea",
    ".lvimrc",
    ".mcp.json",
    ".nvim.lua",
    ".nvimrc",
    ".vscode",
    ".zed",
)
"""Relative to the workspace."""
MAX_PATH_CHARS = 4096
_GIT_FILES = ("config", "config.worktree")
_GIT_FOLDERS = ("hooks", "modules")


class ProtectionError(Exception):
    """A path that cannot be protected; the text says which and what to do."""


@dataclass
class Mounts:
    """What protects a workspace."""

    arguments: list[str] = field(default_factory=list)
    """Bubblewrap's, in order."""
    placeholders: list[Path] = field(default_factory=list)
    """What has to be there first."""
    guarded: list[Path] = field(default_factory=list)
    """Every mount point."""
    opened: list[Path] = field(default_factory=list)
    """Folders beside the workspace that its git needs, writable but for what is protected in them."""


def mounts(workspace: Path, names: Iterable[str], nested: Iterable[str] = ()) -> Mounts:
    """What makes these paths read-only, and those of git; in `nested`, what is protected that `survey` found deeper.

    Reads the workspace, changes nothing. Raises ProtectionError for a symbolic link, on which nothing can be mounted;
    one that is nested is passed over.
    """
    found = Mounts()
    for path in (workspace / name for name in names):
        _protect(path, found)
    git = workspace / ".git"
    if _kind(git) == stat.S_IFDIR:
        _protect_repository(git, found)
    elif _kind(git):
        _protect(git, found)
        if (worktree := _worktree_of(git)) is not None:
            common = worktree.parent.parent
            found.opened.append(common)
            _protect_repository(common, found)
            _protect(worktree / "config.worktree", found)
    for path in (workspace / name for name in nested):
        with suppress(ProtectionError, OSError):
            (_protect_repository if path.name == ".git" else _protect)(path, found)
    return found


def _protect_repository(git: Path, found: Mounts) -> None:
    """Leave a repository's folder writable, but for what git carries out."""
    found.guarded.append(git)
    found.arguments += ["--bind", str(git), str(git)]  # a mount cannot be renamed, and what is in it goes with it
    for name in _GIT_FILES:
        if _kind(git / name) or name == "config.worktree":
            _protect(git / name, found)
    for name in _GIT_FOLDERS:
        _protect(git / name, found)


def _worktree_of(file: Path) -> Path | None:
    """The folder in which a repository keeps what it knows of the worktree whose `.git` is this file.

    None where that folder does not name the file in its turn: whoever wrote the file may have wanted any folder open.
    """
    try:
        worktree = Path(file.read_text("utf-8")[:MAX_PATH_CHARS].removeprefix("gitdir:").strip())
        named = Path((worktree / "gitdir").read_text("utf-8")[:MAX_PATH_CHARS].strip())
        is_its_own = worktree.is_absolute() and named.resolve() == file.resolve() and worktree == worktree.resolve()
    except (OSError, UnicodeDecodeError, ValueError):
        return None
    return worktree if is_its_own and worktree.parent.name == "worktrees" else None


class Held:
    """The mount points of one sandbox while it lives: placeholders are there, and stay as long as anybody needs them.

    A folder or file that is renamed or removed on the host takes its mount along, in every sandbox. So a placeholder is
    removed only by the last of all processes that hold it, and `replaced` tells of everything else. Raises OSError.
    """

    def __init__(self, found: Mounts, owner: tuple[int, int] | None) -> None:
        self._locks: dict[Path, int] = {}
        try:
            for path in found.placeholders:
                self._locks[path] = _locked(path, owner)
            self._identities = {path: _identity(path) for path in found.guarded}
        except BaseException:
            self.close()
            raise

    def replaced(self) -> Path | None:
        """One that is not what it was when the sandbox was started, and so is not protected in it any more."""
        return next((path for path, identity in self._identities.items() if _identity(path) != identity), None)

    def close(self) -> None:
        """Let go of the placeholders. One that is not empty, or gone, is not ours any more."""
        for path, lock in self._locks.items():
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.rmdir()
            os.close(lock)
        self._locks.clear()


def _locked(path: Path, owner: tuple[int, int] | None) -> int:
    """A placeholder that nobody removes as long as the answer, a descriptor, is open."""
    while True:
        path.mkdir(mode=0o755, exist_ok=True)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_SH)  # whoever holds it alone is about to remove it
        status = os.fstat(lock)
        if _identity(path) == (status.st_dev, status.st_ino):
            if owner is not None:
                os.fchown(lock, *owner)
            return lock
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
            f"{path} is a symbolic link, which cannot be protected. Put the file itself there, or take the name out of "
            "sandbox.protected_paths"
        )
    found.guarded.append(path)
    if kind is None or (kind == stat.S_IFDIR and not any(path.iterdir())):
        found.placeholders.append(path)  # also one that a process that was killed left behind
        found.arguments += ["--size", "4096", "--perms", "0555", "--tmpfs", str(path), "--remount-ro", str(path)]
    else:
        found.arguments += ["--ro-bind", str(path), str(path)]


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
