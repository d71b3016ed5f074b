"""Uploads: `/upload_file` of OpenHands V0 (`openhands/runtime/action_execution_server.py`), without HTTP.

Invariants: data is stored under a temporary name until it is complete, and then renamed; an upload that fails or is
cancelled leaves nothing behind; of an archive, nothing is placed before all of it was unpacked and nothing is in its
way. Below the destination no symbolic link is followed, since each folder is opened from the one above it; a link in a
file's place is replaced.

All calls block; use a thread, and for one upload one call at a time.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO

from runtime.server import zip_archive
from runtime.server.zip_archive import ArchiveError, Entry, quoted

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class TransferError(Exception):
    """A request that cannot be carried out; the text says why."""


@contextmanager
def opened(folder: int, parts: Sequence[str], make_mode: int | None = None) -> Iterator[int]:
    """Open a folder below another without following links; with `make_mode`, missing folders are made."""
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
    """Open a file for reading. A link or FIFO that took its place is neither followed nor awaited."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


MAX_UPLOAD_BYTES = zip_archive.MAX_TOTAL_BYTES
TOO_LARGE = f"An upload is limited to {MAX_UPLOAD_BYTES >> 20} MB. Send it in parts."
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TooLargeError(TransferError):
    """The upload is too large."""


class Upload:
    """An incoming file: written, then placed or unpacked, and closed in any case.

    `umask` is the user's. Raises TransferError, OSError.
    """

    def __init__(self, destination: str, umask: int) -> None:
        if not os.path.isabs(destination) or "\0" in destination:
            raise TransferError("Destination must be an absolute path")  # V0's words
        self._umask = umask
        self._size = 0
        self._made_folders: list[str] = []
        self._temporary = f".handloom-{secrets.token_hex(8)}"
        self._unpacked = self._temporary + ".d"
        with ExitStack() as undo:
            undo.callback(self._remove_folders)
            self._make_folders(destination)
            self._folder = os.open(destination, FOLDER)
            undo.callback(os.close, self._folder)
            file = os.open(self._temporary, _NEW, 0o600, dir_fd=self._folder)
            self._file: BinaryIO = open(file, "w+b")  # noqa: SIM115  # closed by `close`
            undo.pop_all()

    def write(self, data: bytes) -> None:
        """Append data. Raises TooLargeError, OSError."""
        self._size += len(data)
        if self._size > MAX_UPLOAD_BYTES:
            raise TooLargeError(TOO_LARGE)
        self._file.write(data)

    def place(self, name: str) -> None:
        """Move the file to this name in the destination, replacing an existing one."""
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise TransferError(f"{quoted(name)} is not a valid file name. Send one without folders.")
        self._file.flush()
        _put(self._temporary, self._folder, name, self._folder, 0o666 & ~self._umask)

    def unpack(self) -> None:
        """Unpack the archive into the destination, replacing existing files.

        Raises ArchiveError if an entry is refused or something is in its way; then nothing is placed.
        """
        self._file.flush()
        entries = zip_archive.entries(self._file)
        os.mkdir(self._unpacked, 0o700, dir_fd=self._folder)
        with opened(self._folder, [self._unpacked]) as unpacked:
            for entry in entries:
                self._unpack(entry, unpacked)
            for entry in entries:
                _check_way(entry, self._folder)
            for entry in entries:
                self._place(entry, unpacked)
        self._made_folders.clear()

    def close(self) -> None:
        """Remove what was not placed."""
        with suppress(OSError):  # unwritten data is no longer needed
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=self._folder)
        shutil.rmtree(self._unpacked, ignore_errors=True, dir_fd=self._folder)
        os.close(self._folder)
        self._remove_folders()

    def _unpack(self, entry: Entry, folder: int) -> None:
        parts = entry.path if entry.is_folder else entry.path[:-1]
        with opened(folder, parts, make_mode=0o700) as parent:
            if not entry.is_folder:
                with open(os.open(entry.path[-1], _NEW, 0o600, dir_fd=parent), "wb") as file:
                    for piece in zip_archive.content(self._file, entry):
                        file.write(piece)

    def _place(self, entry: Entry, unpacked: int) -> None:
        parts = entry.path if entry.is_folder else entry.path[:-1]
        with opened(self._folder, parts, make_mode=0o777 & ~self._umask) as target:
            if not entry.is_folder:
                mode = (0o777 if entry.is_executable else 0o666) & ~self._umask
                with opened(unpacked, parts) as source:
                    _put(entry.path[-1], source, entry.path[-1], target, mode)

    def _make_folders(self, path: str) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError as error:
                if os.path.isdir(folder):
                    continue  # another name for a folder that was just made, such as `new/.`, or made by another upload
                raise TransferError(f"{folder} is not a folder. Choose another destination.") from error
            self._made_folders.append(folder)
            os.chmod(folder, 0o777 & ~self._umask)

    def _remove_folders(self) -> None:
        """Remove the folders that were made and are still empty."""
        for folder in reversed(self._made_folders):
            with suppress(OSError):
                os.rmdir(folder)
        self._made_folders.clear()


def _check_way(entry: Entry, folder: int) -> None:
    """Check that nothing in the destination is in the way of an entry. Raises ArchiveError."""
    folders = entry.path if entry.is_folder else entry.path[:-1]
    try:
        with opened(folder, folders) as parent:
            if not entry.is_folder and stat.S_ISDIR(
                os.stat(entry.path[-1], dir_fd=parent, follow_symlinks=False).st_mode
            ):
                raise ArchiveError(f"{quoted(entry.name)} cannot be placed: a folder with this name exists.")
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        name = quoted(str(error.filename))
        raise ArchiveError(f"{quoted(entry.name)} cannot be placed: {name} exists and is not a folder.") from error


def _put(source: str, source_folder: int, name: str, folder: int, mode: int) -> None:
    """Move a file to its place, with owner and mode of the file that was there, else with `mode`."""
    with opened_file(source_folder, source) as file:
        with suppress(FileNotFoundError):
            before = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(before.st_mode):
                raise TransferError(
                    f"{quoted(name)} is a folder in the destination. Choose another name or destination."
                )
            if stat.S_ISREG(before.st_mode):
                mode = before.st_mode & 0o777
                with suppress(PermissionError):
                    os.fchown(file, before.st_uid, before.st_gid)
        os.fchmod(file, mode)
    os.replace(source, name, src_dir_fd=source_folder, dst_dir_fd=folder)
