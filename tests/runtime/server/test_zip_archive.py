"""An archive with false sizes uses at most its declared size, and no file stays open."""

from __future__ import annotations

import io
import random
import stat
import zipfile
from contextlib import closing, suppress
from pathlib import Path

import pytest

from runtime.server.transfers import Download, Upload
from runtime.server.zip_archive import CHUNK_BYTES, MAX_DIRECTORY_BYTES, ArchiveError, content, entries, quoted
from tests.repeated import leaves_nothing
from tests.runtime import zips


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED], ids=["deflated", "stored"])
def test_unpacking_stops_beyond_the_announced_size(method: int) -> None:
    announced = 300_000
    large = zips.packed({"x": bytes(3_000_000)}, method=method)
    file = io.BytesIO(zips.changed(large, zips.CENTRAL, 24, "<L", lambda _: announced))
    (entry,) = entries(file)
    unpacked: list[int] = []
    with pytest.raises(ArchiveError, match="does not match its header"):
        unpacked.extend(map(len, content(file, entry)))
    assert sum(unpacked) <= announced


@pytest.mark.parametrize(
    "archive",
    [zips.GOOD, zips.DAMAGED["another checksum"], zips.DAMAGED["no zip"]],
    ids=["good", "another checksum", "no zip"],
)
def test_uploads_leave_nothing_open(tmp_path: Path, archive: bytes) -> None:
    def upload() -> None:
        with closing(Upload(str(tmp_path), 0o022)) as upload, suppress(ArchiveError):
            upload.write(archive)
            upload.unpack()

    leaves_nothing(upload)


@pytest.mark.parametrize("path", ["", "sub", "sub/b"])
@pytest.mark.parametrize("reads", [0, 1, 100])
def test_downloads_leave_nothing_open_wherever_they_end(tmp_path: Path, path: str, reads: int) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a").write_bytes(b"a" * 1000)
    (tmp_path / "sub/b").write_bytes(b"b" * 1000)

    ended: list[Download] = []  # kept, so that nothing is closed because it is forgotten

    def download() -> None:
        with closing(Download(str(tmp_path / path))) as begun:
            for _ in range(reads):
                if begun.read() is None:
                    break
        ended.append(begun)

    leaves_nothing(download)


def test_directory_with_fewer_entries_than_there_are_is_refused() -> None:
    """`zipfile` takes the smaller number and shows the rest to nobody."""
    archive = zips.GOOD
    for offset in (8, 10):
        archive = zips.changed(archive, zips.END, offset, "<H", lambda count: count - 1)
    with pytest.raises(ArchiveError, match="number of entries is wrong"):
        entries(io.BytesIO(archive))


@pytest.mark.parametrize(("more", "is_refused"), [(0, False), (1, True)])
def test_size_of_the_directory_is_limited(more: int, is_refused: bool) -> None:
    entry_bytes = 2**16  # so much takes each but the last in the directory, most of it its name
    count = MAX_DIRECTORY_BYTES // entry_bytes
    lengths = [entry_bytes - 46] * (count - 1) + [MAX_DIRECTORY_BYTES - entry_bytes * (count - 1) - 46 + more]
    archive = zips.repeated(*(f"{number:0{length}}" for number, length in enumerate(lengths)))
    with pytest.raises(ArchiveError) as refused:
        list(entries(io.BytesIO(archive)))
    assert ("Send it in parts" in str(refused.value)) is is_refused, "else a path is too long"


def announcing(archive: bytes, size: int) -> bytes:
    """The archive, whose last entry says that it unpacks to so many bytes."""
    return zips.changed(archive, zips.CENTRAL, 24, "<L", lambda _: size)


def paths(archive: bytes) -> list[tuple[str, ...]]:
    return [entry.path for entry in entries(io.BytesIO(archive))]


def test_archive_may_unpack_to_a_hundred_times_its_size() -> None:
    archive = zips.packed({"x": b"x" * 1000})
    assert paths(announcing(archive, 100 * len(archive))) == [("x",)]
    with pytest.raises(ArchiveError, match="more than 100 times its size"):
        entries(io.BytesIO(announcing(archive, 100 * len(archive) + 1)))


def test_archive_may_unpack_to_500_mb() -> None:
    archive = zips.packed({"x": bytes(5_300_000)}, method=zipfile.ZIP_STORED)
    assert paths(announcing(archive, 500 * 2**20)) == [("x",)]
    with pytest.raises(ArchiveError, match="more than 500 MB"):
        entries(io.BytesIO(announcing(archive, 500 * 2**20 + 1)))


@pytest.mark.parametrize(
    "name", ["x" * 255, "x" + "ü" * 127, "/".join("d" * 100), "/".join(["x" * 240] * 17)], ids=lambda name: name[:9]
)
def test_longest_and_deepest_names_are_accepted(name: str) -> None:
    assert paths(zips.packed({name: b""})) == [tuple(name.split("/"))]
    with pytest.raises(ArchiveError, match="too long or too deep"):
        entries(io.BytesIO(zips.packed({name + ("/d" if "d/" in name else "x"): b""})))


@pytest.mark.parametrize("comment", [b"", b"a comment", b"x" * 0xFFFF], ids=["none", "short", "longest"])
def test_archive_may_have_a_comment(comment: bytes) -> None:
    archive = zips.changed(zips.GOOD, zips.END, 20, "<H", lambda _: len(comment)) + comment
    assert paths(archive) == [("good",), ("bad",)]


@pytest.mark.parametrize("flag", [0x1, 0x40, 0x2000])
def test_encrypted_entries_are_refused(flag: int) -> None:
    with pytest.raises(ArchiveError, match="'bad' is encrypted or not compressed with deflate"):
        entries(io.BytesIO(zips.changed(zips.GOOD, zips.CENTRAL, 8, "<H", lambda flags: flags | flag)))


def test_name_without_the_utf8_flag_is_cp437() -> None:
    archive = zips.packed({"ü": b""})
    assert paths(archive) == [("ü",)]
    assert paths(zips.changed(archive, zips.CENTRAL, 8, "<H", lambda flags: flags & ~0x800)) == [("├╝",)]


def test_entry_has_the_fields_of_the_archive() -> None:
    archive = zips.packed({"a/x": b"text" * 50}, mode=stat.S_IFREG | 0o755)
    (entry,) = entries(io.BytesIO(archive))
    assert (entry.name, entry.path, entry.size) == ("a/x", ("a", "x"), 200)
    assert (entry.is_folder, entry.is_executable, entry.is_deflated) == (False, True, True)
    assert b"".join(content(io.BytesIO(archive), entry)) == b"text" * 50
    (entry,) = entries(io.BytesIO(zips.packed({"a": b""}, mode=stat.S_IFDIR | 0o644, method=zipfile.ZIP_STORED)))
    assert (entry.path, entry.is_folder, entry.is_executable, entry.is_deflated) == (("a",), True, False, False)
    (entry,) = entries(io.BytesIO(zips.packed({"a": b""}, mode=0o066)))
    assert (entry.is_folder, entry.is_executable) == (False, False)


def test_folder_may_come_twice_and_with_its_files() -> None:
    assert paths(zips.repeated("a/", "a/", "a/x", "b/y", "b/")) == [
        ("a",),
        ("a",),
        ("a", "x"),
        ("b", "y"),
        ("b",),
    ]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED], ids=["deflated", "stored"])
def test_large_file_is_read_in_chunks(method: int) -> None:
    data = random.Random(1).randbytes(2 * CHUNK_BYTES + 1000)
    file = io.BytesIO(zips.packed({"x": data, "y": b""}, method=method))
    large, empty = entries(file)
    pieces = list(content(file, large))
    assert max(map(len, pieces)) <= CHUNK_BYTES
    assert b"".join(pieces) == data
    assert b"".join(content(file, empty)) == b""


def test_long_name_is_truncated_in_messages() -> None:
    assert quoted("x" * 200) == repr("x" * 200)
    assert quoted("x" * 201) == repr("x" * 200 + "…")
    assert quoted("\x1b[2J") == repr("\x1b[2J")
