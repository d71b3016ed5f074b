"""Where a path leads, beneath the root folders, and nowhere else.

A path becomes a Location: the descriptor of the folder that it ends in, and a name there. All that is done to the file
is done from that descriptor, so no symbolic link that is put into the way afterwards leads elsewhere. The kernel finds
the folder in one step (`openat2` with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS); where it cannot, or does not like
what it finds, a walk from descriptor to descriptor does, which follows links itself, absolute ones too, as long as
they stay beneath a root. `..` in a path is taken away before anything is opened; in a link's target it means what it
says. Links and files of procfs and its like are refused. All calls block; callers use a thread.

Two system calls that Python does not have: `openat2`, and the part of `fstatfs` that names a file system.

Both are Linux's. Elsewhere, and under a kernel or a filter without them, they say so in a way that callers can do
without: `openat2` raises OSError, `is_kernel_interface` answers from what it knows.
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
"""The number on every architecture that Python runs on but Alpha."""
_STATFS_BYTES = 256
"""More than `struct statfs` of any architecture."""

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
"""File systems whose files are calls into the kernel, by `f_type`."""

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _OpenHow(ctypes.Structure):
    """`struct open_how`."""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open `path` from the descriptor of a folder, in one step that nobody can come between. Raises OSError."""
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
    """Whether what is open lies on a file system like procfs, where reading and writing are calls to the kernel."""
    if _libc is None:
        return False
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(fd, status) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    (kind,) = struct.unpack_from("l", status)
    return kind & 0xFFFFFFFF in _KERNEL_INTERFACES


MAX_LINKS = 40
"""Symbolic links in one path, as the kernel has it."""
MAX_PATH_BYTES = os.pathconf("/", "PC_PATH_MAX")
"""Descriptors reach further, but nobody else could ever get at what lies there."""

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO would wait for its writer. O_NOCTTY: a terminal must not become ours.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileError(Exception):
    """A path or file that is not worked on; the text says why, and is for the model."""


@dataclass(frozen=True)
class Location:
    """Where a path leads: a folder that is open, and a name in it, behind which is a file, a folder, or nothing yet.

    Valid only inside of `Roots.locate`, which gives it. Of one that is looked at, nothing is opened that is no file
    or folder: opening a device can do something.
    """

    folder: int
    """Descriptor; with O_PATH where the system has it."""
    name: str
    """Without `/`; `.` where the path is a root."""
    path: str
    """As it was asked for, for messages."""
    real_path: str
    """Without symbolic links: the same for every path that leads here."""

    def status(self) -> os.stat_result | None:
        """What is there; None where nothing is. Raises OSError."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self) -> int:
        """A descriptor to read a regular file with. Raises FileError for what is none, OSError."""
        return self._open(stat.S_IFREG)

    def open_folder(self) -> int:
        """A descriptor to list a folder with. Raises FileError for what is none, OSError."""
        return self._open(stat.S_IFDIR)

    def refuse_unless(self, kind: int, status: os.stat_result) -> None:
        """Raise IsADirectoryError or FileError where something is not of a kind such as `stat.S_IFREG`."""
        if stat.S_IFMT(status.st_mode) == kind:
            return
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        raise FileError(f"File validation failed for {self.path}: It is no regular file.")

    def _open(self, kind: int) -> int:
        self.refuse_unless(kind, os.stat(self.name, dir_fd=self.folder, follow_symlinks=False))
        fd = os.open(self.name, _READ, dir_fd=self.folder)
        try:
            self.refuse_unless(kind, os.fstat(fd))  # what has been opened may be another than what was looked at
            _refuse_kernel(fd, self.path)
        except BaseException:
            os.close(fd)
            raise
        return fd


class _Root:
    """A folder that is held open, so that nothing can take its place."""

    def __init__(self, folder: str | Path) -> None:
        self.path = os.path.realpath(folder)
        self.fd = os.open(self.path, _FOLDER)
        weakref.finalize(self, os.close, self.fd)

    def names_of(self, path: str) -> list[str] | None:
        """The names below this root that an absolute path goes through; None where it is not beneath."""
        names, own = _names(path), _names(self.path)
        return names[len(own) :] if names[: len(own)] == own else None


class Roots:
    """The folders beneath which files are worked on; the first that a path is beneath is the one it is opened from.

    Raises OSError where one cannot be opened. `walks` says to do without `openat2`.
    """

    def __init__(self, folders: Iterable[str | Path] = ("/",), *, walks: bool = False) -> None:
        self._roots = [_Root(folder) for folder in folders]
        self._walks = walks

    @contextmanager
    def locate(self, path: str, *, umask: int | None = None) -> Iterator[Location]:
        """The Location that an absolute path leads to. With `umask`, folders that are missing on the way are made.

        Raises FileError for what is outside or is no path, OSError with `path` for what the system refuses, whether
        on the way or in what is done to the Location.
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
        """The root for a path, and the names below it. Raises FileError, OSError."""
        try:
            if b"\0" in os.fsencode(path):
                raise FileError(f"The path {path!a} holds a NUL byte. Use a path without it.")
        except UnicodeEncodeError:
            raise FileError(f"The path {path!a} is no text. Use a path that is.") from None
        normal = os.path.normpath(path)
        if len(os.fsencode(normal)) >= MAX_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        if os.path.isabs(normal):
            for root in self._roots:
                if (names := root.names_of(normal)) is not None:
                    return root, names
        raise self._outside(path)

    def _outside(self, path: str) -> FileError:
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
                        raise self._outside(path)
                    folder = _moved(folder, _opened_again(root, behind := behind[:-1]))
                elif (target := _link(folder, name, path)) is not None:
                    links += 1
                    if links > MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    if target.startswith("/"):
                        root, below = self._root_of(target, path)
                        ahead.extendleft(reversed(below))
                        behind, folder = [], _moved(folder, os.dup(root.fd))
                    else:
                        ahead.extendleft(reversed(_names(target)))
                elif ahead:
                    folder = _moved(folder, _open_folder(folder, name, umask))
                    behind.append(name)
                else:
                    real_path = os.path.join(root.path, *behind, *([] if name == "." else [name]))
                    return Location(folder, name, path, real_path)
                if not ahead:  # a link or `..` that ended the path: what is meant is the folder itself
                    ahead.append(".")
        except BaseException:
            os.close(folder)
            raise

    def _root_of(self, target: str, path: str) -> tuple[_Root, list[str]]:
        """The root for a link's absolute target, whose `..` is left for the walk. Raises FileError."""
        for root in self._roots:
            if (names := root.names_of(target)) is not None:
                return root, names
        raise self._outside(path)


def _by_kernel(root: _Root, names: list[str], path: str) -> Location | None:
    """The Location, or None where the walk has to find it, or to find out why there is none."""
    folder, above = -1, "/".join(names[:-1]) or "."
    try:
        try:
            folder = openat2(root.fd, above, _FOLDER, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)
            real_folder = os.path.join(root.path, *names[:-1])  # asking procfs takes as long as all the rest
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
    """Flush the names in a folder to the disk, where it may be read."""
    with suppress(PermissionError):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _refuse_kernel(fd: int, path: str) -> None:
    if is_kernel_interface(fd):
        raise FileError(f"File validation failed for {path}: It is an interface of the kernel and no regular file.")


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _link(folder: int, name: str, path: str) -> str | None:
    """The target of a symbolic link; None for everything else. Raises FileError for the links of procfs."""
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise
    _refuse_kernel(folder, path)  # such a link leads to where its text does not say
    return target


def _moved(folder: int, to: int) -> int:
    os.close(folder)
    return to


def _opened_again(root: _Root, names: list[str]) -> int:
    """The folder that was reached by these names, none of which was a link."""
    folder = os.dup(root.fd)
    for name in names:
        try:
            following = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = following
    return folder


def _open_folder(folder: int, name: str, umask: int | None) -> int:
    """Open a folder that is no link; with `umask`, make it where it is missing, as the user would."""
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        if umask is None:
            raise
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:  # somebody else was faster, and knows how he wants it
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fchmod(made, 0o777 & ~umask)
        sync_folder(folder)
    except BaseException:
        os.close(made)
        raise
    return made
