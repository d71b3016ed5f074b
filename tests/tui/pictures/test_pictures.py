"""Pictures of the chat and of pages are opened in the system's viewer and saved to new files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core.events import BrowseURLAction, IPythonRunCellAction, IPythonRunCellObservation
from tests.store.test_blobs import png, url
from tests.tui.browser.test_browser import page, show
from tests.tui.workspace.running_app import Running, running, until
from tui.pictures.picture_files import file_name, temporary_copy, viewer, write_new

FIGURE, PAGE = png(4, 3, "red"), png(8, 6, "blue")


async def with_pictures(it: Running) -> None:
    """A figure in the chat, and a page after it."""
    cell = IPythonRunCellObservation(code="plot()", content="", image_urls=[url(FIGURE)])
    await show(it, IPythonRunCellAction(code="plot()"), cell)
    await show(it, BrowseURLAction(url="http://a/"), page(1, screenshot=url(PAGE)))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def saved(it: Running, here: Path, *keys: str) -> list[bytes]:
    await it.press(*keys)
    await until(it.pilot, lambda: "Save the picture as" in it.screen_text())
    await it.press("enter")
    await until(it.pilot, lambda: bool(list(here.glob("*.png"))) and it.shows_the_workspace)
    return [file.read_bytes() for file in here.glob("*.png")]


async def test_page_is_saved_from_the_browser(here: Path) -> None:
    async with running(size=(160, 48)) as it:
        await with_pictures(it)
        assert await saved(it, here, "f5", "s") == [PAGE]


async def test_figure_is_saved_from_the_chat(here: Path) -> None:
    async with running(size=(160, 48)) as it:
        await with_pictures(it)
        assert await saved(it, here, "f2", "up", "up", "s") == [FIGURE]


async def test_existing_file_is_never_replaced(here: Path) -> None:
    (here / "mine.png").write_bytes(b"mine")
    async with running() as it:
        await with_pictures(it)
        await it.press(*"/savepicture mine.png", "enter")
        await until(
            it.pilot, lambda: "mine.png exists already. Choose another name." in str(it.app.workspace.notice.render())
        )
    assert (here / "mine.png").read_bytes() == b"mine"


async def test_without_a_viewer_the_place_of_the_file_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    async with running() as it:
        await with_pictures(it)
        await it.press("f5", "v")
        await until(it.pilot, lambda: it.app.clipboard.endswith(".png"))
        assert Path(it.app.clipboard).read_bytes() == PAGE


async def test_viewer_of_the_system_gets_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = here / "bin" / "xdg-open"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncp "$1" {here}/opened.tmp && mv {here}/opened.tmp {here}/opened\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":77")
    async with running() as it:
        await with_pictures(it)
        await it.press("f5", "v")
        await until(it.pilot, (here / "opened").exists)
    assert (here / "opened").read_bytes() == PAGE


async def test_without_a_picture_the_commands_say_so(it: Running) -> None:
    for command in ("/picture", "/savepicture"):
        await it.press(*command, "enter")
        await until(it.pilot, lambda: "There is no picture here." in it.screen_text())


def test_copy_for_the_viewer_is_private_and_never_replaces(tmp_path: Path) -> None:
    file = temporary_copy(file_name("image/jpeg", "0123456789"), b"x")
    assert file.name == "picture-01234567.jpg"
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "link", b"x")


def test_no_viewer_without_a_graphical_screen() -> None:
    assert viewer({"PATH": os.environ["PATH"]}) == ""
