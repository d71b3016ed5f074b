"""Files below a folder, read without following a link out of it, without waiting, and never more than is asked for.

Whoever works in the folder may put a link, a FIFO or a device into the way at any moment. So each folder on a path is
opened from the one above it, and only a regular file is read. One link is followed: the last part of a path, where it
names another file of the same folder or below. Blocks.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR)
MAX_NAMES = 20_000
"""Of one folder that are looked at; the rest is left out, whatever it is."""


class UnreadableError(Exception):
    """A file that is there and is not read; the text says why."""


class Name(NamedTuple):
    """What a folder holds under a name."""

    name: str
    is_folder: bool


class FolderReader:
    """The files below a folder, which is held open. Raises OSError where it cannot be; use as a context manager.

    `links` are followed where the folder is the user's own.
    """

    def __init__(self, folder: str | Path, *, links: bool = False) -> None:
        self._root = os.open(folder, _FOLDER)
        self._stay = 0 if links else os.O_NOFOLLOW

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._root)

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """The content of a regular file; None where there is nothing of this name.

        Raises UnreadableError for a link that leads out, for what is no file, is too long, or may not be read.
        """
        return self._read(path, max_bytes, hops=1)

    def _read(self, path: str, max_bytes: int, hops: int) -> bytes | None:
        try:
            with self._above(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=not self._stay)
                if stat.S_ISLNK(found.st_mode):
                    target = os.readlink(name, dir_fd=folder)
                elif stat.S_ISREG(found.st_mode):  # opening a device can do something
                    return self._content(folder, name, max_bytes)
                else:
                    raise UnreadableError("no regular file")
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise UnreadableError(_why(error)) from error
        inside = _inside(path, target)
        if not hops or inside is None:
            raise UnreadableError("a link, which is not followed")
        return self._read(inside, max_bytes, hops - 1)

    def _content(self, folder: int, name: str, max_bytes: int) -> bytes:
        with open(os.open(name, _READ | self._stay, dir_fd=folder), "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UnreadableError("no regular file")
            data = b""
            while found.st_size <= max_bytes and len(data) <= max_bytes:
                if not (more := file.read(max_bytes + 1 - len(data))):
                    return data
                data += more
        raise UnreadableError(f"more than {max_bytes // 1024} KB. Shorten it.")

    def names(self, path: str) -> list[Name]:
        """What a folder holds, by name, at most MAX_NAMES; nothing where it is none. Links are left out.

        Raises UnreadableError where it is a link, or may not be read.
        """
        try:
            with self._above(path) as (above, name):
                folder = os.open(name, _LIST | self._stay, dir_fd=above)
            try:
                with os.scandir(folder) as entries:
                    return sorted(
                        Name(entry.name, entry.is_dir(follow_symlinks=not self._stay))
                        for entry in islice(entries, MAX_NAMES)
                    )
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return []
            if self._stay and self._is_link(path):
                raise UnreadableError("a link, which is not followed") from error
            if error.errno in _GONE:
                return []
            raise UnreadableError(_why(error)) from error

    def _is_link(self, path: str) -> bool:
        try:
            with self._above(path) as (folder, name):
                return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except OSError:
            return False

    @contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder that a path ends in, open, and the name there. Raises OSError."""
        *above, name = path.split("/")
        if not name or {name, *above} & {"", ".", ".."} or "\0" in path:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        folder = os.dup(self._root)
        try:
            for part in above:
                following = os.open(part, _FOLDER | self._stay, dir_fd=folder)
                os.close(folder)
                folder = following
            yield folder, name
        finally:
            os.close(folder)


def _inside(path: str, target: str) -> str | None:
    """What a link names, from the top; None where that is not at its own place or below."""
    parts = target.split("/")
    if {"", ".", ".."} & set(parts):
        return None
    return "/".join([*path.split("/")[:-1], *parts])


def _why(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a link, which is not followed"
    return (error.strerror or str(error)).lower()
