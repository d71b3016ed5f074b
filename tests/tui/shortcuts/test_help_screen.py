"""The help: keys of the focused widget first, search by typing, two columns if there is space."""

from __future__ import annotations

import pytest

from tests.tui.workspace.running_app import running
from tui.commands import COMMANDS, Scope, all_keys
from tui.shortcuts.help_screen import HelpScreen, help_columns


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("count", [1, 2])
def test_help_lists_every_command_once_with_its_keys(scope: Scope, count: int) -> None:
    text = "\n".join(column.plain for column in help_columns(60, scope, count=count))
    for command in COMMANDS:
        assert ", ".join(all_keys(command)) in text
    assert text.count("Take over the terminal") == 1


@pytest.mark.parametrize(
    ("scope", "first"), [(Scope.PROMPT, "Send"), (Scope.CHAT, "Open"), (Scope.QUESTION, "Choose an answer")]
)
def test_keys_of_the_focused_widget_come_first(scope: Scope, first: str) -> None:
    lines = help_columns(60, scope)[0].plain.splitlines()
    here = lines.index(f"Here: {scope}")
    assert [line for line in lines[:here] if line and not line.startswith(" ")] == ["Most used"]
    assert any(f" {first}. " in line for line in lines[here + 1 : here + 3]), "many keys have a line of their own"


def test_help_opens_with_ten_keys_and_the_panes() -> None:
    lines = help_columns(60, Scope.PROMPT)[0].plain.splitlines()
    rows = [line.split() for line in lines[1 : lines.index("")]]
    assert len(rows) == 14
    assert [keys for keys, *_title in rows[-4:]] == ["F2", "F3", "F4", "F5"]
    assert rows[0] == ["Enter", "Send"]


def test_searched_help_has_no_key_twice() -> None:
    text = help_columns(60, Scope.PROMPT, "send the message")[0].plain
    assert "Most used" not in text
    assert text.count("Send.") == 1


def test_help_says_if_nothing_matches() -> None:
    assert help_columns(60, Scope.PROMPT, "xyzzy")[0].plain == "No key matches."


async def test_help_is_searched_by_typing() -> None:
    async with running(size=(140, 40)) as it:
        await it.press("f1")
        assert isinstance(it.app.screen, HelpScreen)
        assert "Here: prompt" in it.screen_text()
        await it.press(*"ctrl+t")
        assert "Show or hide the agent's plan" in it.screen_text()
        assert "Send the message" not in it.screen_text()
        await it.press("enter")
        assert it.shows_the_workspace


async def test_help_shows_the_help_text_of_the_focused_pane() -> None:
    async with running(size=(140, 40)) as it:
        await it.press("f5", "f1")
        assert "Here: browser" in it.screen_text()
        assert "Copy the address" in it.screen_text()


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (20, 5)])
async def test_help_works_at_every_size(size: tuple[int, int]) -> None:
    async with running(size) as it:
        await it.press("f1", "pagedown", "down", "up", "escape")
        assert it.shows_the_workspace
