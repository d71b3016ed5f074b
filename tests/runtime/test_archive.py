"""An archive that lies about its sizes costs what it announced, and nothing that was begun stays open."""

from __future__ import annotations

import io
import zipfile
from contextlib import closing, suppress
from pathlib import Path

import pytest

from runtime.server.archive import ArchiveError, content, entries
from runtime.server.downloads import Download
from runtime.server.uploads import Upload
from tests.repeated import leaves_nothing
from tests.runtime import zips


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED], ids=["deflated", "stored"])
def test_unpacking_stops_where_more_comes_than_was_announced(method: int) -> None:
    announced = 300_000
    large = zips.packed({"x": bytes(3_000_000)}, method=method)
    file = io.BytesIO(zips.changed(large, zips.CENTRAL, 24, "<L", lambda _: announced))
    (entry,) = entries(file)
    unpacked: list[int] = []
    with pytest.raises(ArchiveError, match="not what was announced"):
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
