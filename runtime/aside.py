"""Moves files aside that appeared under a protected name while a sandbox ran, and puts them back when the user says so.

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
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from core.errors import UsageError
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
