"""Whole contents in the place of others: all that was beside the content is kept, and a failure leaves the old."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from runtime.server.safe_paths import FileError, Roots
from runtime.server.text_file import replace


def write(path: Path, data: bytes, umask: int = 0o022) -> None:
    with Roots().locate(str(path), umask=umask) as place:
        replace(place, data, umask)


def test_a_pipe_and_a_folder_are_not_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FileError, match="It is not a regular file"):
        write(tmp_path / "fifo", b"x")
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"x")
    assert [item.name for item in tmp_path.iterdir()] == ["fifo"]


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444, 0o2755])
def test_a_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
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


def test_a_link_stays_a_link(tmp_path: Path) -> None:
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


def test_a_hard_link_elsewhere_keeps_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    os.link(tmp_path / "secret", tmp_path / "here")
    write(tmp_path / "here", b"new")
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "here").read_text() == "new"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="only root gives files away")
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    os.chown(path, 1234, 5678)
    write(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)
