"""Resolves paths below the root folders, and never outside of them.

A path becomes a Location: the descriptor of its folder, and a name in it. All work on the file starts from that
descriptor, so a symbolic link put in the way later leads nowhere else. The kernel finds the folder in one step
(`openat2` with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS); otherwise a walk from descriptor to descriptor does, which
follows links, even absolute ones, as long as they stay below a root. `..` in a path is resolved before anything is
opened; in a link's target it is followed. Links and files of procfs and similar file systems are refused. All calls
block; callers use a thread.

`openat2` and `fstatfs` are called through ctypes, because Python does not have them. On other systems, and if the
kernel or a filter refuses them, `openat2` raises OSError, and the walk is used.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
_OPENAT2 = 437
"""The number on every architecture that Python runs on except Alpha."""
_STATFS_BYTES = 256
"""More than the size of `struct statfs` on any architecture."""

_KERNEL_INTERFACES = {
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x73636673: "securityfs",
    0x62656570: "configfs",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup2",
    0xCAFE4A11: "bpf",
    0xDE5E81E4: "efivarfs",
    0x42494E4D: "binfmt_misc",
    0x65735543: "fusectl",
    0x6E736673: "nsfs",
    0xF97CFF8C: "selinuxfs",
}
"""File systems whose files are interfaces of the kernel, by `f_type`."""

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _OpenHow(ctypes.Structure):
    """`struct open_how`."""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open `path` relative to a folder in one atomic step. Raises OSError."""
    if _libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    how = _OpenHow(flags, 0, resolve)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    fd: int = _libc.syscall(ctypes.c_long(_OPENAT2), folder, os.fsencode(path), ctypes.byref(how), size)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd


def is_kernel_interface(fd: int) -> bool:
    """Return whether a file is on a file system like procfs, where reading and writing call the kernel."""
    if _libc is None:
        return False
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(fd, status) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    (kind,) = struct.unpack_from("l", status)
    return kind & 0xFFFFFFFF in _KERNEL_INTERFACES


MAX_LINKS = 40
"""Symbolic links in one path, as in the kernel."""
MAX_PATH_BYTES = os.pathconf("/", "PC_PATH_MAX")
"""Descriptors reach further, but other programs could not open such a file."""

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO would wait for its writer. O_NOCTTY: a terminal must not become ours.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileError(Exception):
    """A path or file that is refused; the text says why, for the model."""


@dataclass(frozen=True)
class Location:
    """Where a path leads: an open folder and a name in it, which is a file, a folder, or does not exist.

    Valid only inside of `Roots.locate`. Only files and folders are ever opened, because opening a device can do
    something.
    """

    folder: int
    """Descriptor; with O_PATH if the system has it."""
    name: str
    """Without `/`; `.` if the path is a root."""
    path: str
    """As requested, for messages."""
    real_path: str
    """Without symbolic links: the same for every path that leads here."""

    def status(self) -> os.stat_result | None:
        """Return the status, or None if nothing is there. Raises OSError."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self) -> int:
        """Open a regular file for reading. Raises FileError for anything else, OSError."""
        return self._open(stat.S_IFREG)

    def open_folder(self) -> int:
        """Open a folder for listing. Raises FileError for anything else, OSError."""
        return self._open(stat.S_IFDIR)

    def refuse_unless(self, kind: int, status: os.stat_result) -> None:
        """Raise IsADirectoryError or FileError unless the status is of a kind such as `stat.S_IFREG`."""
        if stat.S_IFMT(status.st_mode) == kind:
            return
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        raise FileError(f"File validation failed for {self.path}: It is not a regular file.")

    def _open(self, kind: int) -> int:
        self.refuse_unless(kind, os.stat(self.name, dir_fd=self.folder, follow_symlinks=False))
        fd = os.open(self.name, _READ, dir_fd=self.folder)
        try:
            self.refuse_unless(kind, os.fstat(fd))  # the opened file may not be the one that was checked
            _refuse_kernel(fd, self.path)
        except BaseException:
            os.close(fd)
            raise
        return fd


class _Root:
    """A root folder, held open so that it cannot be replaced."""

    def __init__(self, folder: str | Path) -> None:
        self.path = os.path.realpath(folder)
        self.fd = os.open(self.path, _FOLDER)
        weakref.finalize(self, os.close, self.fd)

    def names_of(self, path: str) -> list[str] | None:
        """Return the names below this root that an absolute path consists of; None if it is not below."""
        names, own = _names(path), _names(self.path)
        return names[len(own) :] if names[: len(own)] == own else None


class Roots:
    """The folders below which files may be used; a path is opened from the first that contains it.

    Raises OSError if one cannot be opened. `walks` disables `openat2`.
    """

    def __init__(self, folders: Iterable[str | Path] = ("/",), *, walks: bool = False) -> None:
        self._roots = [_Root(folder) for folder in folders]
        self._walks = walks

    @contextmanager
    def locate(self, path: str, *, umask: int | None = None) -> Iterator[Location]:
        """Yield the Location of an absolute path. With `umask`, missing folders are made.

        Raises FileError for an invalid path or one outside the roots, OSError with `path` for what the system refuses,
        here or while the Location is used.
        """
        root, names = self._beneath(path)
        folder: int | None = None
        try:
            place = (None if self._walks else _by_kernel(root, names, path)) or self._walk(root, names, path, umask)
            folder = place.folder
            _refuse_kernel(folder, path)
            yield place
        except OSError as error:
            if error.errno is None or error.filename == path:
                raise
            raise OSError(error.errno, os.strerror(error.errno), path) from error
        finally:
            if folder is not None:
                os.close(folder)

    def _beneath(self, path: str) -> tuple[_Root, list[str]]:
        """Return the root of a path and the names below it. Raises FileError, OSError."""
        try:
            if b"\0" in os.fsencode(path):
                raise FileError(f"The path {path!a} has a NUL byte. Use a path without it.")
        except UnicodeEncodeError:
            raise FileError(f"The path {path!a} is not valid text. Use another path.") from None
        normal = os.path.normpath(path)
        if len(os.fsencode(normal)) >= MAX_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        if os.path.isabs(normal):
            for root in self._roots:
                if (names := root.names_of(normal)) is not None:
                    return root, names
        raise self._outside_error(path)

    def _outside_error(self, path: str) -> FileError:
        folders = ", ".join(root.path for root in self._roots)
        return FileError(f"The path {path} is outside of {folders}. Use a path beneath it.")

    def _walk(self, root: _Root, names: list[str], path: str, umask: int | None) -> Location:
        """Go from folder to folder, each opened from the one before. Holds one descriptor, which the Location takes."""
        ahead, behind, links = deque(names or ["."]), list[str](), 0
        folder = os.dup(root.fd)
        try:
            while True:
                name = ahead.popleft()
                if name == "..":
                    if not behind and root.path != "/":
                        raise self._outside_error(path)
                    folder = _close_for(folder, _reopen(root, behind := behind[:-1]))
                elif (target := _link(folder, name, path)) is not None:
                    links += 1
                    if links > MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    if target.startswith("/"):
                        root, below = self._root_of(target, path)
                        ahead.extendleft(reversed(below))
                        behind, folder = [], _close_for(folder, os.dup(root.fd))
                    else:
                        ahead.extendleft(reversed(_names(target)))
                elif ahead:
                    folder = _close_for(folder, _open_folder(folder, name, umask))
                    behind.append(name)
                else:
                    real_path = os.path.join(root.path, *behind, *([] if name == "." else [name]))
                    return Location(folder, name, path, real_path)
                if not ahead:  # the path ended in a link or `..`: the folder itself is meant
                    ahead.append(".")
        except BaseException:
            os.close(folder)
            raise

    def _root_of(self, target: str, path: str) -> tuple[_Root, list[str]]:
        """Return the root for a link's absolute target, whose `..` is left for the walk. Raises FileError."""
        for root in self._roots:
            if (names := root.names_of(target)) is not None:
                return root, names
        raise self._outside_error(path)


def _by_kernel(root: _Root, names: list[str], path: str) -> Location | None:
    """Return the Location, or None if the walk has to find it or find out what is wrong."""
    folder, above = -1, "/".join(names[:-1]) or "."
    try:
        try:
            folder = openat2(root.fd, above, _FOLDER, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
            real_folder = os.path.join(root.path, *names[:-1])  # reading it from procfs would double the time
        except OSError:
            folder = openat2(root.fd, above, _FOLDER, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
            real_folder = os.readlink(f"/proc/self/fd/{folder}")
        name = names[-1] if names else "."
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.close(folder)
                return None
        real_path = real_folder if name == "." else os.path.join(real_folder, name)
        return Location(folder, name, path, real_path)
    except OSError:
        if folder >= 0:
            os.close(folder)
        return None


def sync_folder(folder: int) -> None:
    """Flush a folder's entries to the disk, if it may be read."""
    with suppress(PermissionError):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _refuse_kernel(fd: int, path: str) -> None:
    if is_kernel_interface(fd):
        raise FileError(f"File validation failed for {path}: It is an interface of the kernel, not a regular file.")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _link(folder: int, name: str, path: str) -> str | None:
    """Return the target of a symbolic link, or None. Raises FileError for the links of procfs."""
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise
    _refuse_kernel(folder, path)  # such a link does not lead where its text says
    return target


def _close_for(folder: int, next_folder: int) -> int:
    os.close(folder)
    return next_folder


def _reopen(root: _Root, names: list[str]) -> int:
    """Open the folder with these names, none of which is a link."""
    folder = os.dup(root.fd)
    for name in names:
        try:
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder


def _open_folder(folder: int, name: str, umask: int | None) -> int:
    """Open a folder that is not a link; with `umask`, make it if it is missing."""
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        if umask is None:
            raise
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:  # somebody else made it, with the permissions that they want
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    new = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fchmod(new, 0o777 & ~umask)
        sync_folder(folder)
    except BaseException:
        os.close(new)
        raise
    return new
