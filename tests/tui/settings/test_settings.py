"""The settings screen: every field of the settings can be changed from it, by keys or by the mouse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from textual.widgets import Input, Static

from core.secrets.backends import FileBackend
from core.secrets.provider_keys import KeyWanted
from core.secrets.vault import Vault
from core.settings.config import Settings, load
from core.settings.editable_settings import Kind, fields, kind_of
from tests.settings.test_editable_settings import sample
from tests.tui.doubles import KeysDouble, ManagerDouble
from tests.tui.workspace.running_app import Running, running, until
from tui.dialogs.search_list import Clickable
from tui.models.key_screen import KeyScreen
from tui.settings.commands import SettingsScreen

NAMES = [name for name, _ in fields(Settings)]


@asynccontextmanager
async def settings_of(
    home: Path, size: tuple[int, int] = (120, 40), keys: KeysDouble | None = None, **environ: str
) -> AsyncIterator[Running]:
    vault = Vault(home, FileBackend(home))
    manager = ManagerDouble(home=home, environ=environ, keys=keys or KeysDouble(), vault=vault)
    async with running(size, manager) as it:
        await it.press("ctrl+x", "comma")
        assert isinstance(it.app.screen, SettingsScreen)
        await it.settle()
        yield it


def list_of(it: Running) -> Clickable:
    return it.app.screen.query_one("#settings-fields", Clickable)


def is_written(told: Static, name: str) -> bool:
    return f"{name} is saved" in str(told.content)


async def go_to(it: Running, name: str) -> None:
    found = list_of(it)
    found.highlighted = found.get_option_index(name)
    await it.settle()


async def test_every_field_has_a_control_that_writes_it(tmp_path: Path) -> None:
    """By the actions behind the keys: one start for all of them, each read again from the file."""
    async with settings_of(tmp_path) as it:
        screen, found = it.app.screen, list_of(it)
        assert isinstance(screen, SettingsScreen)
        told, field = screen.query_one("#settings-message", Static), screen.query_one("#settings-value", Input)
        for name, info in fields(Settings):
            found.highlighted = found.get_option_index(name)
            if kind_of(info) in (Kind.SWITCH, Kind.CHOICE):
                screen.action_step(1)
            else:
                found.action_select()
                await until(it.pilot, lambda: field.has_focus)
                field.value = str(sample(name, info))
                await field.action_submit()
            await until(it.pilot, partial(is_written, told, name))
    settings = load(tmp_path, {})
    for name, info in fields(Settings):
        section, _, field_name = name.rpartition(".")
        value = getattr(getattr(settings, section) if section else settings, field_name)
        assert value != info.default or name == "runtime", name


async def test_wrong_value_is_reported_while_typing_and_not_written(tmp_path: Path) -> None:
    async with settings_of(tmp_path) as it:
        await go_to(it, "agent.max_iterations")
        await it.press("enter", "ctrl+u", *"0")
        assert "greater than or equal to 1" in it.screen_text()
        await it.press("enter")
        assert it.app.screen.query_one("#settings-value", Input).has_focus
        await it.press("backspace", *"12")
        assert "greater than" not in it.screen_text()
        await it.press("enter")
        assert load(tmp_path, {}).agent.max_iterations == 12
        assert "It takes effect for conversations that are opened later." in it.screen_text()


async def test_environment_value_is_shown_and_cannot_be_changed(tmp_path: Path) -> None:
    async with settings_of(tmp_path, HANDLOOM__AGENT__CONFIRM="never") as it:
        await go_to(it, "agent.confirm")
        assert "‹ never ›" in it.screen_text()
        assert "environment" in it.screen_text()
        await it.press("right")
        assert "HANDLOOM__AGENT__CONFIRM" in it.screen_text()
        assert not (tmp_path / "config.toml").exists()


async def test_delete_resets_a_field_to_its_default(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("# mine\n[agent]\nmax_iterations = 7\n")
    async with settings_of(tmp_path) as it:
        await go_to(it, "agent.max_iterations")
        assert "config.toml" in it.screen_text()
        await it.press("delete")
        assert load(tmp_path, {}).agent.max_iterations == 500
    assert (tmp_path / "config.toml").read_text().startswith("# mine")


async def test_slash_filters_and_escape_leaves_step_by_step(tmp_path: Path) -> None:
    async with settings_of(tmp_path) as it:
        await it.press("slash", *"budget")
        assert [option.id for option in list_of(it).options if option.id] == ["agent.max_budget", "day.max_budget"]
        await it.press("down", "enter")
        assert it.app.screen.query_one("#settings-value", Input).has_focus
        await it.press("escape")
        assert list_of(it).has_focus
        await it.press("escape")
        assert len([option for option in list_of(it).options if option.id]) == len(NAMES) + 2, "the keys, the model"
        await it.press("escape")
        assert it.shows_the_workspace


async def test_change_saved_after_the_screen_closed_is_not_drawn(tmp_path: Path) -> None:
    async with settings_of(tmp_path) as it:
        await go_to(it, "agent.max_iterations")
        screen = it.app.screen
        assert isinstance(screen, SettingsScreen)
        setting = screen._setting
        assert setting is not None
        await it.press("escape")
        await until(it.pilot, lambda: it.shows_the_workspace and not screen.query(Clickable))
        await screen._written(setting, "77")
    assert load(tmp_path, {}).agent.max_iterations == 77


async def test_models_lead_to_the_key_of_a_provider_and_back(tmp_path: Path) -> None:
    keys = KeysDouble(offered=[(KeyWanted("anthropic/one", "ANTHROPIC_API_KEY", "Anthropic"), False)])
    async with settings_of(tmp_path, keys=keys) as it:
        assert list_of(it).highlighted_option.id == "models.model"  # type: ignore[union-attr]
        await go_to(it, "models.ANTHROPIC_API_KEY")
        assert "no key yet" in it.screen_text()
        await it.press("left", "delete")
        assert "Press Enter to change this." in it.screen_text()
        await it.press("enter")
        assert isinstance(it.app.screen, KeyScreen)
        await it.press(*"sk-1", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, SettingsScreen))
        await it.settle()
        assert list_of(it).highlighted_option.id == "models.ANTHROPIC_API_KEY"  # type: ignore[union-attr]
        assert "has a key" in it.screen_text()


async def test_group_leads_to_its_fields(tmp_path: Path) -> None:
    async with settings_of(tmp_path) as it:
        groups = it.app.screen.query_one("#settings-groups", Clickable)
        groups.focus()
        await it.press("down", "down", "down", "enter")
        assert list_of(it).has_focus
        assert list_of(it).highlighted_option.id == "agent.name"  # type: ignore[union-attr]


async def test_click_highlights_a_field_and_double_click_changes_it(tmp_path: Path) -> None:
    async with settings_of(tmp_path) as it:
        found = list_of(it)
        row = found.get_option_index("agent.max_budget")
        await it.pilot.click(found, offset=(5, row))
        await it.settle()
        assert found.highlighted == row
        assert not it.app.screen.query_one("#settings-value", Input).has_focus
        await it.pilot.click(found, offset=(5, row), times=2)
        await it.settle()
        assert it.app.screen.query_one("#settings-value", Input).has_focus


async def test_unreadable_file_is_reported_and_the_workspace_stays(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("model = [")
    async with running(manager=ManagerDouble(home=tmp_path)) as it:
        await it.press("ctrl+x", "comma")
        assert it.shows_the_workspace
        assert "cannot be read" in it.screen_text()


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (20, 5)])
async def test_highlighted_field_is_visible_at_every_size(size: tuple[int, int], tmp_path: Path) -> None:
    async with settings_of(tmp_path, size) as it:
        await it.press(*["down"] * 12)
        found = list_of(it)
        assert it.app.screen.region.contains_region(found.region)
        option = found.highlighted_option
        assert option is not None
        assert str(option.id).rpartition(".")[2][:6] in it.screen_text()


async def test_emptied_number_gets_its_default(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[agent]\nmax_iterations = 7\n")
    async with settings_of(tmp_path) as it:
        await go_to(it, "agent.max_iterations")
        await it.press("enter", "ctrl+u", "enter")
        assert load(tmp_path, {}).agent.max_iterations == 500


async def test_keys_row_opens_their_file_and_changes_nothing(tmp_path: Path) -> None:
    async with settings_of(tmp_path) as it:
        await it.press("slash", *"keys.", "down", "end", "delete")
        assert "Your keys are in config.toml. /keys opens it" in it.screen_text()
        await it.press("enter")
        assert it.shows_the_workspace
