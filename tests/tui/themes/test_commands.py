"""Themes in the running workspace: chosen by looking at them, remembered, reloaded; and a workspace without colours."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.color import ColorType
from rich.segment import Segment
from textual import events
from textual.widgets import OptionList

from core.events import AgentState
from core.settings.config import load
from core.settings.screen_settings import ScreenSettings
from tests.tui.workspace.running_app import Running, running, until
from tui.themes.theme_files import OURS

MINE = (OURS / "loom-dark.toml").read_text().replace('name = "loom-dark"', 'name = "mine"')


def segments(it: Running) -> list[Segment]:
    """Everything that is on the screen."""
    return [segment for strip in it.app.screen._compositor.render_strips() for segment in strip]


async def test_highlighted_theme_is_previewed_and_escape_restores_the_old_one(it: Running) -> None:
    await it.press("ctrl+x", "t")
    assert it.app.theme == "loom-dark"
    await it.press("down")
    assert it.app.theme == "loom-ansi-dark"
    await it.press("down", "down")
    assert it.app.theme == "loom-clear-dark"
    await it.press("escape")
    assert it.app.theme == "loom-dark"
    assert it.shows_the_workspace


async def test_chosen_theme_is_saved(tmp_path: Path) -> None:
    async with running(home=tmp_path) as it:
        await it.press("ctrl+x", "t", *"light", "enter")
        chosen = it.app.theme
        assert chosen.endswith("light")
        assert load(tmp_path, {}).screen.theme == chosen
        assert chosen in it.screen_text()


async def test_only_themes_that_were_checked_are_offered(it: Running) -> None:
    await it.press("ctrl+x", "t")
    offered = {option.id for option in it.app.screen.query_one(OptionList).options}
    assert offered == {path.stem for path in OURS.glob("*.toml")}


async def test_unknown_theme_is_reported_and_the_default_used() -> None:
    async with running(screen=ScreenSettings(theme="dracula")) as it:
        assert it.app.theme == "loom-dark"
        assert "There is no theme dracula." in it.screen_text()


async def test_changed_theme_file_is_applied(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    async with running(themes_dir=str(tmp_path), theme="mine") as it:
        assert it.app.theme == "mine"
        (tmp_path / "mine.toml").write_text(MINE.replace('background = "#15171A"', 'background = "#000000"'))
        await until(it.pilot, lambda: it.app.current_theme.background == "#000000")
        await it.settle()
        assert it.app.workspace.styles.background.hex == "#000000"


async def test_themes_are_read_again_on_focus_without_a_watcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.themes.commands.watch", lambda folder, changed: None)
    (tmp_path / "mine.toml").write_text(MINE)
    async with running(themes_dir=str(tmp_path), theme="mine") as it:
        (tmp_path / "mine.toml").write_text(MINE.replace('background = "#15171A"', 'background = "#000000"'))
        it.app.post_message(events.AppFocus())
        await it.settle()
        assert it.app.current_theme.background == "#000000"


async def test_wrong_theme_file_is_reported_and_the_default_used(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    async with running(themes_dir=str(tmp_path), theme="mine") as it:
        (tmp_path / "mine.toml").write_text("name = ")
        await until(it.pilot, lambda: it.app.theme == "loom-dark")
        await it.settle()
        assert "mine.toml cannot be read" in it.screen_text()


async def test_reload_finds_a_new_folder_of_themes(tmp_path: Path) -> None:
    folder = tmp_path / "themes"
    async with running(themes_dir=str(folder)) as it:
        folder.mkdir()
        (folder / "mine.toml").write_text(MINE)
        await it.press("ctrl+x", "C")
        assert "mine" in it.app.themes.offered


async def _full(it: Running) -> None:
    await it.session.say("**bold** and `code`\n\n```python\nx = 1\n```")
    await it.session.run("echo hi", "hi\n")
    await it.session.become(agent_state=AgentState.RUNNING)
    await it.settle()


@pytest.mark.parametrize("value", ["1", "0", "no"])
async def test_with_no_color_there_is_no_colour_at_all(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    async with running(size=(160, 48)) as it:
        await _full(it)
        styles = [segment.style for segment in segments(it) if segment.style is not None]
        assert all(style.color is None or style.color.is_default for style in styles)
        assert all(style.bgcolor is None or style.bgcolor.is_default for style in styles)
        assert any(style.bold for style in styles)
        assert any(style.dim for style in styles)
        await it.press("ctrl+p")
        assert any(segment.style and segment.style.reverse for segment in segments(it)), "the choice is to be seen"
        await it.press("escape", "ctrl+x", "t")
        assert it.shows_the_workspace
        assert "NO_COLOR" in it.screen_text()


async def test_empty_no_color_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    async with running() as it:
        assert any(segment.style and segment.style.color and segment.style.color.triplet for segment in segments(it))


@pytest.mark.parametrize("name", ["loom-ansi-dark", "loom-ansi-light"])
async def test_ansi_theme_uses_only_the_terminals_colours(name: str) -> None:
    async with running(size=(160, 48), theme=name) as it:
        await _full(it)
        await it.press("ctrl+p")
        styles = [segment.style for segment in segments(it) if segment.style is not None]
        kinds = {style.color.type for style in styles if style.color is not None}
        assert kinds == {ColorType.DEFAULT, ColorType.STANDARD}
        assert all(style.bgcolor is None or style.bgcolor.is_default for style in styles)
        assert any(style.dim for style in styles)
        assert any(style.reverse for style in styles)


@pytest.mark.parametrize("theme", ["loom-ansi-dark", "loom-ansi-light", "NO_COLOR"])
@pytest.mark.parametrize(
    ("keys", "row"),
    [
        (["ctrl+p"], "Show every key."),
        (["slash"], "/help"),
        (["ctrl+x", "comma"], "model"),
        (["ctrl+x", "m"], "demo"),
        (["f3"], "exit 0"),
    ],
    ids=["palette", "slash commands", "settings", "models", "events"],
)
async def test_row_at_the_cursor_is_visible_without_its_colour(
    theme: str, keys: list[str], row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if theme == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    async with running(size=(100, 30), theme="" if theme == "NO_COLOR" else theme) as it:
        await it.session.run("echo hi", "hi\n")
        await it.press(*keys)
        await it.settle()
        reversed_texts = "".join(one.text for one in segments(it) if one.style is not None and one.style.reverse)
        assert row in reversed_texts


@pytest.mark.parametrize(("wanted", "widest"), [(60, 60), (0, 159), (100, 100)])
async def test_chat_has_the_width_of_the_settings(wanted: int, widest: int) -> None:
    async with running(size=(161, 40), screen=ScreenSettings(reading_width=wanted)) as it:
        await it.press("f2", "f2")
        await it.session.say("word " * 200)
        await it.settle()
        assert it.app.workspace.chat.renderer is not None
        column = it.app.workspace.chat.renderer.column
        assert column <= widest
        assert column >= widest - 4


async def test_text_typed_into_a_dialog_is_readable() -> None:
    async with running(size=(80, 24)) as it:
        await it.press("ctrl+x", "t", *"ember")
        assert "ember" in it.screen_text().split("Enter chooses")[0].split("loom-ember")[0]
