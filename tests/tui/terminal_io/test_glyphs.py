"""ASCII, by setting or because of the terminal's encoding: Handloom draws no other characters."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from core.events import (
    BrowserOutputObservation,
    BrowseURLAction,
    EventSource,
    FileEditAction,
    FileEditObservation,
    IPythonRunCellAction,
    IPythonRunCellObservation,
)
from core.settings.screen_settings import ScreenSettings
from core.store.blobs import extract_pictures
from tests.store.test_blobs import png, url
from tests.tui.workspace.running_app import Running, running
from tests.tui.workspace.screen_tour import tour
from tui.terminal_io.glyphs import ASCII, GLYPHS, in_ascii, speaks_utf8, use

ASCII_SCREEN = ScreenSettings(glyphs="ascii")


@pytest.mark.parametrize("glyph", ASCII)
def test_replacements_are_as_wide_as_glyphs(glyph: str) -> None:
    assert ASCII[glyph].isascii()
    assert len(ASCII[glyph]) == cell_len(glyph)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, True),
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "C.utf8"}, True),
        ({"LANG": "C"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "POSIX"}, False),
        ({"LANG": "de_DE.ISO-8859-1", "LC_CTYPE": "de_DE.UTF-8"}, True),
    ],
)
def test_auto_follows_locale(environ: dict[str, str], expected: bool) -> None:
    assert speaks_utf8(environ) is expected


@pytest.mark.parametrize(
    ("setting", "environ", "expected"),
    [
        ("auto", {"LANG": "C"}, (True, True)),
        ("ascii", {"LANG": "C.UTF-8"}, (True, False)),
        ("unicode", {"LANG": "C"}, (False, False)),
        ("auto", {"LANG": "C.UTF-8"}, (False, False)),
    ],
)
def test_setting_overrides_locale(
    setting: str, environ: dict[str, str], expected: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ascii", "strict", "coloured"):
        monkeypatch.setattr(GLYPHS, name, getattr(GLYPHS, name))
    use(setting, environ)
    assert (GLYPHS.ascii, GLYPHS.strict) == expected


def test_letters_are_replaced_only_if_strict() -> None:
    text = "▶ größer … 漢字 ─│┌█⣿"
    assert in_ascii(text) == "> größer ~ 漢字 -|+##"
    assert in_ascii(text, strict=True) == "> gr??er ~ ???? -|+##"


async def _full(it: Running) -> None:
    """A conversation of everything that the chat draws in a way of its own."""
    stream = it.session.stream
    await stream.append_by_agent(IPythonRunCellAction(code="plot()"))
    await it.session.send("hello")
    await it.session.say("# Title\n\n- one\n- two\n\n1. a\n\n> quote\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    await it.session.run("ls", "".join(f"file-{n}\n" for n in range(30)))
    await it.session.run("false", "no\n", 1)
    edit = await stream.append_by_agent(FileEditAction(path="a.py"))
    await stream.append(FileEditObservation(path="a.py", diff="@@ -1 +1 @@\n-a\n+b"), EventSource.ENVIRONMENT, edit.id)
    for action, observation in (
        (IPythonRunCellAction(code="plot()"), IPythonRunCellObservation(content="", code="", image_urls=[url(png())])),
        (BrowseURLAction(url="http://x"), BrowserOutputObservation(url="http://x", trigger_by_action="browse",
                                                                   screenshot=url(png()))),
    ):  # fmt: skip
        bare, blobs = extract_pictures(observation)
        stream.blobs.update({blob.ref.digest: blob for blob in blobs})
        cause = await stream.append_by_agent(action)
        await stream.append(bare, EventSource.ENVIRONMENT, cause.id)
    await it.settle()


async def test_all_screens_are_ascii() -> None:
    found: dict[str, set[str]] = {}
    async with running(size=(160, 40), screen=ASCII_SCREEN) as it:
        await _full(it)
        async for stop in tour(it.app, it.session, it.pilot.pause):
            foreign = {character for character in it.screen_text() if not character.isascii()}
            if foreign:
                found[stop] = foreign
    assert found == {}


@pytest.mark.every_frame
async def test_undrawable_picture_shows_size() -> None:
    async with running(size=(160, 60), screen=ASCII_SCREEN) as it:
        await _full(it)
        assert it.screen_text().count("An image of 3 x 2 pixels.") == 2


async def test_glyphs_are_drawn_by_default() -> None:
    async with running(screen=ScreenSettings(glyphs="unicode")) as it:
        await it.session.run("true", "")
        await it.settle()
        assert "✓" in it.screen_text()
