"""The viewer of pictures and PDF files for the browser in the sandbox."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from runtime.server.file_viewer import FileViewer
from tests.import_export.files import png

PIXEL = png()


@pytest.fixture
async def viewer(tmp_path: Path) -> AsyncIterator[FileViewer]:
    (tmp_path / "root").mkdir()
    viewer = FileViewer([tmp_path / "root"], tmp_path / "address")
    await viewer.start()
    yield viewer
    await viewer.aclose()


async def get(viewer: FileViewer, path: str) -> tuple[int, str, bytes]:
    """The status, the type and the body of the answer for a file."""
    async with aiohttp.ClientSession() as http, http.get(f"{viewer.address}/view", params={"path": path}) as answer:
        return answer.status, answer.content_type, await answer.read()


async def test_picture_is_served_with_its_type(viewer: FileViewer, tmp_path: Path) -> None:
    for suffix, type_ in ((".png", "image/png"), (".PDF", "application/pdf")):
        file = tmp_path / "root" / f"a b{suffix}"
        file.write_bytes(PIXEL)
        assert await get(viewer, str(file)) == (200, type_, PIXEL)


async def test_other_paths_are_refused(viewer: FileViewer, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.png"
    outside.write_bytes(PIXEL)
    (root / "page.html").write_text("<script>")
    (root / "link.png").symlink_to(outside)
    (root / "folder.png").mkdir()
    statuses = {
        "": 400,
        "a.png": 400,
        f"{root}/page.html": 415,
        f"{root}/none.png": 404,
        f"{root}/link.png": 404,
        f"{root}/folder.png": 404,
        f"{root}/../outside.png": 404,
        f"{root}/a\0.png": 404,
    }
    assert {path: (await get(viewer, path))[0] for path in statuses} == statuses


async def test_address_is_for_its_owner_only_and_leaves_with_the_server(tmp_path: Path) -> None:
    file = tmp_path / "address"
    first, second = FileViewer([tmp_path], file), FileViewer([tmp_path], file)
    await first.start()
    assert file.read_text() == first.address
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    await second.start()
    await first.aclose()
    assert file.read_text() == second.address
    async with aiohttp.ClientSession() as http, http.get(second.address.rpartition("/")[0] + "/view") as answer:
        assert answer.status == 404  # without the token
    await second.aclose()
    assert not file.exists()


async def test_viewer_works_if_its_address_cannot_be_written(tmp_path: Path) -> None:
    viewer = FileViewer([tmp_path], tmp_path / "none" / "address")
    await viewer.start()
    assert (await get(viewer, "/x.png"))[0] == 404
    await viewer.aclose()
