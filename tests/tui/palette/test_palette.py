"""The palette: commands with their keys, those used last first; conversations and settings are found, too."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import Running, running, until
from tui.commands import COMMANDS
from tui.dialogs.search_list import Clickable
from tui.palette.screen import PaletteScreen
from tui.settings.commands import SettingsScreen


async def open_palette(it: Running) -> Clickable:
    await it.press("ctrl+p")
    assert isinstance(it.app.screen, PaletteScreen)
    await it.settle()
    return it.app.screen.query_one(Clickable)


async def test_palette_lists_every_command_with_its_keys() -> None:
    async with running(size=(120, 120)) as it:
        found = await open_palette(it)
        listed = {option.id for option in found.options}
        assert {f"command:{command.id}" for command in COMMANDS if command.in_palette} <= listed
        (row,) = [row for row in it.screen_text().splitlines() if "New conversation" in row]
        assert row.rstrip(" │").endswith("ctrl+n  ctrl+x n")


OTHER_WORDS = {
    "api key": "app.api_keys",
    "login": "app.api_keys",
    "logout": "app.secrets",
    "compact": "memory.compact",
    "summarize": "memory.compact",
    "rewind": "conv.undo",
    "revert": "conv.undo",
    "yolo": "conv.mode",
    "auto approve": "conv.mode",
    "permissions": "app.permissions",
    "light": "app.theme",
    "dark": "app.theme",
    "theme": "app.theme",
    "split": "conv.split",
    "diff": "conv.changes",
    "screenshot": "pane.browser",
    "plot": "pane.chat",
    "save image": "picture.save",
    "full screen": "pane.chat",
    "shortcut": "app.help",
    "clear": "conv.new",
    "resume": "conv.manager",
    "history": "conv.manager",
    "cost": "conv.statistics",
    "usage": "conv.statistics",
    "tokens": "conv.statistics",
    "quit": "app.quit",
    "exit": "app.quit",
    "preferences": "app.settings",
    "status": "conv.statistics",
    "network": "conv.sandbox",
    "allow host": "conv.sandbox",
    "todo": "tasks.toggle",
    "vim": "prompt.editor",
    "bash": "pane.terminal",
    "thinking": "app.settings",
    "hooks": "conv.trust",
    "version": "app.help",
    "feedback": "app.help",
    "doctor": "app.help",
    "add dir": "app.permissions",
    "paste image": "app.help",
}
"""Words of other programs, and the command that each finds."""


@pytest.mark.parametrize(("words", "command"), OTHER_WORDS.items())
async def test_words_of_other_programs_find_the_command(words: str, command: str) -> None:
    async with running(size=(120, 60)) as it:
        found = await open_palette(it)
        await it.press(*words)
        assert f"command:{command}" in [option.id for option in found.options][:3]


async def test_recent_commands_come_first(it: Running) -> None:
    await open_palette(it)
    await it.press(*"jump", "enter", "escape")
    found = await open_palette(it)
    assert [option.id for option in found.options][:2] == [None, "command:app.jump"]
    assert "Recent" in it.screen_text()


async def test_conversation_is_found_by_its_title_and_opened() -> None:
    manager = ManagerDouble()
    other = manager.add(workspace="/elsewhere", title="Mend the parser")
    async with running(manager=manager) as it:
        await open_palette(it)
        await it.press(*"mend pars", "enter")
        assert it.session is other


async def test_old_conversation_is_not_offered() -> None:
    manager = ManagerDouble()
    old = manager.add(workspace="/elsewhere", title="Mend the parser")
    old.info = replace(old.info, updated_at=old.info.updated_at - timedelta(days=11))
    manager.add(workspace="/elsewhere", title="Mend the printer")
    async with running(manager=manager) as it:
        found = await open_palette(it)
        await it.press(*"mend")
        listed = [str(option.id) for option in found.options]
        assert [id for id in listed if id.startswith("conversation:")] == ["conversation:c1"]


async def test_setting_is_found_by_its_help_and_shown(tmp_path: Path) -> None:
    async with running(manager=ManagerDouble(home=tmp_path)) as it:
        await open_palette(it)
        await it.press(*"max_age", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, SettingsScreen))
        await it.settle()
        option = it.app.screen.query_one("#settings-fields", Clickable).highlighted_option
        assert option is not None
        assert option.id == "conversations.max_age_days"


async def test_escape_closes_the_palette(it: Running) -> None:
    await open_palette(it)
    await it.press(*"quit", "escape")
    assert it.shows_the_workspace
    assert it.app.is_running


async def test_rows_arriving_after_the_palette_closed_are_not_drawn(it: Running) -> None:
    await open_palette(it)
    screen = it.app.screen
    assert isinstance(screen, PaletteScreen)
    removed = screen.dismiss()
    await until(it.pilot, lambda: not screen.query(Clickable))
    screen.show()
    await removed
    assert it.shows_the_workspace


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (20, 5)])
async def test_palette_works_at_every_size(size: tuple[int, int]) -> None:
    async with running(size) as it:
        await open_palette(it)
        await it.press(*"theme")
        assert "Theme" in it.screen_text()
        await it.press("enter")
        assert not it.shows_the_workspace
