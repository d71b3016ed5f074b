"""Text files: reading returns the content, which can be written back to the same bytes."""

from __future__ import annotations

import codecs
import io
import os
import stat
import sys
from pathlib import Path

import pytest

from runtime.server import text_file
from runtime.server.safe_paths import FileError, Location, Roots
from runtime.server.text_file import BinaryFileError, TextFile, replace


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
        ("Ïð Ïð".encode("latin-1"), TextFile("Пр Пр", "cp1251")),
        ("ää ä".encode("latin-1"), TextFile("ää ä", "latin-1")),
        ("ä".encode("latin-1"), TextFile("ä", "latin-1")),
        (b"\x98\x98", TextFile("\x98\x98", "latin-1")),
        (b"\xe4\t\n\x0b\x0c\r\x1b ", TextFile("ä\t\n\x0b\x0c\r\x1b ", "latin-1")),
        (b"a" * 8192 + b"\0", TextFile("a" * 8192 + "\0")),
        (codecs.BOM_UTF16_LE + "織𝄞\r\n".encode("utf-16-le"), TextFile("織𝄞\n", "utf-16-le", "\r\n", b"\xff\xfe")),
        (codecs.BOM_UTF16_BE + "織𝄞\n".encode("utf-16-be"), TextFile("織𝄞\n", "utf-16-be", mark=b"\xfe\xff")),
    ],
)
def test_text_is_decoded_and_encoded_to_the_same_bytes(data: bytes, file: TextFile) -> None:
    assert text_file.decode("x", data) == file
    assert file.encode() == data


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b",
        b"\x89PNG\r\n\x1a\n\x01",
        b"a" * 8191 + b"\0",
        *(b"\xe4" + bytes([byte]) for byte in (1, 8, 0x0E, 0x1A, 0x1C, 0x1F)),
        b"\x7fELF\x02\x01\x01\0",
        b"\xff\xfea",  # half a character
        b"\xff\xfe\0\0a\0\0\0",  # UTF-32
        b"\xfe\xff\xd8\x34\0a",  # half a pair
    ],
)
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(BinaryFileError, match="File appears to be binary"):
        text_file.decode("x", data)


def test_character_missing_in_the_encoding_is_named() -> None:
    with pytest.raises(FileError, match=r"latin-1, which cannot represent '\\u7e54'"):
        TextFile("織", "latin-1").encode()


def test_file_of_more_than_10_mb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(11 * 1024 * 1024 + 500_000)
    with Roots().locate(str(path)) as place, pytest.raises(FileError) as refused:
        text_file.read(place)
    assert str(refused.value) == (
        f"File validation failed for {path}: File is too large (11.5MB). Maximum allowed size is 10MB."
    )


def test_file_may_be_as_large_as_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "MAX_FILE_BYTES", 2**20)
    path = tmp_path / "f"
    path.write_bytes(b"x" * 2**20)
    with Roots().locate(str(path)) as place:
        assert text_file.read(place) == TextFile("x" * 2**20)
        path.write_bytes(b"x" * (2**20 + 1))
        with pytest.raises(FileError, match=r"too large \(1\.0MB\)\. Maximum allowed size is 1MB"):
            text_file.read(place)


def test_growing_file_is_read_completely_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log grows like this. The size that the system reported before is outdated."""
    monkeypatch.setattr(text_file, "MAX_FILE_BYTES", 20)
    path = tmp_path / "log"
    path.touch()
    told = os.fstat
    for size in (20, 21):
        with Roots().locate(str(path)) as place, path.open("rb+") as file, monkeypatch.context() as growing:

            def grown(fd: int, size: int = size, file: io.BufferedRandom = file) -> os.stat_result:
                about = told(fd)
                file.seek(0)
                file.write(b"x" * size)
                file.flush()
                return about

            path.write_bytes(b"")
            fd = place.open_file()
            growing.setattr(Location, "open_file", lambda self, fd=fd: fd)
            growing.setattr(os, "fstat", grown)
            if size == 20:
                assert text_file.read_bytes(place) == b"x" * 20
            else:
                with pytest.raises(FileError, match="File is too large"):
                    text_file.read_bytes(place)


def test_kind_of_a_binary_file_is_named_if_known() -> None:
    png = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000003000000050802000000")
    with pytest.raises(BinaryFileError) as refused:
        text_file.decode("x", png)
    assert refused.value.what.startswith(" It is a PNG")
    assert str(refused.value).endswith(f"by this tool.{refused.value.what}")
    with pytest.raises(BinaryFileError) as refused:
        text_file.decode("x", b"\0")
    assert (refused.value.what, str(refused.value)[-5:]) == ("", "tool.")


def write(path: Path, data: bytes, umask: int = 0o022) -> None:
    with Roots().locate(str(path), umask=umask) as place:
        replace(place, data, umask)


def test_pipe_and_folder_are_not_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FileError, match="It is not a regular file"):
        write(tmp_path / "fifo", b"x")
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"x")
    assert [item.name for item in tmp_path.iterdir()] == ["fifo"]


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444, 0o2755])
def test_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(mode)
    write(path, b"new", 0o077)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_new_files_and_folders_have_the_users_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path / "a/b/f", b"new", 0o027)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a/b/f").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o750


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_dangling_link_creates_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_hard_link_elsewhere_keeps_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    os.link(tmp_path / "secret", tmp_path / "here")
    write(tmp_path / "here", b"new")
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "here").read_text() == "new"


def test_failed_write_leaves_only_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def no_space(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        write(path, b"new")
    assert {item.name: item.read_text() for item in tmp_path.iterdir()} == {"f": "old"}


def test_name_of_255_bytes_is_written_and_longer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    write(path, b"new")
    assert path.read_text() == "new"
    with pytest.raises(OSError, match="File name too long") as refused:
        write(tmp_path / ("x" * 256), b"new")
    assert refused.value.filename == str(tmp_path / ("x" * 256))


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system has no extended attributes of this kind")
class TestAttributes:
    ACCESS_LIST = bytes.fromhex(
        "02000000"  # version 2: user:: rw-, user:12345: rw-, group:: r--, mask:: rw-, other:: ---
        "01000600ffffffff" "0200060039300000" "04000400ffffffff" "10000600ffffffff" "20000000ffffffff"
    )  # fmt: skip

    def test_extended_attributes_and_access_lists_are_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_text("old")
        try:
            os.setxattr(path, "user.note", b"kept")
            os.setxattr(path, "system.posix_acl_access", self.ACCESS_LIST)
        except OSError as error:
            pytest.skip(f"this file system keeps none: {error}")
        mode = path.stat().st_mode
        write(path, b"new")
        assert os.getxattr(path, "user.note") == b"kept"
        assert os.getxattr(path, "system.posix_acl_access") == self.ACCESS_LIST
        assert path.stat().st_mode == mode

    def test_default_acl_of_the_folder_does_not_apply_to_an_existing_file(self, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_text("old")
        try:
            os.setxattr(tmp_path, "system.posix_acl_default", self.ACCESS_LIST)
        except OSError as error:
            pytest.skip(f"this file system keeps none: {error}")
        write(path, b"new")
        assert "system.posix_acl_access" not in os.listxattr(path)

    def test_attributes_of_an_unreadable_file_are_not_taken_from_elsewhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "f"
        path.write_text("old")
        try:
            os.setxattr(tmp_path, "user.note", b"of the working folder")
        except OSError as error:
            pytest.skip(f"this file system keeps none: {error}")

        def unreadable(place: Location) -> int:
            raise PermissionError

        monkeypatch.setattr(Location, "open_file", unreadable)
        monkeypatch.chdir(tmp_path)
        write(path, b"new")
        assert path.read_bytes() == b"new"
        assert "user.note" not in os.listxattr(path)


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="only root gives files away")
def test_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    os.chown(path, 1234, 5678)
    write(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)
