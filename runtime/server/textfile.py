"""A text file as it is: its text, its encoding and its line ends, so that the same text is the same bytes again.

Texts of errors are those of OpenHands' editor (`openhands_aci/editor/editor.py`). Reading blocks; callers use a thread.
"""

from __future__ import annotations

import codecs
import os
import re
from contextlib import suppress
from dataclasses import dataclass

from core import images
from runtime.server.beneath import FileError, Location

MAX_FILE_BYTES = 10 * 1024 * 1024
BINARY = (
    "File validation failed for {path}: "
    "File appears to be binary and this file type cannot be read or edited by this tool."
)

_WIDE = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BINARY_SAMPLE_BYTES = 8192
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class BinaryFileError(FileError):
    """A file that holds no text. `what` says what it holds, as a sentence, or nothing."""

    def __init__(self, path: str, data: bytes) -> None:
        picture = images.described(data[: images.HEAD_BYTES])
        self.what = f" It is {picture}." if picture else ""
        super().__init__(f"{BINARY.format(path=path)}{self.what}")


@dataclass(frozen=True)
class TextFile:
    """What stands in a file, with line ends as `\\n` wherever the whole file ends its lines in one way."""

    text: str
    encoding: str = "utf-8"
    line_end: str = "\n"
    mark: bytes = b""
    """A byte order mark that the codec of the encoding does not write itself."""

    def encode(self) -> bytes:
        """The bytes to write. Raises FileError where the encoding has no place for a character."""
        text = self.text if self.line_end == "\n" else self.text.replace("\n", self.line_end)
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise FileError(
                f"The file is encoded in {self.encoding}, which has no place for {character!a}. "
                "Convert the file to UTF-8 first, or write something else."
            ) from error


def read_bytes(place: Location) -> bytes:
    """What stands in a file. Raises FileError for one that is none or is too large, OSError."""
    fd = place.open_file()
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size
        data = file.read(size + 1) if size <= MAX_FILE_BYTES else b""
        if len(data) > size:  # a file may grow while it is read, and some say that they are empty
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
    """Bytes as text: UTF-8, UTF-16 behind its mark, else the single-byte encoding that fits better.

    Raises BinaryFileError.
    """
    for mark, wide in _WIDE:
        if data.startswith(mark):
            return _decode_wide(path, data, mark, wide)
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


def _decode_wide(path: str, data: bytes, mark: bytes, encoding: str) -> TextFile:
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        raise BinaryFileError(path, data) from None
    if "\0" in text:
        raise BinaryFileError(path, data)
    return _with_line_ends(text, encoding, mark)


def _with_line_ends(text: str, encoding: str, mark: bytes = b"") -> TextFile:
    ends_in_crlf = "\r" in text and "\r\n" in text and text.count("\n") == text.count("\r\n") == text.count("\r")
    if not ends_in_crlf:
        return TextFile(text, encoding, mark=mark)
    return TextFile(text.replace("\r\n", "\n"), encoding, "\r\n", mark)


def _single_byte_encoding(data: bytes) -> str:
    """Cyrillic words are runs of high bytes; in western text accented letters stand alone."""
    runs = _HIGH_RUN.findall(data)
    if sum(map(len, runs)) >= 2 * len(runs):
        with suppress(UnicodeDecodeError):
            data.decode("cp1251")
            return "cp1251"
    return "latin-1"
