"""Keeps a sandbox from leaving something in the workspace that the user's own programs would run, or reports it.

The same for every sandbox that mounts the workspace. A guard looks before each start, gives the mounts that make paths
read-only, holds their mount points until the end, and moves aside what appears under a protected name that did not
exist. All calls block for milliseconds.

Moves files aside that appeared under a protected name while a sandbox ran, and puts them back when the user says so.

A name that does not exist cannot be mounted read-only without making it on the host. So whatever appears under such a
name is renamed to `NAME.from-sandbox` as soon as a command ends, where no program of the user looks for it. Between its
appearance and the end of the command it is there: see docs/sandbox.md. Every step goes from descriptor to descriptor,
so a link in the workspace leads nowhere. All calls block for less than a millisecond.
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
from runtime.isolation.denied_mounts import Sight, deny
from runtime.isolation.git_config import MAX_TARGETS
from runtime.isolation.protected_paths import Held, Mounts, mounts
from runtime.isolation.workspace_audit import Baseline, nested_places
from runtime.workspace_files import WorkspaceFiles

SUFFIX = ".from-sandbox"
MAX_KEPT = 99
"""Files of one name that are moved aside with a number; the names of further ones are random."""
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def move_aside(workspace: Path, names: Iterable[str]) -> list[str]:
    """Rename what is there under these names; a line for each, which says the new name and how to put it back."""
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
                    lines.append(f"{shown}: could not be moved ({error.strerror}). Look at it: programs may run it")
    finally:
        files.close()
    return lines


def _moved(files: WorkspaceFiles, name: str) -> str:
    """Raises OSError, FileNotFoundError where nothing is there."""
    with files.folder_of(name) as (folder, last):
        os.stat(last, dir_fd=folder, follow_symlinks=False)
        for number in range(1, MAX_KEPT + 1):
            new = f"{last}{SUFFIX}" + (f".{number}" if number > 1 else "")
            if not _is_there(folder, new):
                break
        else:  # whoever made so many may have made folders, which nothing replaces
            new = f"{last}{SUFFIX}.{secrets.token_hex(4)}"
        try:
            os.rename(last, new, src_dir_fd=folder, dst_dir_fd=folder)
        except PermissionError:  # the sandbox may have taken the right to write from the folder
            os.chmod(".", stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU, dir_fd=folder)
            os.rename(last, new, src_dir_fd=folder, dst_dir_fd=folder)
        return name.removesuffix(last) + new


def put_back(workspace: Path, names: Iterable[str], wanted: str) -> str:
    """Give a file that was moved aside its name again; the answer is that name. Without `wanted`, the only one.

    Raises UsageError, which says what there is.
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
    raise UsageError(f"{wanted or workspace} cannot be restored. Look whether it is still there.")


def remove_empty(workspace: Path, names: Iterable[str]) -> None:
    """Remove the empty folders under these names, which a session that was killed left behind."""
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
    """Of one workspace. `names` are the protected paths, relative to it."""

    def __init__(self, workspace: Path, names: tuple[str, ...]) -> None:
        self._workspace = workspace
        self._names = names
        self.denied: Callable[[], Denials] = Denials
        """What the rules of the user deny now."""
        self.denials = Denials()
        """The same as of the last look."""
        self.kept: Path | None = None
        """A file out of the sandbox's sight, in which what there was at first outlasts the program."""
        self._baseline: Baseline | None = None
        self._held: Held | None = None
        self._watched: tuple[str, ...] = ()
        self._left_out = 0
        self._moved: list[str] = []
        """What was moved aside since the guard was made, a line each."""

    def look(self) -> None:
        """Look what there is before a start; what there was before the first one counts. Raises OSError."""
        before = self._baseline.before if self._baseline is not None else None
        self._baseline = Baseline(self._workspace, self._names, self.kept, before)
        self.denials = self.denied()

    def mounts(self, sight: Sight) -> Mounts:
        """What is to be mounted, also of what the last look found deeper, and what enforces denials.

        Raises ProtectionError, OSError.
        """
        nested = nested_places(self._baseline.first.places) if self._baseline else ()
        found = mounts(self._workspace, self._names, nested)
        deny(found, self.denials, self._workspace, sight)
        return found

    def hold(self, found: Mounts, owner: tuple[int, int] | None) -> None:
        """Have the mount points be there until `release`; `owner` gets those that are made. Raises OSError."""
        self.release()
        remove_empty(self._workspace, found.watched)
        self._watched = tuple(found.watched)
        self._left_out = found.left_out
        self._held = Held(found, owner)

    def identities(self) -> tuple[tuple[int, int], ...]:
        """What the mount points are, device and number of each, since `hold`."""
        return self._held.identities() if self._held is not None else ()

    @property
    def placeholders(self) -> list[Path]:
        """What was made in git's own folder to be mounted on, since `hold`."""
        return self._held.placeholders if self._held is not None else []

    def move_aside(self) -> list[str]:
        """Rename what appeared under a protected name since `hold`; a line for each."""
        moved = move_aside(self._workspace, self._watched)
        self._moved = list(dict.fromkeys([*self._moved, *moved]))
        return moved

    def put_back(self, name: str) -> str:
        """Undo that for one file, which is read-only from the next start on: end the sandbox. Raises UsageError."""
        restored = put_back(self._workspace, dict.fromkeys([*self._names, *self._watched]), name)
        self._watched = tuple(watched for watched in self._watched if watched != restored)
        return restored

    def release(self, *, leave: bool = False) -> None:
        """Let go of the mount points; `leave` has them stay for a sandbox that outlasts us. May be called twice.

        The sandbox has ended, unless it is to outlast us.
        """
        self.move_aside()
        if not leave:
            self._watched = ()
        held, self._held = self._held, None
        if held is not None:
            held.close(leave=leave)

    def fallen(self) -> str:
        """Which protection fell since `hold`, for the user; empty where all holds."""
        replaced = self._held.replaced() if self._held is not None else None
        return "" if replaced is None else f"{replaced} was replaced on this machine, so it is not protected any more"

    def left_behind(self) -> list[str]:
        """What is there now, and was not when the conversation began, that the host would run; what was moved first."""
        if self._baseline is None and self.kept is not None and self.kept.exists():
            self.look()
        self.move_aside()
        found = self._baseline.new() if self._baseline is not None else []
        if self._left_out:
            found.append(LEFT_OUT.format(n=self._left_out, most=MAX_TARGETS))
        return [*self._moved, *found]
