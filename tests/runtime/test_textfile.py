"""Text files: what is read is what stands there, and what is written is whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from runtime.server import textfile
from runtime.server.textfile import BinaryFileError, FileError, TextFile


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
        (b"form\x0cfeed\x1b[0m", TextFile("form\x0cfeed\x1b[0m")),
    ],
)
def test_bytes_become_text_and_the_same_bytes_again(data: bytes, file: TextFile) -> None:
    assert textfile.decode("x", data) == file
    assert file.encode() == data


@pytest.mark.parametrize("data", [b"a\0b", b"\x89PNG\r\n\x1a\n\x01", b"\x7fELF\x02\x01\x01\0"])
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
    with pytest.raises(FileError) as refused:
        textfile.read(str(path))
    assert str(refused.value) == (
        f"File validation failed for {path}: File is too large (11.5MB). Maximum allowed size is 10MB."
    )


def test_devices_and_pipes_do_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (str(tmp_path / "fifo"), "/dev/zero", "/dev/tty"):
        with pytest.raises((FileError, OSError)):
            textfile.read(path)
    with pytest.raises(FileError):
        textfile.write(str(tmp_path / "fifo"), b"x", 0o022)


def test_files_that_say_that_they_are_empty_are_read() -> None:
    assert "Linux" in textfile.read("/proc/version").text


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444])
def test_a_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(mode)
    textfile.write(str(path), b"new", 0o077)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_new_files_and_folders_have_the_users_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        textfile.write(str(tmp_path / "a/b/f"), b"new", 0o027)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a/b/f").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o750


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    textfile.write(str(tmp_path / "link"), b"new", 0o022)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def no_space(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        textfile.write(str(path), b"new", 0o022)
    assert {item.name: item.read_text() for item in tmp_path.iterdir()} == {"f": "old"}
