"""Reads and writes text files, keeping encoding and line ends, and replaces files atomically.

A new content goes to a new file in the same folder, is flushed to the disk, and is renamed to the old name. So readers
see the old file or the new one, even after a crash, and a hard link elsewhere keeps the old one. Mode, owner, ACL and
extended attributes are kept. Everything starts from the folder's descriptor (see `safe_paths`).

Texts of errors are those of OpenHands' editor (`openhands_aci/editor/editor.py`). All calls block; callers use a
thread.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import secrets
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass

from core import image_types
from runtime.server.safe_paths import FileError, Location, sync_folder

MAX_FILE_BYTES = 10 * 1024 * 1024
BINARY = (
    "File validation failed for {path}: "
    "File appears to be binary and this file type cannot be read or edited by this tool."
)

_UTF16 = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BINARY_SAMPLE_BYTES = 8192
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class BinaryFileError(FileError):
    """A file that is not text. `what` describes it in a sentence, if it is known."""

    def __init__(self, path: str, data: bytes) -> None:
        picture = image_types.described(data[: image_types.HEAD_BYTES])
        self.what = f" It is {picture}." if picture else ""
        super().__init__(f"{BINARY.format(path=path)}{self.what}")


@dataclass(frozen=True)
class TextFile:
    """The content of a text file, with `\\n` as line end if the whole file has the same line ends."""

    text: str
    encoding: str = "utf-8"
    line_end: str = "\n"
    mark: bytes = b""
    """A byte order mark that the encoding's codec does not write."""

    def encode(self) -> bytes:
        """Return the bytes to write. Raises FileError if the encoding lacks a character."""
        text = self.text if self.line_end == "\n" else self.text.replace("\n", self.line_end)
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise FileError(
                f"The file is encoded in {self.encoding}, which cannot represent {character!a}. "
                "Convert the file to UTF-8 first, or write something else."
            ) from error


def read_bytes(place: Location) -> bytes:
    """Read a file. Raises FileError if it is not a regular file or is too large, OSError."""
    fd = place.open_file()
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size
        data = file.read(size + 1) if size <= MAX_FILE_BYTES else b""
        if len(data) > size:  # a file may grow while it is read, and some report size 0
            data += file.read(MAX_FILE_BYTES + 1 - len(data))
    if (size := max(size, len(data))) > MAX_FILE_BYTES:
        raise FileError(
            f"File validation failed for {place.path}: File is too large ({size / 1024 / 1024:.1f}MB). "
            f"Maximum allowed size is {MAX_FILE_BYTES // 1024 // 1024}MB."
        )
    return data


def read(place: Location) -> TextFile:
    """Read a text file. Raises FileError, BinaryFileError, OSError."""
    return decode(place.path, read_bytes(place))


def decode(path: str, data: bytes) -> TextFile:
    """Decode text: UTF-8, UTF-16 with its mark, or the single-byte encoding that fits better.

    Raises BinaryFileError.
    """
    for mark, wide in _UTF16:
        if data.startswith(mark):
            return _decode_utf16(path, data, mark, wide)
    if b"\0" in data[:_BINARY_SAMPLE_BYTES]:
        raise BinaryFileError(path, data)
    encoding = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if _CONTROL.search(data):
            raise BinaryFileError(path, data) from None
        encoding = _single_byte_encoding(data)
        text = data.decode(encoding)
    return _with_line_ends(text, encoding)


def _decode_utf16(path: str, data: bytes, mark: bytes, encoding: str) -> TextFile:
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        raise BinaryFileError(path, data) from None
    if "\0" in text:
        raise BinaryFileError(path, data)
    return _with_line_ends(text, encoding, mark)


def _with_line_ends(text: str, encoding: str, mark: bytes = b"") -> TextFile:
    if "\r\n" in text and text.count("\n") == text.count("\r\n") == text.count("\r"):
        return TextFile(text.replace("\r\n", "\n"), encoding, "\r\n", mark)
    return TextFile(text, encoding, mark=mark)


def _single_byte_encoding(data: bytes) -> str:
    """Guess the encoding: Cyrillic words are runs of high bytes; in western text accented letters are single."""
    runs = _HIGH_RUN.findall(data)
    if sum(map(len, runs)) >= 2 * len(runs):
        with suppress(UnicodeDecodeError):
            data.decode("cp1251")
            return "cp1251"
    return "latin-1"


NEW_FILE_MODE = 0o664
"""As in V0; reduced by the user's umask."""
PREFIX = ".handloom-"
"""Prefix of the name of an incomplete file."""
_NOT_KEPT = ("security.capability", "trusted.")
"""Capabilities were granted to the old content only; trusted attributes belong to the system."""


class Replacement:
    """A new content for a Location, written next to it when made; then call `flush`, `commit` and `close`.

    Raises IsADirectoryError, FileError for anything but a regular file, OSError. Without `commit`, nothing changes.
    `umask` is for a new file.
    """

    def __init__(self, place: Location, data: bytes, umask: int) -> None:
        self._place = place
        self._name = PREFIX + secrets.token_hex(8)
        self.is_visible = False
        before = place.status()
        if before is not None:
            place.refuse_unless(stat.S_IFREG, before)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        new = os.open(self._name, flags, 0o600, dir_fd=place.folder)
        self._fds = [new]
        try:
            with open(new, "wb", closefd=False) as file:
                file.write(data)
            if before is None:
                os.fchmod(new, NEW_FILE_MODE & ~umask)
            else:
                old = None
                with suppress(PermissionError):
                    old = place.open_file()
                    self._fds.append(old)
                _copy_status(before, old, new)
        except BaseException:
            self.close()
            raise

    def flush(self) -> None:
        """Wait until the content is on the disk."""
        os.fsync(self._fds[0])

    def commit(self) -> None:
        """Replace the file after `flush`. It is durable when this returns."""
        folder = self._place.folder
        os.replace(self._name, self._place.name, src_dir_fd=folder, dst_dir_fd=folder)
        self.is_visible = True
        sync_folder(folder)

    def close(self) -> None:
        """Close the files and remove what was not committed, while the Location is valid. May be called twice.

        The old content is held open until then, so that `commit` does not wait until its blocks are freed; close after
        a commit may run in another thread, and later.
        """
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)
        if fds and not self.is_visible:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._place.folder)


def replace(place: Location, data: bytes, umask: int) -> None:
    """Replace a file, or make a new one; it is durable when this returns.

    Raises FileError, OSError.
    """
    replacement = Replacement(place, data, umask)
    try:
        replacement.flush()
        replacement.commit()
    finally:
        replacement.close()


def _copy_status(before: os.stat_result, old: int | None, fd: int) -> None:
    """Give a new file the owner, mode and attributes of the old one, which is None if it cannot be read."""
    mode = stat.S_IMODE(before.st_mode)
    try:
        os.fchown(fd, before.st_uid, before.st_gid)
    except PermissionError:
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # the file is ours: nobody must gain our rights by running it
    os.fchmod(fd, mode)
    if old is not None:
        _copy_attributes(old, fd)


def _copy_attributes(old: int, new: int) -> None:
    """Copy extended attributes, including ACLs; those that only the folder gave to the new file are removed.

    Python knows them on Linux.
    """
    if sys.platform != "linux":
        return
    wanted, inherited = _attributes(old), _attributes(new)
    for name in wanted:
        with suppress(OSError):  # an attribute that cannot be set must not prevent the write
            os.setxattr(new, name, os.getxattr(old, name))
    for name in inherited - wanted:
        with suppress(OSError):
            os.removexattr(new, name)


def _attributes(fd: int) -> set[str]:
    if sys.platform != "linux":
        return set()
    try:
        return {name for name in os.listxattr(fd) if not name.startswith(_NOT_KEPT)}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM, errno.ENOSYS):
            return set()
        raise
