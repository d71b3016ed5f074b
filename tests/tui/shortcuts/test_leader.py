"""The strip of the leader: every second key, by kind, in pages where it does not fit."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.tui.workspace.running_app import Running, running, until
from tui.commands import COMMANDS
from tui.shortcuts.leader import WhichKey, pages

LISTED = [command for command in COMMANDS if command.leader]


@pytest.mark.parametrize(("width", "height"), [(158, 44), (98, 26), (78, 20), (40, 10), (18, 3), (18, 1), (8, 1)])
def test_every_key_is_on_a_page_that_fits(width: int, height: int) -> None:
    made = pages(LISTED, width, height)
    lines = [line for page in made for line in page.plain.splitlines()]
    assert all(len(page.plain.splitlines()) <= height for page in made)
    assert all(cell_len(line.rstrip()) <= max(width, 8) + 1 for line in lines)
    words = " ".join(lines).split()
    assert all(command.leader in words for command in LISTED)


def test_wide_strip_is_one_page_with_group_names() -> None:
    (page,) = pages(LISTED, 158, 44)
    assert all(group in page.plain for group in {command.group for command in LISTED})


async def test_space_shows_the_next_page_of_the_strip() -> None:
    async with running((40, 12)) as it:
        await it.press("ctrl+x")
        strip = it.app.workspace.query_one(WhichKey)
        strip.reveal()
        await it.pilot.pause()
        first = it.screen_text()
        assert "Space: more (1 of" in first
        await it.press("space")
        assert "Space: more (2 of" in it.screen_text()
        assert it.app.leader.is_armed
        await it.press("w")
        assert it.app.tabs.current is None
        assert not strip.display


async def test_strip_is_laid_out_again_in_a_window_of_another_size() -> None:
    async with running((80, 24)) as it:
        await it.press("ctrl+x")
        strip = it.app.workspace.query_one(WhichKey)
        strip.reveal()
        await it.pilot.pause()
        await it.pilot.resize_terminal(40, 12)
        await it.settle()
        narrow = it.screen_text()
        assert "Space: more (1 of" in narrow
        await it.press("escape", "ctrl+x")
        strip.reveal()
        await it.settle()
        assert it.screen_text() == narrow


async def test_a_click_closes_the_strip(it: Running) -> None:
    await it.press("ctrl+x")
    strip = it.app.workspace.query_one(WhichKey)
    await until(it.pilot, lambda: strip.display)
    assert it.app.leader.is_armed
    await it.pilot.click("#prompt")
    assert not it.app.leader.is_armed
    assert not strip.display


async def test_escape_closes_the_strip_and_stops_nothing() -> None:
    async with running() as it:
        await it.press(*"half a text", "ctrl+x")
        it.app.workspace.query_one(WhichKey).reveal()
        await it.press("escape")
        assert not it.app.leader.is_armed
        assert it.session.wishes == []
        assert it.app.workspace.prompt.text == "half a text"


async def test_space_before_the_strip_is_no_command(it: Running) -> None:
    await it.press("ctrl+x", "space")
    assert not it.app.leader.is_armed
    assert it.app.workspace.prompt.text == ""


def test_groups_are_in_the_order_of_the_table() -> None:
    (page,) = pages(LISTED, 158, 44)
    order = list(dict.fromkeys(command.group for command in COMMANDS if command.leader))
    assert sorted(order, key=page.plain.index) == order
