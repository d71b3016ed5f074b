"""Keeps a sandbox from leaving files in the workspace that the user's own programs would run, or reports them.

It works the same for every sandbox that mounts the workspace: it audits before each start, returns the read-only
mounts, holds their mount points until the end, and moves aside files that appear under a protected name.

A missing name cannot be mounted read-only without creating it on the host. So whatever appears under such a name is
renamed to `NAME.from-sandbox` when a command ends, where no program of the user looks for it. Until then it is there:
see docs/sandbox.md. Every step goes from descriptor to descriptor and follows no link. All calls block for
milliseconds.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from core.errors import UsageError
from core.sandbox_types import Denials
from runtime.isolation.git_config import MAX_TARGETS
from runtime.isolation.protected_paths import HeldMounts, Mounts, Visibility, deny, protecting_mounts
from runtime.isolation.submodules import Submodules
from runtime.isolation.workspace_audit import Baseline, protected_nested_paths
from runtime.workspace_files import WorkspaceFiles

SUFFIX = ".from-sandbox"
MAX_KEPT = 99
"""Files of one name that are moved aside with a number; further ones get random names."""
LEFT_OUT = "{n} files that settings and hooks of git point at are not read-only in the sandbox: only {most} are."
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def move_aside(workspace: Path, names: Iterable[str]) -> list[str]:
    """Rename what exists under these names; return a line for each, with the new name and how to restore it."""
    lines: list[str] = []
    with suppress(OSError), WorkspaceFiles(str(workspace)) as files:  # it may be gone
        for name in names:
            shown = name if name.isprintable() else ascii(name)
            try:
                moved = _rename_aside(files, name)
                lines.append(f"{shown}: moved to {moved}; programs outside would run it. /restore {shown} undoes it")
            except OSError as error:
                if error.errno not in _GONE:
                    lines.append(f"{shown}: could not be moved ({error.strerror}). Check it: programs may run it")
    return lines


def _rename_aside(files: WorkspaceFiles, name: str) -> str:
    """Rename one file. Raises OSError, FileNotFoundError if it does not exist."""
    with files.folder_of(name) as (folder, last):
        os.stat(last, dir_fd=folder, follow_symlinks=False)
        for number in range(1, MAX_KEPT + 1):
            new = f"{last}{SUFFIX}" + (f".{number}" if number > 1 else "")
            if not _exists(folder, new):
                break
        else:  # so many files may be an attack with folders, which a rename cannot replace
            new = f"{last}{SUFFIX}.{secrets.token_hex(4)}"
        try:
            os.rename(last, new, src_dir_fd=folder, dst_dir_fd=folder)
        except PermissionError:  # the sandbox may have made the folder read-only
            os.chmod(".", stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU, dir_fd=folder)
            os.rename(last, new, src_dir_fd=folder, dst_dir_fd=folder)
        return name.removesuffix(last) + new


def put_back(workspace: Path, names: Iterable[str], wanted: str) -> str:
    """Restore a file that was moved aside and return its name. Without `wanted`, the only one.

    Raises UsageError, which lists the files.
    """
    with suppress(OSError), WorkspaceFiles(str(workspace)) as files:
        moved = [name for name in names if _has(files, name + SUFFIX)]
        name = wanted.removesuffix(SUFFIX) or (moved[0] if len(moved) == 1 else "")
        if name not in moved:
            choices = f"There are: {', '.join(moved)}." if moved else f"Nothing ends in {SUFFIX}."
            raise UsageError(f"Name the file to restore. {choices}")
        with files.folder_of(name) as (folder, last):
            if _exists(folder, last):
                raise UsageError(f"{name} exists. Move it away first.")
            os.rename(last + SUFFIX, last, src_dir_fd=folder, dst_dir_fd=folder)
        return name
    raise UsageError(f"{wanted or workspace} cannot be restored. Check whether it still exists.")


def remove_empty(workspace: Path, names: Iterable[str]) -> None:
    """Remove the empty folders under these names, which a killed session left."""
    with suppress(OSError), WorkspaceFiles(str(workspace)) as files:
        for name in names:
            with suppress(OSError), files.folder_of(name) as (folder, last):
                os.rmdir(last, dir_fd=folder)


def _has(files: WorkspaceFiles, name: str) -> bool:
    with suppress(OSError), files.folder_of(name) as (folder, last):
        return _exists(folder, last)
    return False


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return True


class WorkspaceGuard:
    """The guard of one workspace. `names` are the protected paths, relative to it."""

    def __init__(self, workspace: Path, names: tuple[str, ...]) -> None:
        self._workspace = workspace
        self._names = names
        self.is_active = True
        """Whether the sandbox is isolated; otherwise nothing is moved aside or reported."""
        self.denied: Callable[[], Denials] = Denials
        """Returns the user's current deny rules."""
        self.denials = Denials()
        """The deny rules at the last start."""
        self.baseline_file: Path | None = None
        """The file, hidden from the sandbox, in which the baseline is stored."""
        self._baseline: Baseline | None = None
        self._held_mounts: HeldMounts | None = None
        self._watched: tuple[str, ...] = ()
        self._left_out = 0
        self._submodules: Submodules | None = None
        self._restored: set[str] = set()
        self._moved: list[str] = []
        """A line for each file that was moved aside."""

    def audit(self) -> None:
        """Audit the workspace before a start; the first audit is the baseline. Raises OSError."""
        before = self._baseline.before if self._baseline is not None else None
        self._baseline = Baseline(self._workspace, self._names, self.baseline_file, before)
        self._submodules = Submodules(self._workspace, self._baseline.before)
        self.denials = self.denied()

    def mounts(self, visibility: Visibility) -> Mounts:
        """Return the mounts for the workspace, nested paths and deny rules.

        Raises ProtectionError, OSError.
        """
        nested = protected_nested_paths(self._baseline.first.paths) if self._baseline else ()
        result = protecting_mounts(self._workspace, self._names, nested)
        deny(result, self.denials, self._workspace, visibility)
        return result

    def hold(self, mounts: Mounts, owner: tuple[int, int] | None) -> None:
        """Make and hold the mount points until `release`; `owner` gets new ones. Raises OSError."""
        self.release()
        remove_empty(self._workspace, mounts.watched)
        self._watched = tuple(mounts.watched)
        self._left_out = mounts.left_out
        self._held_mounts = HeldMounts(mounts, owner)

    def identities(self) -> tuple[tuple[int, int], ...]:
        """Return device and inode of the mount points held."""
        return self._held_mounts.identities() if self._held_mounts is not None else ()

    def move_aside(self) -> list[str]:
        """Rename what appeared under a protected name since `hold`, and hostile submodules; return a line for each."""
        if not self.is_active:
            return []
        hostile = (
            [path for path in self._submodules.hostile() if path not in self._restored] if self._submodules else []
        )
        self._watched = tuple(dict.fromkeys([*self._watched, *hostile]))
        moved = move_aside(self._workspace, self._watched)
        self._moved = list(dict.fromkeys([*self._moved, *moved]))
        return moved

    def put_back(self, name: str) -> str:
        """Restore one file. It is read-only from the next start on, so end the sandbox. Raises UsageError."""
        restored = put_back(self._workspace, dict.fromkeys([*self._names, *self._watched]), name)
        self._watched = tuple(watched for watched in self._watched if watched != restored)
        self._restored.add(restored)
        return restored

    def release(self, *, leave: bool = False) -> None:
        """Release the mount points after the sandbox has ended. May be called twice.

        `leave` keeps them for a sandbox that outlasts us.
        """
        self.move_aside()
        if not leave:
            self._watched = ()
        held, self._held_mounts = self._held_mounts, None
        if held is not None:
            held.close(leave=leave)

    def broken_protection(self) -> str:
        """Return which protection was broken since `hold`, for the user, or an empty string."""
        replaced = self._held_mounts.replaced() if self._held_mounts is not None else None
        return "" if replaced is None else f"{replaced} was replaced on this machine, so it is no longer protected"

    def left_behind(self) -> list[str]:
        """Return what was moved aside, and new files that the host would run."""
        if not self.is_active:
            return []
        if self._baseline is None and self.baseline_file is not None and self.baseline_file.exists():
            self.audit()
        self.move_aside()
        found = self._baseline.new() if self._baseline is not None else []
        if self._left_out:
            found.append(LEFT_OUT.format(n=self._left_out, most=MAX_TARGETS))
        return [*self._moved, *found]
