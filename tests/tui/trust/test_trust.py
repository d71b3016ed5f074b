"""The files of a folder are shown completely and sanitised, and are used after approval; refusing is the default."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.widgets import OptionList, Static

from core.settings.screen_settings import ScreenSettings
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import Running, running, until
from tui.dialogs import choice_dialog
from tui.dialogs.choice_dialog import GUARD_S, HELD_GUARDS
from tui.dialogs.dialog import TextScreen
from tui.memory.commands import show_knowledge
from tui.trust.commands import TrustScreen, show_trust


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / ".handloom/commands").mkdir(parents=True)
    (place / "AGENTS.md").write_text("Be \x1b[31mkind\x1b]0;title\x07.\n" + "More.\n" * 100)
    (place / ".handloom/commands/ship.md").write_text("---\ndescription: Ships it.\n---\nShip $ARGUMENTS.")
    (place / ".handloom/skills/greet").mkdir(parents=True)
    (place / ".handloom/skills/greet/SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nWave.")
    return place


UNGUARDED = ScreenSettings(question_guard_ms=0)


@asynccontextmanager
async def opened(folder: Path, tmp_path: Path, screen: ScreenSettings = UNGUARDED) -> AsyncIterator[Running]:
    manager = ManagerDouble(home=tmp_path / "home")
    async with running(manager=manager, workspace=str(folder), model="scripted:one", screen=screen) as run:
        yield run


def text_of(screen: TrustScreen) -> str:
    return "\n".join(str(one.render()) for one in screen.query(Static))


async def asked(run: Running) -> TrustScreen:
    await until(run.pilot, lambda: isinstance(run.app.screen, TrustScreen))
    screen = run.app.screen
    assert isinstance(screen, TrustScreen)
    await run.pilot.pause()
    return screen


async def test_trust_is_asked_once_with_sanitized_texts(folder: Path, tmp_path: Path) -> None:
    async with opened(folder, tmp_path) as run:
        screen = await asked(run)
        assert screen.query_one(OptionList).option_count == 5
        text = text_of(screen)
        assert "kind" in text
        assert "\x1b" not in text
        await run.pilot.press("down", "down", "down")
        await until(run.pilot, lambda: "Ship $ARGUMENTS" in text_of(screen) or "Wave" in text_of(screen))
        await run.pilot.press("2", "enter")
        await until(run.pilot, lambda: bool(run.manager.sessions))
        assert (await run.manager.trust.state_of(str(folder))).waiting == ()


@pytest.mark.parametrize("keys", [["enter"], ["1", "enter"], ["escape"], ["2", "escape"], [*"yx", "enter"]])
async def test_refusal_is_the_default_and_remembered(folder: Path, tmp_path: Path, keys: list[str]) -> None:
    async with opened(folder, tmp_path) as run:
        await asked(run)
        await run.pilot.press(*keys)
        await until(run.pilot, lambda: bool(run.manager.sessions))
        state = await run.manager.trust.state_of(str(folder))
        assert (state.trusted, state.needs_answer) == ((), False)


async def test_typing_while_the_dialog_appears_does_not_approve(folder: Path, tmp_path: Path) -> None:
    async with opened(folder, tmp_path, screen=ScreenSettings()) as run:
        await asked(run)
        await run.pilot.press("2", "enter")  # it could not be seen yet
        assert isinstance(run.app.screen, TrustScreen)
        run.clock.now += GUARD_S * HELD_GUARDS + 0.1
        await run.pilot.press("2", "enter")
        await until(run.pilot, lambda: bool(run.manager.sessions))
        assert (await run.manager.trust.state_of(str(folder))).waiting == ()


async def test_text_for_the_prompt_does_not_answer(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Keys are pressed at times of the test's clock, so the real time that a key waits on a busy machine must not count.
    monkeypatch.setattr(choice_dialog, "time", SimpleNamespace(monotonic=lambda: 0.0))
    async with opened(folder, tmp_path, screen=ScreenSettings()) as run:
        screen = await asked(run)
        run.clock.now += 5
        for key in (*"yes, fix 1 or 2", "enter", "2", "enter"):
            await run.pilot.press(key)
            run.clock.now += 0.15
        assert run.app.screen is screen
        assert screen.query_one(OptionList).highlighted == 0
        run.clock.now += 2
        await run.pilot.press("2", "enter")
        await until(run.pilot, lambda: bool(run.manager.sessions))
        assert (await run.manager.trust.state_of(str(folder))).waiting == ()


async def test_trust_is_revoked_on_the_screen(folder: Path, tmp_path: Path) -> None:
    async with opened(folder, tmp_path) as run:
        await asked(run)
        await run.pilot.press("2", "enter")
        await until(run.pilot, lambda: bool(run.manager.sessions))
        show_trust(run.app)
        await asked(run)
        await run.pilot.press("y", "x")
        assert isinstance(run.app.screen, TrustScreen)
        await run.pilot.press("down", "enter")
        await until(run.pilot, lambda: not isinstance(run.app.screen, TrustScreen))
        await until(run.pilot, lambda: run.manager.trust.folders() == {})


async def test_commands_and_skills_of_a_trusted_project_are_offered(folder: Path, tmp_path: Path) -> None:
    async with opened(folder, tmp_path) as run:
        await asked(run)
        await run.pilot.press("escape")
        await until(run.pilot, lambda: bool(run.manager.sessions))
        assert "/ship" not in [row.label for row in await run.app.completion.find_commands("")]
        await run.manager.trust.approve(str(folder), await run.manager.trust.state_of(str(folder)))
        rows = {row.label: row.note for row in await run.app.completion.find_commands("")}
        assert (rows["/ship"], rows["/greet"]) == ("Ships it.", "Greets.")


async def test_knowledge_list_shows_what_applies_and_problems(folder: Path, tmp_path: Path) -> None:
    (folder / ".cursorrules").symlink_to("/etc/passwd")
    async with opened(folder, tmp_path) as run:
        await asked(run)
        await run.pilot.press("escape")
        await until(run.pilot, lambda: bool(run.manager.sessions))
        show_knowledge(run.app)
        await until(run.pilot, lambda: isinstance(run.app.screen, TextScreen))
        text = "\n".join(str(one.render()) for one in run.app.screen.query(Static))
        assert "3 files need your trust" in text
        assert "! .cursorrules\n    a link" in text
        assert "Greets" not in text


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (160, 48)])
async def test_highlighted_answer_is_visible_at_every_size(folder: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    manager = ManagerDouble(home=tmp_path / "home")
    async with running(size, manager, workspace=str(folder), model="scripted:one", screen=UNGUARDED) as run:
        screen = await asked(run)
        lines = screen.query_one(OptionList)
        for words in ("Do not trust", "Trust them", "AGENTS.md"):
            row = lines.highlighted
            assert row is not None
            assert words in run.screen_text()
            assert words in str(lines.get_option_at_index(row).prompt)
            await run.press("down")
        await run.press("up", "up", "up")
        assert "Do not trust" in run.screen_text()
