"""The files of a workspace, read and written from descriptor to descriptor, and never through a symbolic link.

Whoever works in the workspace may put a link into the way at any moment, also between two of our steps. So each folder
on a path is opened from the one above it and has to be a folder; a link is read and written as a link. Invariant: what
is read lies in the workspace, and so does what is written. Writing has two halves: everything waits in a folder in the
workspace, and is then moved into its place, file by file, with the way back kept until the last one. Blocks. Used by
`checkpoints`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from core.errors import CheckpointError

LINK, PROGRAM, FILE = 0o120000, 0o100755, 0o100644
"""The modes that git knows of."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class UnreadableError(Exception):
    """A file that is there and cannot be kept; the text says why."""


class WorkspaceFiles:
    """The files below a folder, which is held open. Raises OSError where it cannot be; `close` it."""

    def __init__(self, folder: str) -> None:
        self._root = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._root)

    def read(self, path: str, max_bytes: int) -> tuple[int, bytes] | None:
        """The mode and the content of a file or link; None where there is none.

        Raises UnreadableError for what is no file, is too large, or may not be read.
        """
        try:
            with self.folder_of(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    return None
                if stat.S_ISLNK(found.st_mode):
                    return LINK, os.fsencode(os.readlink(name, dir_fd=folder))
                if not stat.S_ISREG(found.st_mode):  # opening a device can do something
                    raise UnreadableError("no regular file")
                return _content(folder, name, max_bytes)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise UnreadableError((error.strerror or str(error)).lower()) from error

    def size(self, path: str) -> int:
        """The bytes of a file; 0 where there is none."""
        with suppress(OSError), self.folder_of(path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            return found.st_size if stat.S_ISREG(found.st_mode) else 0
        return 0

    @contextmanager
    def moving(self, stage: str, aside: str) -> Iterator[Moving]:
        """Write files, all or none: unless it is whole in the end, everything is taken back.

        `stage` is the name of a folder in which they wait, `aside` the ending that is given to what is in the way.
        Raises OSError, and CheckpointError where that cannot be done.
        """
        os.mkdir(stage, 0o700, dir_fd=self._root)
        moving = Moving(self, stage, aside)
        try:
            yield moving
        finally:
            try:
                if not moving.is_whole:
                    moving.take_back()
            except OSError as error:
                raise CheckpointError(
                    f"The restore stopped half way and could not be taken back ({error.strerror or error}). "
                    "The checkpoint that was taken before it has everything: restore that one."
                ) from error
            finally:
                self.clear(stage)

    def clear(self, stage: str) -> None:
        """Remove the folder in which files waited, with those that still do. Does not raise."""
        with suppress(OSError), self.folder_of(f"{stage}/x") as (folder, _):
            for name in _names(folder):
                os.unlink(name, dir_fd=folder)
        with suppress(OSError):
            os.rmdir(stage, dir_fd=self._root)

    def stages(self, prefix: str) -> list[str]:
        """The folders in which files waited when somebody was killed. Raises OSError."""
        return [name for name in _names(self._root) if name.startswith(prefix)]

    def is_empty(self) -> bool:
        """Whether nothing is in the folder. Raises OSError."""
        return not _names(self._root)

    @contextmanager
    def folder_of(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that a path ends in, open, and the name there; `make` makes what is missing. Raises OSError."""
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
                    following = _made(folder, part)
                os.close(folder)
                folder = following
            yield folder, name
        finally:
            os.close(folder)


class Moving:
    """Files on their way into a workspace. Made by `WorkspaceFiles.moving`; nothing is in its place before all wait.

    Not flushed to the disk, which takes a millisecond for each: what a power failure takes is still in the store.
    """

    def __init__(self, files: WorkspaceFiles, stage: str, aside: str) -> None:
        self._files = files
        self._stage = stage
        self._aside = aside
        self._back: list[Callable[[], None]] = []
        self.kept: list[str] = []
        """What stood in the way, by its new path."""
        self.is_whole = False
        """Set by the caller once nothing is to be taken back any more."""

    def put(self, number: int, mode: int, content: bytes) -> None:
        """Let a new file wait under a number. Raises OSError."""
        with self._files.folder_of(f"{self._stage}/{number}") as (folder, name):
            if mode == LINK:
                os.symlink(content, name, dir_fd=folder)
                return
            with open(os.open(name, _NEW, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)

    def remove(self, path: str) -> None:
        """Remove a file or link, and the folders that are empty then; one that is gone is removed. Raises OSError."""
        old = f"{self._stage}/old-{len(self._back)}"
        try:
            self._rename(path, old)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return
        self._back.append(lambda: self._rename(old, path))
        while "/" in path:
            path = path.rpartition("/")[0]
            try:
                with self._files.folder_of(path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:  # it has other files
                return

    def place(self, number: int, path: str, mode: int, *, is_known: bool) -> None:
        """Move what waits into its place; missing folders are made. Raises OSError.

        What is there already is replaced in one step where it `is_known`, and else gets another name.
        """
        for above in _above(path):
            self._clear_way(above, for_folder=True)
        if not is_known:
            self._clear_way(path)
        old, waiting = f"{self._stage}/old-{len(self._back)}", f"{self._stage}/{number}"
        with self._files.folder_of(path, make=True) as (folder, name):
            there = _status(folder, name)
            if there is not None and stat.S_ISDIR(there.st_mode):
                self._clear_way(path)
                there = None
            with self._files.folder_of(old) as (stage, kept):
                if mode != LINK:
                    _take_over(there, os.fstat(folder), mode, str(number), stage)
                if there is not None:
                    os.link(name, kept, src_dir_fd=folder, dst_dir_fd=stage, follow_symlinks=False)
                os.replace(str(number), name, src_dir_fd=stage, dst_dir_fd=folder)
        self._back.append(lambda: self._rename(*((old, path) if there is not None else (path, waiting))))

    def take_back(self) -> None:
        """Have everything be as it was. Raises OSError where that cannot be."""
        while self._back:
            self._back.pop()()

    def _clear_way(self, path: str, *, for_folder: bool = False) -> None:
        """Give what is there another name; with `for_folder`, unless it is a folder."""
        with suppress(FileNotFoundError), self._files.folder_of(path) as (folder, name):
            there = _status(folder, name)
            if there is None or (for_folder and stat.S_ISDIR(there.st_mode)):
                return
            os.rename(name, name + self._aside, src_dir_fd=folder, dst_dir_fd=folder)
            self.kept.append(path + self._aside)
            self._back.append(lambda: self._rename(path + self._aside, path))

    def _rename(self, one: str, other: str) -> None:
        with self._files.folder_of(one) as (source, old), self._files.folder_of(other, make=True) as (target, new):
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)


def _above(path: str) -> list[str]:
    """The folders on a path, from the top."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _names(folder: int) -> list[str]:
    """What is in a folder that was opened only to go through it."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _content(folder: int, name: str, max_bytes: int) -> tuple[int, bytes]:
    with open(os.open(name, _READ, dir_fd=folder), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableError("no regular file")
        if found.st_size > max_bytes or len(data := file.read(max_bytes + 1)) > max_bytes:
            raise UnreadableError(f"larger than {max_bytes // 1024 // 1024} MB")
        return (PROGRAM if found.st_mode & stat.S_IXUSR else FILE), data


def _made(folder: int, name: str) -> int:
    above = os.fstat(folder)
    os.mkdir(name, 0o777, dir_fd=folder)
    made = os.open(name, _FOLDER, dir_fd=folder)
    if os.geteuid() == 0:
        os.chown(name, above.st_uid, above.st_gid, dir_fd=folder, follow_symlinks=False)
    return made


def _take_over(old: os.stat_result | None, above: os.stat_result, mode: int, new: str, waiting: int) -> None:
    """Give a new file the rights of the one whose place it takes; else those of a new one of the folder's owner."""
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
