"""The same conversation in every theme, without colours, and in ASCII."""

from __future__ import annotations

import pytest

from core.settings.screen_settings import ScreenSettings
from tests.tui.snapshots.comparing import compare
from tests.tui.snapshots.scenes import conversation
from tests.tui.workspace.running_app import Running, running
from tui.themes.theme_files import OURS

SIZE = (100, 30)


async def shown(it: Running) -> None:
    """The conversation with the block cursor in sight."""
    await conversation(it)
    await it.press("f2", "up")


@pytest.mark.parametrize("name", sorted(path.stem for path in OURS.glob("*.toml")))
async def test_theme_matches_its_snapshot(name: str) -> None:
    async with running(size=SIZE, theme=name) as it:
        await shown(it)
        compare(name, it.app)


async def test_no_color_matches_its_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(size=SIZE) as it:
        await shown(it)
        compare("no-color", it.app)


async def test_ascii_matches_its_snapshot() -> None:
    async with running(size=SIZE, screen=ScreenSettings(glyphs="ascii")) as it:
        await shown(it)
        compare("ascii", it.app)
