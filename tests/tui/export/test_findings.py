"""A possible secret leaves only by the row that says so: no letter lets it go."""

from __future__ import annotations

import pytest

from core.settings.screen_settings import ScreenSettings
from tests.tui.workspace.running_app import running
from tui.export.commands import FindingsScreen


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
