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
from runtime.isolation.protected_paths import HeldMounts, Mounts, Visibility, deny, mounts
from runtime.isolation.workspace_audit import Baseline, nested_places
from runtime.workspace_files import WorkspaceFiles

SUFFIX = ".from-sandbox"
MAX_KEPT = 99
"""Files of one name that are moved aside with a number; further ones get random names."""
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def move_aside(workspace: Path, names: Iterable[str]) -> list[str]:
    """Rename what exists under these names; return a line for each, with the new name and how to restore it."""
    lines = []
    try:
        files = WorkspaceFiles(str(workspace))
    except OSError:
        return []  # the workspace is gone
    try:
        for name in names:
            shown = name if name.isprintable() else ascii(name)
            try:
                moved = _moved(files, name)
                lines.append(f"{shown}: moved to {moved}; programs outside would run it. /restore {shown} undoes it")
            except OSError as error:
                if error.errno not in _GONE:
                    lines.append(f"{shown}: could not be moved ({error.strerror}). Check it: programs may run it")
    finally:
        files.close()
    return lines


def _moved(files: WorkspaceFiles, name: str) -> str:
    """Rename one file. Raises OSError, FileNotFoundError if it does not exist."""
    with files.folder_of(name) as (folder, last):
        os.stat(last, dir_fd=folder, follow_symlinks=False)
        for number in range(1, MAX_KEPT + 1):
            new = f"{last}{SUFFIX}" + (f".{number}" if number > 1 else "")
            if not _is_there(folder, new):
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
    with suppress(OSError):
        files = WorkspaceFiles(str(workspace))
        try:
            kept = [name for name in names if _has(files, name + SUFFIX)]
            name = wanted.removesuffix(SUFFIX) or (kept[0] if len(kept) == 1 else "")
            if name not in kept:
                said = f"There are: {', '.join(kept)}." if kept else f"Nothing ends in {SUFFIX}."
                raise UsageError(f"Name the file to restore. {said}")
            with files.folder_of(name) as (folder, last):
                if _is_there(folder, last):
                    raise UsageError(f"{name} exists. Move it away first.")
                os.rename(last + SUFFIX, last, src_dir_fd=folder, dst_dir_fd=folder)
            return name
        finally:
            files.close()
    raise UsageError(f"{wanted or workspace} cannot be restored. Check whether it still exists.")


def remove_empty(workspace: Path, names: Iterable[str]) -> None:
    """Remove the empty folders under these names, which a killed session left."""
    with suppress(OSError):
        files = WorkspaceFiles(str(workspace))
        try:
            for name in names:
                with suppress(OSError), files.folder_of(name) as (folder, last):
                    os.rmdir(last, dir_fd=folder)
        finally:
            files.close()


def _has(files: WorkspaceFiles, name: str) -> bool:
    with suppress(OSError), files.folder_of(name) as (folder, last):
        return _is_there(folder, last)
    return False


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return True


LEFT_OUT = "{n} files that settings and hooks of git point at are not read-only in the sandbox: only {most} are."


class WorkspaceGuard:
    """The guard of one workspace. `names` are the protected paths, relative to it."""

    def __init__(self, workspace: Path, names: tuple[str, ...]) -> None:
        self._workspace = workspace
        self._names = names
        self.denied: Callable[[], Denials] = Denials
        """Returns the user's current deny rules."""
        self.denials = Denials()
        """The deny rules at the last start."""
        self.kept: Path | None = None
        """The file, hidden from the sandbox, in which the baseline is stored."""
        self._baseline: Baseline | None = None
        self._held: HeldMounts | None = None
        self._watched: tuple[str, ...] = ()
        self._left_out = 0
        self._moved: list[str] = []
        """What was moved aside so far, a line each."""

    def look(self) -> None:
        """Audit the workspace before a start; the first audit is the baseline. Raises OSError."""
        before = self._baseline.before if self._baseline is not None else None
        self._baseline = Baseline(self._workspace, self._names, self.kept, before)
        self.denials = self.denied()

    def mounts(self, sight: Visibility) -> Mounts:
        """Return the mounts for the workspace, nested paths and deny rules.

        Raises ProtectionError, OSError.
        """
        nested = nested_places(self._baseline.first.places) if self._baseline else ()
        found = mounts(self._workspace, self._names, nested)
        deny(found, self.denials, self._workspace, sight)
        return found

    def hold(self, found: Mounts, owner: tuple[int, int] | None) -> None:
        """Make and hold the mount points until `release`; `owner` gets new ones. Raises OSError."""
        self.release()
        remove_empty(self._workspace, found.watched)
        self._watched = tuple(found.watched)
        self._left_out = found.left_out
        self._held = HeldMounts(found, owner)

    def identities(self) -> tuple[tuple[int, int], ...]:
        """Return device and inode of the mount points held."""
        return self._held.identities() if self._held is not None else ()

    @property
    def placeholders(self) -> list[Path]:
        """The placeholders held."""
        return self._held.placeholders if self._held is not None else []

    def move_aside(self) -> list[str]:
        """Rename what appeared under a protected name since `hold`; return a line for each."""
        moved = move_aside(self._workspace, self._watched)
        self._moved = list(dict.fromkeys([*self._moved, *moved]))
        return moved

    def put_back(self, name: str) -> str:
        """Restore one file. It is read-only from the next start on, so end the sandbox. Raises UsageError."""
        restored = put_back(self._workspace, dict.fromkeys([*self._names, *self._watched]), name)
        self._watched = tuple(watched for watched in self._watched if watched != restored)
        return restored

    def release(self, *, leave: bool = False) -> None:
        """Release the mount points after the sandbox has ended. May be called twice.

        `leave` keeps them for a sandbox that outlasts us.
        """
        self.move_aside()
        if not leave:
            self._watched = ()
        held, self._held = self._held, None
        if held is not None:
            held.close(leave=leave)

    def fallen(self) -> str:
        """Return which protection was broken since `hold`, for the user, or an empty string."""
        replaced = self._held.replaced() if self._held is not None else None
        return "" if replaced is None else f"{replaced} was replaced on this machine, so it is no longer protected"

    def left_behind(self) -> list[str]:
        """Return what was moved aside, and new files that the host would run."""
        if self._baseline is None and self.kept is not None and self.kept.exists():
            self.look()
        self.move_aside()
        found = self._baseline.new() if self._baseline is not None else []
        if self._left_out:
            found.append(LEFT_OUT.format(n=self._left_out, most=MAX_TARGETS))
        return [*self._moved, *found]
