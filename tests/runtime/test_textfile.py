"""Text files: what is read is what stands there, to the same bytes again."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from runtime.server import textfile
from runtime.server.beneath import FileError, Roots
from runtime.server.textfile import BinaryFileError, TextFile


@pytest.mark.parametrize(
    ("data", "file"),
    [
        (b"", TextFile("")),
        ("grün 織\n".encode(), TextFile("grün 織\n")),
        ("grün\n".encode("utf-8-sig"), TextFile("grün\n", "utf-8-sig")),
        ("Привет, мир\n".encode("cp1251"), TextFile("Привет, мир\n", "cp1251")),
        ("grün und blöd\n".encode("latin-1"), TextFile("grün und blöd\n", "latin-1")),
        (b"a\r\nb\r\n", TextFile("a\nb\n", line_end="\r\n")),
        (b"a\r\nb\n", TextFile("a\r\nb\n")),
        (b"a\rb\r\n", TextFile("a\rb\r\n")),
        (b"a\r\n\nb\r", TextFile("a\r\n\nb\r")),
        (b"no end", TextFile("no end")),
        (b"a\r\nno end", TextFile("a\nno end", line_end="\r\n")),
        (b"form\x0cfeed\x1b[0m", TextFile("form\x0cfeed\x1b[0m")),
        (codecs.BOM_UTF16_LE + "織𝄞\r\n".encode("utf-16-le"), TextFile("織𝄞\n", "utf-16-le", "\r\n", b"\xff\xfe")),
        (codecs.BOM_UTF16_BE + "織𝄞\n".encode("utf-16-be"), TextFile("織𝄞\n", "utf-16-be", mark=b"\xfe\xff")),
    ],
)
def test_bytes_become_text_and_the_same_bytes_again(data: bytes, file: TextFile) -> None:
    assert textfile.decode("x", data) == file
    assert file.encode() == data


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b",
        b"\x89PNG\r\n\x1a\n\x01",
        b"\x7fELF\x02\x01\x01\0",
        b"\xff\xfea",  # half a character
        b"\xff\xfe\0\0a\0\0\0",  # UTF-32
        b"\xfe\xff\xd8\x34\0a",  # half a pair
    ],
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(BinaryFileError, match="File appears to be binary"):
        textfile.decode("x", data)


def test_a_character_without_a_place_is_named() -> None:
    with pytest.raises(FileError, match=r"latin-1, which has no place for '\\u7e54'"):
        TextFile("織", "latin-1").encode()


def test_a_file_of_more_than_10_mb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(11 * 1024 * 1024 + 500_000)
    with Roots().locate(str(path)) as place, pytest.raises(FileError) as refused:
        textfile.read(place)
    assert str(refused.value) == (
        f"File validation failed for {path}: File is too large (11.5MB). Maximum allowed size is 10MB."
    )
