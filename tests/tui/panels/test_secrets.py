"""The screen of secrets: kept by hidden typing, listed without values, forgotten."""

from __future__ import annotations

from pathlib import Path

from core.secrets.backends import FileBackend
from core.secrets.vault import Vault
from tests.tui.doubles import ManagerDouble
from tests.tui.frame.running import running, until
from tui.screens.line import LineScreen
from tui.screens.secrets import SecretsScreen, ValueScreen


async def test_a_secret_is_typed_unseen_listed_by_name_and_forgotten(tmp_path: Path) -> None:
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
        await until(it.pilot, lambda: manager.vault.all() == [])
        await until(it.pilot, lambda: isinstance(it.app.screen, SecretsScreen))
        await it.press("escape")
