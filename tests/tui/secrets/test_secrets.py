"""The screen of secrets: kept by hidden typing, listed without values, forgotten."""

from __future__ import annotations

from pathlib import Path

from textual.events import Paste

from core.secrets.backends import FileBackend
from core.secrets.vault import Vault
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import running, until
from tui.dialogs.dialog import LineScreen, SureScreen
from tui.secrets.commands import NameScreen, SecretsScreen, ValueField, ValueScreen


async def test_secret_is_added_hidden_listed_and_deleted(tmp_path: Path) -> None:
    manager = ManagerDouble()
    manager.vault = Vault(tmp_path, FileBackend(tmp_path))
    async with running(manager=manager, workspace=str(tmp_path)) as it:
        await it.press("ctrl+x", "S")
        await until(it.pilot, lambda: isinstance(it.app.screen, SecretsScreen))
        await it.press("a")
        await until(it.pilot, lambda: isinstance(it.app.screen, LineScreen))
        await it.press(*"TOKEN", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ValueScreen))
        await it.press(*"canary-value")
        await it.settle()
        assert "canary" not in it.screen_text()
        await it.press("enter")
        await until(it.pilot, lambda: type(it.app.screen) is LineScreen)
        await it.press(*"Shop", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, SecretsScreen))
        await it.settle()
        assert "TOKEN  Shop  (everywhere; last used: never)" in it.screen_text()
        assert "canary" not in it.screen_text()
        assert manager.vault.values() == ["canary-value"]
        await it.press("d")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        assert "Delete TOKEN (everywhere)?" in it.screen_text()
        await it.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, SecretsScreen))
        assert manager.vault.values() == ["canary-value"], "only y forgets it"
        await it.press("d")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.press("down", "enter")
        await until(it.pilot, lambda: manager.vault.all() == [])
        await until(it.pilot, lambda: isinstance(it.app.screen, SecretsScreen))
        await it.press("escape")


async def test_invalid_name_is_reported_and_a_key_can_be_pasted(tmp_path: Path) -> None:
    manager, key = ManagerDouble(), "-----BEGIN KEY-----\ncanary-line-1\ncanary-line-2\n-----END KEY-----"
    manager.vault = Vault(tmp_path, FileBackend(tmp_path))
    manager.vault.put("MY_KEY", "canary-before", description="Kept.")
    async with running(manager=manager, workspace=str(tmp_path)) as it:
        await it.press("ctrl+x", "S")
        await until(it.pilot, lambda: isinstance(it.app.screen, SecretsScreen))
        await it.press("a")
        await until(it.pilot, lambda: type(it.app.screen) is NameScreen)
        await it.press(*"PATH", "enter")
        await it.settle()
        assert "cannot be a secret's name" in it.screen_text()
        await it.press(*["backspace"] * 4, *"MY", "underscore", *"KEY", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ValueScreen))
        await it.press(*"short", "enter")
        await it.settle()
        assert "fewer than 8 characters" in it.screen_text()
        it.app.screen.query_one(ValueField).post_message(Paste(key.replace("\n", "\r") + "\r"))
        await it.settle()
        assert "New value of MY_KEY" in it.screen_text()
        assert "4 lines pasted" in it.screen_text()
        assert "canary" not in it.screen_text()
        await it.press("enter")
        await until(it.pilot, lambda: type(it.app.screen) is LineScreen)
        assert manager.vault.values() == ["canary-before"]
        await it.press("enter")
        await until(it.pilot, lambda: manager.vault.values() == [key])
        assert manager.vault.all()[0].description == "Kept."
