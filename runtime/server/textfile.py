"""A text file as it is: read without waiting on devices, written whole or not at all.

A file keeps its encoding, its line ends, its mode and, where allowed, its owner. Writing goes to a new file
beside the old one, is flushed to the disk and takes the old one's place in one step, so that a crash leaves
the old content or the new. All functions block; callers use a thread.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass

MAX_FILE_BYTES = 10 * 1024 * 1024
NEW_FILE_MODE = 0o664
"""As V0; the user's umask takes away from it."""

_BINARY_SAMPLE_BYTES = 8192
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class FileError(Exception):
    """A file that cannot be read or edited as text; the text says why, as V0's editor does."""


class BinaryFileError(FileError):
    """A file that holds no text."""


@dataclass(frozen=True)
class TextFile:
    """What stands in a file, with line ends as `\\n` wherever the whole file ends its lines in one way."""

    text: str
    encoding: str = "utf-8"
    line_end: str = "\n"

    def encode(self) -> bytes:
        """The bytes to write. Raises FileError where the encoding has no place for a character."""
        text = self.text if self.line_end == "\n" else self.text.replace("\n", self.line_end)
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise FileError(
                f"The file is encoded in {self.encoding}, which has no place for {character!a}. "
                "Convert the file to UTF-8 first, or write something else."
            ) from error


def read(path: str) -> TextFile:
    """Read a text file. Raises FileError, BinaryFileError, OSError."""
    return decode(path, _read_bytes(path))


def _read_bytes(path: str) -> bytes:
    # O_NONBLOCK: opening a FIFO would wait for its writer. It is checked after opening what has been opened.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, os.strerror(21), path)
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"File validation failed for {path}: It is no regular file.")
        # A file may grow while it is read, and those of /proc say that they are empty.
        data = file.read(MAX_FILE_BYTES + 1)
        size = max(status.st_size, len(data))
    if size > MAX_FILE_BYTES:
        raise FileError(
            f"File validation failed for {path}: File is too large ({size / 1024 / 1024:.1f}MB). "
            f"Maximum allowed size is {MAX_FILE_BYTES // 1024 // 1024}MB."
        )
    return data


def decode(path: str, data: bytes) -> TextFile:
    """Bytes as text: UTF-8, else the single-byte encoding that fits better. Raises BinaryFileError."""
    if b"\0" in data[:_BINARY_SAMPLE_BYTES]:
        raise _binary(path)
    encoding = "utf-8-sig" if data.startswith(codecs.BOM_UTF8) else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if _CONTROL.search(data):
            raise _binary(path) from None
        encoding = _single_byte_encoding(data)
        text = data.decode(encoding)
    ends_in_crlf = "\r\n" in text and text.count("\n") == text.count("\r\n") == text.count("\r")
    return TextFile(text.replace("\r\n", "\n"), encoding, "\r\n") if ends_in_crlf else TextFile(text, encoding)


def _binary(path: str) -> BinaryFileError:
    return BinaryFileError(
        f"File validation failed for {path}: "
        "File appears to be binary and this file type cannot be read or edited by this tool."
    )


def _single_byte_encoding(data: bytes) -> str:
    """Cyrillic words are runs of high bytes; in western text accented letters stand alone."""
    runs = _HIGH_RUN.findall(data)
    if sum(map(len, runs)) >= 2 * len(runs):
        with suppress(UnicodeDecodeError):
            data.decode("cp1251")
            return "cp1251"
    return "latin-1"


def write(path: str, data: bytes, umask: int) -> None:
    """Put `data` in the place of a file, or make a new one and the folders above it. Raises FileError,
    OSError."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    make_folders(folder, umask)
    try:
        before = os.stat(target)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        if stat.S_ISDIR(before.st_mode):
            raise IsADirectoryError(21, os.strerror(21), path)
        raise FileError(f"File validation failed for {path}: It is no regular file.")
    fd, temporary = tempfile.mkstemp(prefix=".handloom-", dir=folder)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                with suppress(PermissionError):
                    os.fchown(fd, before.st_uid, before.st_gid)
            os.fchmod(fd, stat.S_IMODE(before.st_mode) if before is not None else NEW_FILE_MODE & ~umask)
            os.fsync(fd)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def make_folders(folder: str, umask: int) -> None:
    """Make a folder and those above it, with the user's umask instead of the server's narrow one."""
    if not os.path.isdir(folder):
        make_folders(os.path.dirname(folder), umask)
        with suppress(FileExistsError):
            os.mkdir(folder)
            os.chmod(folder, 0o777 & ~umask)


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
