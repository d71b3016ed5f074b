"""Jump mode: a letter over everything that can have the focus."""

from __future__ import annotations

import pytest

from core.events import CmdRunAction
from tests.tui.workspace.running_app import Running, running
from tui.browser.page_elements import LETTERS
from tui.jump.commands import JumpScreen

pytestmark = pytest.mark.every_frame


async def jump(it: Running) -> JumpScreen:
    await it.press("ctrl+x", "g")
    screen = it.app.screen
    assert isinstance(screen, JumpScreen)
    return screen


async def test_letters_lead_to_panes_and_prompt() -> None:
    async with running(size=(170, 40)) as it:
        seen = []
        for letter in LETTERS[:5]:
            await jump(it)
            await it.press(letter)
            assert it.shows_the_workspace
            seen.append(it.app.focused.id if it.app.focused else None)
        assert seen == ["prompt", "chat", "events", "terminal", "prompt"]  # the first letter is the tab's


async def test_letters_lead_to_tab_and_question() -> None:
    async with running(size=(170, 40)) as it:
        first = it.session
        await it.press("ctrl+n")
        await it.session.hold(CmdRunAction(command="make"))
        await it.settle()
        await it.press("f4")
        screen = await jump(it)
        letters = len(screen.query(".letter"))
        await it.press(LETTERS[letters - 1])
        assert it.prompt_has_focus
        await jump(it)
        await it.press("a")
        assert it.session is first


async def test_escape_and_unknown_keys_leave_jump_mode() -> None:
    async with running() as it:
        for key in ("escape", "0", "f7"):
            await jump(it)
            await it.press(key)
            assert it.shows_the_workspace
            assert it.prompt_has_focus
        assert it.app.workspace.prompt.text == ""


async def test_click_on_letter_goes_there() -> None:
    async with running(size=(170, 40)) as it:
        screen = await jump(it)
        chat = it.app.workspace.chat.region
        letter = next(w for w in screen.query(".letter") if w.region.offset == chat.offset)
        await it.pilot.click(letter)
        await it.settle()
        assert it.app.focused is it.app.workspace.chat


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (20, 5)])
async def test_letters_are_visible_at_every_size(size: tuple[int, int]) -> None:
    async with running(size) as it:
        screen = await jump(it)
        letters = list(screen.query(".letter"))
        assert letters
        assert all(screen.region.overlaps(letter.region) for letter in letters)
        await it.press("escape")
