"""Files that pages hand out, without a browser: what is kept, what is not, and that nothing of it stays elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from playwright.async_api import Download

from runtime.plugins.browser.worker import FOLDER, MAX_FILE_BYTES, DownloadError, keep_download
from tests.repeated import leaves_nothing_running


class Arrived:
    """A download that has arrived in a file of the browser's."""

    def __init__(self, file: Path, name: str = "report.pdf") -> None:
        self.suggested_filename = name
        self._file = file

    async def path(self) -> Path:
        return self._file


async def kept(file: Path, workspace: Path) -> str:
    return await keep_download(cast(Download, Arrived(file)), workspace)


async def test_a_file_is_moved_and_takes_no_others_place(tmp_path: Path) -> None:
    for number, name in enumerate(("report.pdf", "report-2.pdf", "report-3.pdf")):
        (tmp_path / "arrived").write_text(str(number))
        path = Path(await kept(tmp_path / "arrived", tmp_path))
        assert (path, path.read_text()) == (tmp_path / FOLDER / name, str(number))
        assert not (tmp_path / "arrived").exists()


async def test_a_file_that_is_too_large_is_removed_and_told(tmp_path: Path) -> None:
    arrived = tmp_path / "arrived"
    arrived.touch()
    os.truncate(arrived, MAX_FILE_BYTES + 1)
    with pytest.raises(DownloadError, match=f"has {MAX_FILE_BYTES + 1} bytes, and the limit is {MAX_FILE_BYTES}"):
        await kept(arrived, tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_downloads_leave_nothing_open(tmp_path: Path) -> None:
    async def download() -> None:
        (tmp_path / "arrived").write_text("x")
        os.unlink(await kept(tmp_path / "arrived", tmp_path))

    await leaves_nothing_running(download)
