"""Paths of a workspace that programs of the user's carry out by themselves, later and outside the sandbox.

A hook, an editor's task, a shell's start file: what a sandbox could write there would run with the user's rights. So
they are read-only in it, also those that do not exist yet. A path that does not exist gets a placeholder to mount on:
an empty folder, which git does not see and which can be taken away again without a risk to anything.
"""

from __future__ import annotations

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
    opened: list[Path] = field(default_factory=list)
    """Folders beside the workspace that its git needs, writable but for what is protected in them."""


def mounts(workspace: Path, names: Iterable[str]) -> Mounts:
    """What makes these paths read-only, and those of git.

    Reads the workspace, changes nothing. Raises ProtectionError for a symbolic link, on which nothing can be mounted.
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
    return found


def _protect_repository(git: Path, found: Mounts) -> None:
    """Leave a repository's folder writable, but for what git carries out."""
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


def make(placeholders: Iterable[Path], owner: tuple[int, int] | None) -> None:
    """Make the placeholders. Raises OSError."""
    for path in placeholders:
        path.mkdir(mode=0o755, exist_ok=True)
        if owner is not None:
            os.chown(path, *owner, follow_symlinks=False)


def remove(placeholders: Iterable[Path]) -> None:
    """Take the placeholders away; one that is not empty, or gone, is not ours any more."""
    for path in placeholders:
        with suppress(OSError):
            path.rmdir()


def _protect(path: Path, found: Mounts) -> None:
    kind = _kind(path)
    if kind == stat.S_IFLNK:
        raise ProtectionError(
            f"{path} is a symbolic link, which cannot be protected. Put the file itself there, or take the name out of "
            "sandbox.protected_paths"
        )
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
