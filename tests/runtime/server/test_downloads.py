"""Downloads are complete, or the reason is reported before anything is sent."""

from __future__ import annotations

import os
import stat
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runtime.server.transfers import CHUNK_BYTES, Download
from tests.runtime.isolation.confined import SOMEBODY


def pieces(download: Download) -> Iterator[bytes]:
    while (piece := download.read()) is not None:
        yield piece


@contextmanager
def somebody() -> Iterator[None]:
    """Skips for root, which can read everything."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(SOMEBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize("name", ["file", "folder"])
def test_unreadable_file_is_reported_before_the_download(name: str) -> None:
    with TemporaryDirectory() as place:  # not below pytest's own folder, which only its owner may enter
        os.chmod(place, 0o755)
        Path(place, "file").touch(0o644 if name == "folder" else 0)
        Path(place, "folder").mkdir(0o755 if name == "file" else 0)
        before = set(os.listdir("/dev/fd"))
        with somebody(), pytest.raises(PermissionError) as error:
            Download(place)
        assert error.value.filename == name
        assert set(os.listdir("/dev/fd")) == before


def test_files_removed_during_the_download_are_left_out(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(os.urandom(2 * CHUNK_BYTES))
    with closing(Download(str(tmp_path))) as download:
        arriving = pieces(download)
        begun = next(filter(None, arriving))
        (tmp_path / "b").unlink()
        archive = zipfile.ZipFile(BytesIO(begun + b"".join(arriving)))
    assert archive.namelist() == ["a", "c"]
    assert archive.testzip() is None


def test_file_that_changes_size_is_downloaded_as_read(tmp_path: Path) -> None:
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


def test_closed_download_closes_its_files(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(20 * CHUNK_BYTES))
    before = set(os.listdir("/dev/fd"))
    with closing(Download(str(tmp_path))) as download:
        assert next(filter(None, pieces(download)))
    assert set(os.listdir("/dev/fd")) == before


def packed(path: Path) -> dict[str, zipfile.ZipInfo]:
    with closing(Download(str(path))) as download:
        return {info.filename: info for info in zipfile.ZipFile(BytesIO(b"".join(pieces(download)))).infolist()}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((2001, 2, 3, 4, 5, 6), (2001, 2, 3, 4, 5, 6)),
        ((1980, 1, 1, 0, 0, 2), (1980, 1, 1, 0, 0, 2)),
        ((2107, 12, 31, 23, 59, 58), (2107, 12, 31, 23, 59, 58)),
        ((1979, 12, 31, 23, 59, 58), (1980, 1, 1, 0, 0, 0)),
        ((2108, 1, 1, 0, 0, 0), (1980, 1, 1, 0, 0, 0)),
    ],
)
def test_modification_time_is_kept_if_a_zip_can_store_it(
    tmp_path: Path, said: tuple[int, ...], told: tuple[int, ...]
) -> None:
    path = tmp_path / "file"
    path.touch()
    at = time.mktime((*said, 0, 0, -1))  # type: ignore[arg-type]
    os.utime(path, (at, at))
    assert packed(path)["file"].date_time == told


def test_files_and_folders_keep_their_modes_and_files_are_packed(tmp_path: Path) -> None:
    (tmp_path / "sub/empty").mkdir(parents=True)
    (tmp_path / "sub/file").write_text("x" * 10_000)
    (tmp_path / "sub/file").chmod(0o751)
    (tmp_path / "sub").chmod(0o705)
    found = packed(tmp_path)
    assert found.keys() == {"sub/", "sub/file", "sub/empty/"}
    assert stat.S_IMODE(found["sub/file"].external_attr >> 16) == 0o751
    assert stat.S_IMODE(found["sub/"].external_attr >> 16) == 0o705
    assert stat.S_ISDIR(found["sub/"].external_attr >> 16)
    assert found["sub/file"].compress_size < 1000
    assert (found["sub/"].file_size, found["sub/"].compress_type) == (0, zipfile.ZIP_STORED)


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/.", "{}/x/.."])
def test_download_has_the_name_of_the_requested_path(tmp_path: Path, form: str) -> None:
    (tmp_path / "folder/x").mkdir(parents=True)
    with closing(Download(form.format(tmp_path / "folder"))) as download:
        assert download.name == "folder"
