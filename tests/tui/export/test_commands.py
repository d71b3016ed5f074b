"""Exporting on the screen: format, file, and the dialog about possible secrets, in which no letter exports anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from core.import_export.exporter import FORMATS
from core.settings.screen_settings import ScreenSettings
from core.store.conversations import ConversationInfo
from core.store.event_store import EventStore
from tests.import_export.conversations import BEGAN_AT, ORDINARY, home_with
from tests.import_export.test_secret_scan import SECRET, leaking
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import Running, running, until
from tui.dialogs.dialog import ChoiceScreen, LineScreen, SureScreen
from tui.export.commands import FindingsScreen, descriptions, suggested_file


def manager_of(home: EventStore) -> ManagerDouble:
    """A manager whose conversation `c0` on the screen is `c` of a real home."""
    manager = ManagerDouble()

    class Renamed:
        """The home, in which `c0` is called `c`."""

        def __getattr__(self, name: str) -> Any:
            method = getattr(home, name)
            return lambda conversation_id, *args, **named: method("c", *args, **named)

    manager.store = cast(Any, Renamed())
    return manager


async def to_file(it: Running, file: Path) -> None:
    """Give the command, choose Markdown, name the file."""
    await it.press("ctrl+x", "e")
    await until(it.pilot, lambda: isinstance(it.app.screen, ChoiceScreen))
    await it.press(*"markdown", "enter")
    await until(it.pilot, lambda: isinstance(it.app.screen, LineScreen))
    line = it.app.screen.query_one("Input")
    line.value = str(file)  # type: ignore[attr-defined]
    await it.press("enter")


async def test_export_asks_for_format_and_file(tmp_path: Path) -> None:
    async with home_with(tmp_path, ORDINARY) as home, running(manager=manager_of(home)) as it:
        await to_file(it, tmp_path / "work.md")
        await until(it.pilot, (tmp_path / "work.md").exists)
        await it.settle()
        assert (tmp_path / "work.md").read_text().startswith("# A task")
        assert "Written: " in it.screen_text()


async def test_existing_file_is_replaced_only_after_a_question(tmp_path: Path) -> None:
    file = tmp_path / "work.md"
    file.write_text("mine")
    async with home_with(tmp_path, ORDINARY) as home, running(manager=manager_of(home)) as it:
        await to_file(it, file)
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.press("enter")
        await it.settle()
        assert file.read_text() == "mine"
        await to_file(it, file)
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.press("down", "enter")
        await until(it.pilot, lambda: file.read_text().startswith("# A task"))
        await it.settle()


@pytest.mark.parametrize(
    ("keys", "is_written", "redacted"),
    [
        (["escape"], False, False),
        (["enter"], False, False),
        (["down", "enter"], True, True),
        (["down", "down", "enter"], True, False),
    ],
)
async def test_secrets_are_shown_before_anything_is_written(
    keys: list[str], is_written: bool, redacted: bool, tmp_path: Path
) -> None:
    file = tmp_path / "work.md"
    async with home_with(tmp_path, leaking()) as home, running(manager=manager_of(home)) as it:
        await to_file(it, file)
        await until(it.pilot, lambda: isinstance(it.app.screen, FindingsScreen))
        await until(it.pilot, lambda: "a GitHub token" in it.screen_text())
        assert SECRET not in it.screen_text()
        assert not file.exists()
        await it.press(*keys)
        await until(it.pilot, lambda: it.shows_the_workspace)
        await it.settle()
        assert file.exists() == is_written
        if is_written:
            assert (SECRET in file.read_text()) != redacted


@pytest.mark.parametrize("has_secrets", [False, True])
async def test_unsearched_pictures_are_reported(has_secrets: bool, tmp_path: Path) -> None:
    file, told = tmp_path / "work.md", f"were not searched for secrets: {2 if has_secrets else 1}."
    events = [*ORDINARY, *leaking()] if has_secrets else ORDINARY
    async with home_with(tmp_path, events) as home, running(manager=manager_of(home)) as it:
        await to_file(it, file)
        if has_secrets:
            await until(it.pilot, lambda: isinstance(it.app.screen, FindingsScreen))
            await until(it.pilot, lambda: told in it.screen_text())
            await it.press("down", "enter")
        await until(it.pilot, lambda: it.shows_the_workspace and told in it.screen_text())
        assert file.exists()
        await it.settle()


def test_suggested_name_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    info = ConversationInfo("0123456789", "../Fix: the /sum\n", str(tmp_path / "work"), "", BEGAN_AT, BEGAN_AT, 0)
    first = suggested_file(info, FORMATS["html"])
    assert first == tmp_path / "Fix-the-sum-01234567.html"
    first.touch()
    assert suggested_file(info, FORMATS["html"]).name == "Fix-the-sum-01234567-2.html"
    gone = ConversationInfo("0123456789", "", "/nowhere/at/all", "", BEGAN_AT, BEGAN_AT, 0)
    assert suggested_file(gone, FORMATS["archive"]) == tmp_path / "home" / "0123456789.handloom.zip"


def test_screen_and_command_line_describe_formats_alike() -> None:
    assert descriptions() == {name: row.about for name, row in FORMATS.items()}


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["enter"], None),
        (["2", "enter"], "redact"),
        (["down", "down", "enter"], "keep"),
        (["3", "escape"], None),
        ([*"mwyk", "enter"], None),
    ],
)
async def test_only_the_selected_row_exports(keys: list[str], answer: str | None) -> None:
    async with running() as it:
        answers: list[str | None] = []
        await it.app.push_screen(FindingsScreen(["A key"]), answers.append)
        await it.press(*keys[:-1])
        assert answers == []
        await it.press(keys[-1])
        assert answers == [answer]


async def test_keys_are_ignored_in_the_first_moments() -> None:
    async with running(screen=ScreenSettings()) as it:
        answers: list[str | None] = []
        await it.app.push_screen(FindingsScreen(["A key"]), answers.append)
        await it.press("2", "enter", "enter")
        assert answers == []
