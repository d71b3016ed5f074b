"""FolderReader: reads files in a folder with a size limit, without following links out of it and without blocking.

A program in the folder may replace a file by a link, a FIFO or a device at any moment. So each folder on a path is
opened from its parent, and only regular files are read. One link is followed: the last part of a path, if it points
to another file in the same folder or below. Calls block.
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
"""Limit for the entries of one folder; the rest is ignored."""


class UnreadableError(Exception):
    """A file exists but is not read; the text says why."""


class Name(NamedTuple):
    """An entry of a folder."""

    name: str
    is_folder: bool


class FolderReader:
    """Reads files in a folder, which it keeps open. A context manager. Raises OSError if the folder cannot be opened.

    With `links`, all links are followed: for the user's own folders.
    """

    def __init__(self, folder: str | Path, *, links: bool = False) -> None:
        self._root = os.open(folder, _FOLDER)
        self._stay = 0 if links else os.O_NOFOLLOW

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._root)

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """Return the content of a regular file; None if there is none.

        Raises UnreadableError for a link out of the folder, a special file, or a file that is too large or unreadable.
        """
        return self._read(path, max_bytes, hops=1)

    def _read(self, path: str, max_bytes: int, hops: int) -> bytes | None:
        try:
            with self._above(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=not self._stay)
                if stat.S_ISLNK(found.st_mode):
                    target = os.readlink(name, dir_fd=folder)
                elif stat.S_ISREG(found.st_mode):  # opening a device can have effects
                    return self._content(folder, name, max_bytes)
                else:
                    raise UnreadableError("not a regular file")
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
                raise UnreadableError("not a regular file")
            data = b""
            while found.st_size <= max_bytes and len(data) <= max_bytes:
                if not (more := file.read(max_bytes + 1 - len(data))):
                    return data
                data += more
        raise UnreadableError(f"more than {max_bytes // 1024} KB. Shorten it.")

    def names(self, path: str) -> list[Name]:
        """Return the entries of a folder by name, at most MAX_NAMES; empty if there is no such folder.

        Raises UnreadableError if it is a link or may not be read.
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
        """Open the parent folder of a path; yields its descriptor and the name in it. Raises OSError."""
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
    """Return a link's target, relative to the root; None if it is not in the link's folder or below."""
    parts = target.split("/")
    if {"", ".", ".."} & set(parts):
        return None
    return "/".join([*path.split("/")[:-1], *parts])


def _why(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a link, which is not followed"
    return (error.strerror or str(error)).lower()
