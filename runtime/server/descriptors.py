"""Folders and files by descriptor: a path beneath a folder is walked name by name, and no symbolic link is followed.

So nobody who swaps a name for a link between two of our calls gets us to another place. Everything here blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class TransferError(Exception):
    """What the caller asked for cannot be; the text says why."""


@contextmanager
def opened(folder: int, parts: Sequence[str], make_mode: int | None = None) -> Iterator[int]:
    """The folder that a path leads to without following a link; with `make_mode`, what is missing is made."""
    fd = os.dup(folder)
    try:
        for part in parts:
            is_new = False
            if make_mode is not None:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=fd)
                    is_new = True
            below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
            if is_new and make_mode is not None:
                os.fchmod(fd, make_mode)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def opened_file(folder: int, name: str) -> Iterator[int]:
    """A file to read. What took its place since it was looked at is neither followed nor waited for."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)
