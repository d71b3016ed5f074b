"""What is downloaded is whole, or the reason is said before anything is sent."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runtime.server.downloads import CHUNK_BYTES, Download
from tests.runtime.walled import SOMEBODY


def pieces(download: Download) -> Iterator[bytes]:
    while (piece := download.read()) is not None:
        yield piece


@contextmanager
def somebody() -> Iterator[None]:
    """Who is not root, since root may read everything."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(SOMEBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize("name", ["file", "folder"])
def test_what_may_not_be_read_is_said_at_once(name: str) -> None:
    with TemporaryDirectory() as place:  # not below pytest's own folder, which only its owner may enter
        os.chmod(place, 0o755)
        Path(place, "file").touch(0o644 if name == "folder" else 0)
        Path(place, "folder").mkdir(0o755 if name == "file" else 0)
        before = set(os.listdir("/dev/fd"))
        with somebody(), pytest.raises(PermissionError) as error:
            Download(place)
        assert error.value.filename == name
        assert set(os.listdir("/dev/fd")) == before


def test_what_vanishes_meanwhile_is_left_out(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(os.urandom(2 * CHUNK_BYTES))
    with closing(Download(str(tmp_path))) as download:
        arriving = pieces(download)
        begun = next(filter(None, arriving))
        (tmp_path / "b").unlink()
        archive = zipfile.ZipFile(BytesIO(begun + b"".join(arriving)))
    assert archive.namelist() == ["a", "c"]
    assert archive.testzip() is None


def test_a_file_that_grows_or_shrinks_is_what_could_be_read(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(os.urandom(2 * CHUNK_BYTES))
    with closing(Download(str(tmp_path))) as download:
        arriving = pieces(download)
        begun = next(filter(None, arriving))
        os.truncate(tmp_path / "b", 3)
        with (tmp_path / "c").open("ab") as file:
            file.write(b"more")
        archive = zipfile.ZipFile(BytesIO(begun + b"".join(arriving)))
    assert {info.filename: info.file_size for info in archive.infolist()} == {
        "a": 2 * CHUNK_BYTES,
        "b": 3,
        "c": 2 * CHUNK_BYTES + 4,
    }
    assert archive.testzip() is None


def test_pieces_stay_small(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(20 * CHUNK_BYTES))
    with closing(Download(str(tmp_path))) as download:
        assert max(map(len, pieces(download))) <= 2 * CHUNK_BYTES


def test_a_download_that_is_given_up_lets_go_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(20 * CHUNK_BYTES))
    before = set(os.listdir("/dev/fd"))
    with closing(Download(str(tmp_path))) as download:
        assert next(filter(None, pieces(download)))
    assert set(os.listdir("/dev/fd")) == before
