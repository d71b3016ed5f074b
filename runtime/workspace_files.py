"""Reads and writes the files of a workspace by descriptor, never through a symbolic link.

Programs in the workspace can put a link in the way at any moment. So each folder on a path is opened from its parent
and must be a folder; a link is read and written as a link. Invariant: only files of the workspace are read and written.
Writing has two phases: all new files are staged in a folder in the workspace and then moved into place one by one, and
can be moved back until the last one. Blocks. Used by `checkpoints`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from core.errors import CheckpointError

LINK, PROGRAM, FILE = 0o120000, 0o100755, 0o100644
"""git's file modes."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class UnreadableError(Exception):
    """An existing file that cannot be stored; the text says why."""


class WorkspaceFiles:
    """The files below a folder, which is open until the context is left. Raises OSError if it cannot be opened."""

    def __init__(self, folder: str) -> None:
        self._root = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._root)

    def read(self, path: str, max_bytes: int) -> tuple[int, bytes] | None:
        """Return the mode and content of a file or link; None if there is none.

        Raises UnreadableError for a file that is not regular, too large or not readable.
        """
        try:
            with self.folder_of(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    return None
                if stat.S_ISLNK(found.st_mode):
                    return LINK, os.fsencode(os.readlink(name, dir_fd=folder))
                if not stat.S_ISREG(found.st_mode):  # opening a device can have side effects
                    raise UnreadableError("not a regular file")
                return _content(folder, name, max_bytes)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise UnreadableError((error.strerror or str(error)).lower()) from error

    def size(self, path: str) -> int:
        """Return the size of a file; 0 if there is none."""
        with suppress(OSError), self.folder_of(path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            return found.st_size if stat.S_ISREG(found.st_mode) else 0
        return 0

    @contextmanager
    def moving(self, stage: str, aside: str) -> Iterator[Moving]:
        """Write files, all or none: unless `is_final` is set at the end, everything is undone.

        `stage` is the name of the staging folder, `aside` the suffix for files that are in the way. Raises OSError, and
        CheckpointError if the undo fails.
        """
        os.mkdir(stage, 0o700, dir_fd=self._root)
        moving = Moving(self, stage, aside)
        try:
            yield moving
        finally:
            try:
                if not moving.is_final:
                    moving.undo()
            except OSError as error:
                raise CheckpointError(
                    f"The restore stopped halfway and could not be undone ({error.strerror or error}). "
                    "Restore the checkpoint that was taken before it."
                ) from error
            finally:
                self.clear(stage)

    def clear(self, stage: str) -> None:
        """Remove a staging folder with its files. Does not raise."""
        with suppress(OSError), self.folder_of(f"{stage}/x") as (folder, _):
            for name in _names(folder):
                os.unlink(name, dir_fd=folder)
        with suppress(OSError):
            os.rmdir(stage, dir_fd=self._root)

    def stages(self, prefix: str) -> list[str]:
        """Return the staging folders of killed processes. Raises OSError."""
        return [name for name in _names(self._root) if name.startswith(prefix)]

    def is_empty(self) -> bool:
        """Return whether the folder is empty. Raises OSError."""
        return not _names(self._root)

    @contextmanager
    def folder_of(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the parent folder of a path and yield it with the name; `make` makes missing folders. Raises OSError."""
        *above, name = path.split("/")
        if not name or {name, *above} & {"", ".", ".."}:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        folder = os.dup(self._root)
        try:
            for part in above:
                try:
                    following = os.open(part, _FOLDER, dir_fd=folder)
                except FileNotFoundError:
                    if not make:
                        raise
                    following = _make_folder(folder, part)
                os.close(folder)
                folder = following
            yield folder, name
        finally:
            os.close(folder)


class Moving:
    """Files being moved into a workspace by `WorkspaceFiles.moving`; none is in place before all are staged.

    Not flushed to the disk, which would take a millisecond for each file: after a power failure the store still has
    them.
    """

    def __init__(self, files: WorkspaceFiles, stage: str, aside: str) -> None:
        self._files = files
        self._stage = stage
        self._aside = aside
        self._undo_steps: list[Callable[[], None]] = []
        self.renamed: list[str] = []
        """Files that were in the way, by their new path."""
        self.is_final = False
        """Set by the caller when the changes are final."""

    def put(self, number: int, mode: int, content: bytes) -> None:
        """Stage a new file under a number. Raises OSError."""
        with self._files.folder_of(f"{self._stage}/{number}") as (folder, name):
            if mode == LINK:
                os.symlink(content, name, dir_fd=folder)
                return
            with open(os.open(name, _NEW, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)

    def remove(self, path: str) -> None:
        """Remove a file or link and folders that become empty; a missing one is ignored. Raises OSError."""
        old = f"{self._stage}/old-{len(self._undo_steps)}"
        try:
            self._rename(path, old)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return
        self._undo_steps.append(lambda: self._rename(old, path))
        while "/" in path:
            path = path.rpartition("/")[0]
            try:
                with self._files.folder_of(path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:  # it has other files
                return

    def place(self, number: int, path: str, mode: int, *, is_known: bool) -> None:
        """Move a staged file into place; missing folders are made. Raises OSError.

        An existing file is replaced atomically if `is_known`, else it is renamed.
        """
        for above in _parents(path):
            self._move_obstacle(above, for_folder=True)
        if not is_known:
            self._move_obstacle(path)
        old, waiting = f"{self._stage}/old-{len(self._undo_steps)}", f"{self._stage}/{number}"
        with self._files.folder_of(path, make=True) as (folder, name):
            there = _status(folder, name)
            if there is not None and stat.S_ISDIR(there.st_mode):
                self._move_obstacle(path)
                there = None
            with self._files.folder_of(old) as (stage, kept):
                if mode != LINK:
                    _copy_permissions(there, os.fstat(folder), mode, str(number), stage)
                if there is not None:
                    os.link(name, kept, src_dir_fd=folder, dst_dir_fd=stage, follow_symlinks=False)
                os.replace(str(number), name, src_dir_fd=stage, dst_dir_fd=folder)
        self._undo_steps.append(lambda: self._rename(*((old, path) if there is not None else (path, waiting))))

    def undo(self) -> None:
        """Undo everything. Raises OSError if that fails."""
        while self._undo_steps:
            self._undo_steps.pop()()

    def _move_obstacle(self, path: str, *, for_folder: bool = False) -> None:
        """Rename what is in the way; with `for_folder`, unless it is a folder."""
        with suppress(FileNotFoundError), self._files.folder_of(path) as (folder, name):
            there = _status(folder, name)
            if there is None or (for_folder and stat.S_ISDIR(there.st_mode)):
                return
            os.rename(name, name + self._aside, src_dir_fd=folder, dst_dir_fd=folder)
            self.renamed.append(path + self._aside)
            self._undo_steps.append(lambda: self._rename(path + self._aside, path))

    def _rename(self, one: str, other: str) -> None:
        with self._files.folder_of(one) as (source, old), self._files.folder_of(other, make=True) as (target, new):
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)


def _parents(path: str) -> list[str]:
    """Return the parent folders of a path, top first."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _names(folder: int) -> list[str]:
    """List a folder that was opened only for traversal."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _content(folder: int, name: str, max_bytes: int) -> tuple[int, bytes]:
    with open(os.open(name, _READ, dir_fd=folder), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableError("not a regular file")
        if found.st_size > max_bytes or len(data := file.read(max_bytes + 1)) > max_bytes:
            raise UnreadableError(f"larger than {max_bytes // 1024 // 1024} MB")
        return (PROGRAM if found.st_mode & stat.S_IXUSR else FILE), data


def _make_folder(folder: int, name: str) -> int:
    above = os.fstat(folder)
    os.mkdir(name, 0o777, dir_fd=folder)
    made = os.open(name, _FOLDER, dir_fd=folder)
    if os.geteuid() == 0:
        os.chown(name, above.st_uid, above.st_gid, dir_fd=folder, follow_symlinks=False)
    return made


def _copy_permissions(old: os.stat_result | None, above: os.stat_result, mode: int, new: str, waiting: int) -> None:
    """Give a new file the permissions of the one it replaces, else those of a new file of the folder's owner."""
    if old is not None and stat.S_ISREG(old.st_mode):
        bits = stat.S_IMODE(old.st_mode) & 0o777
        bits = bits | (bits & 0o444) >> 2 if mode == PROGRAM else bits & ~0o111
    else:
        old, bits = above, (0o777 if mode == PROGRAM else 0o666) & ~_umask()
    fd = os.open(new, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=waiting)
    try:
        if os.geteuid() == 0:
            os.fchown(fd, old.st_uid, old.st_gid)
        os.fchmod(fd, bits)
    finally:
        os.close(fd)


def _umask() -> int:
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
    return 0o022
