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
_GIT_FILES = ("config", "config.worktree")
_GIT_FOLDERS = ("hooks", "modules")


class ProtectionError(Exception):
    """A path that cannot be protected; the text says which and what to do."""


def mounts(workspace: Path, names: Iterable[str]) -> tuple[list[str], list[Path]]:
    """Bubblewrap's arguments that make these paths read-only, and the placeholders that have to be there first.

    Reads the workspace, changes nothing. Raises ProtectionError for a symbolic link, on which nothing can be mounted.
    """
    arguments: list[str] = []
    placeholders: list[Path] = []
    for path in (workspace / name for name in names):
        _protect(path, arguments, placeholders)
    git = workspace / ".git"
    if _kind(git) == stat.S_IFDIR:
        arguments += ["--bind", str(git), str(git)]  # a mount cannot be renamed, and what is in it goes with it
        for name in _GIT_FILES:
            if _kind(git / name) or name == "config.worktree":
                _protect(git / name, arguments, placeholders)
        for name in _GIT_FOLDERS:
            _protect(git / name, arguments, placeholders)
    elif _kind(git):
        _protect(git, arguments, placeholders)
    return arguments, placeholders


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


def _protect(path: Path, arguments: list[str], placeholders: list[Path]) -> None:
    kind = _kind(path)
    if kind == stat.S_IFLNK:
        raise ProtectionError(
            f"{path} is a symbolic link, which cannot be protected. Put the file itself there, or take the name out of "
            "sandbox.protected_paths"
        )
    if kind is None or (kind == stat.S_IFDIR and not any(path.iterdir())):
        placeholders.append(path)  # also one that a process that was killed left behind
        arguments += ["--size", "4096", "--perms", "0555", "--tmpfs", str(path), "--remount-ro", str(path)]
    else:
        arguments += ["--ro-bind", str(path), str(path)]


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
