"""Reviewing the changes of a conversation: the real app, real conversations, a real folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import MessageAction, ReviewAction
from tests.checkpoints.test_turns import read
from tests.tui.undo.test_undo import Shown, shown
from tests.tui.workspace.running_app import until
from tui.dialogs.dialog import LineScreen, SureScreen
from tui.review.commands import ChangesScreen

LONG = "".join(f"line {n}\n" for n in range(1, 41))


async def looked_through(it: Shown) -> None:
    """The agent has written `a` and `b`, then the user opens the screen."""
    await it.say("the first task")
    await it.say("the second task")
    await it.leader("d", ChangesScreen)
    await it.sees("+ a  +1 −0")
    await it.sees("+2")


@pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_files_are_accepted_and_reverted(tmp_path: Path, size: tuple[int, int]) -> None:
    async with shown(tmp_path) as it:
        await it.pilot.resize_terminal(*size)
        await looked_through(it)
        before = read(it.workspace)
        await it.sees("@@ -1,0 +1,1 @@")
        await it.pilot.press("a")
        await until(it.pilot, lambda: "+ a" not in it.text())
        await it.sees("+ b  +1 −0")
        assert read(it.workspace) == before
        await it.pilot.press("r")
        await it.sees("Revert all changes in b?")
        await it.pilot.press("enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ChangesScreen))
        assert read(it.workspace) == before, "the highlight starts at the answer that does nothing"
        await it.pilot.press("r")
        await it.sees("Revert all changes in b?")
        await it.pilot.press("down", "enter")
        await it.sees("No changes left to review.")
        assert read(it.workspace) == {"a": before["a"]}
        await it.pilot.press("escape")
        await until(it.pilot, lambda: it.app.screen is it.app.workspace)
        (accepted,) = [e.event for e in await it.session.stream.read() if isinstance(e.event, ReviewAction)]
        assert accepted.path == "a"


async def test_hunk_and_file_are_reverted_after_confirmation(tmp_path: Path) -> None:
    async with shown(tmp_path) as it:
        it.workspace.mkdir(exist_ok=True)
        await looked_through(it)
        await it.pilot.press("tab")
        await it.sees("Tab files")
        await it.pilot.press("r")
        await it.sees("Revert this change in a?")
        await it.pilot.press("down", "enter")
        await until(it.pilot, lambda: isinstance(it.app.screen, ChangesScreen))
        await until(it.pilot, lambda: "+ a" not in it.text())
        assert "a" not in read(it.workspace)
        await it.pilot.press("R")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.pilot.press("escape")
        await until(it.pilot, lambda: isinstance(it.app.screen, ChangesScreen))
        assert "b" in read(it.workspace)
        await it.pilot.press("R")
        await until(it.pilot, lambda: isinstance(it.app.screen, SureScreen))
        await it.pilot.press("down", "enter")
        await it.sees("No changes left to review.")
        assert read(it.workspace) == {}


async def test_early_keys_change_nothing(tmp_path: Path) -> None:
    async with shown(tmp_path, guard_ms=60_000) as it:
        await looked_through(it)
        before = read(it.workspace)
        await it.pilot.press("a", "r", "A", "R", "tab", "r", "enter")
        await it.sees("+ a  +1 −0")
        assert isinstance(it.app.screen, ChangesScreen)
        await it.pilot.press("escape")
        await until(it.pilot, lambda: it.app.screen is it.app.workspace)
        assert read(it.workspace) == before
        assert not [e for e in await it.session.stream.read() if isinstance(e.event, ReviewAction)]


async def test_remarks_are_sent_or_put_into_the_prompt(tmp_path: Path) -> None:
    async with shown(tmp_path) as it:
        await looked_through(it)
        await it.pilot.press("tab", "c")
        await until(it.pilot, lambda: isinstance(it.app.screen, LineScreen))
        await it.pilot.press(*"why", "enter")
        await it.sees("s sends 1 remark")
        await it.pilot.press("escape")
        await until(it.pilot, lambda: it.app.workspace.prompt.text == "a: why")
        it.app.workspace.prompt.take()
        await it.leader("d", ChangesScreen)
        await it.sees("+ a")
        await it.pilot.press("c")
        await until(it.pilot, lambda: isinstance(it.app.screen, LineScreen))
        await it.pilot.press(*"name", "enter")
        await it.sees("s sends 1 remark")
        await it.pilot.press("tab", "c")
        await until(it.pilot, lambda: isinstance(it.app.screen, LineScreen))
        await it.pilot.press(*"two", "enter")
        await it.sees("s sends 2 remarks")
        await it.pilot.press("s")
        await until(it.pilot, lambda: it.app.screen is it.app.workspace)
        await it.session.settled()
        said = [e.event for e in await it.session.stream.read() if isinstance(e.event, MessageAction)]
        (sent,) = [event for event in said if event.content.startswith("a: ")]
        assert sent.content == "a: name\na: two"
        assert sent.context.startswith("About this change of a:\n```diff\n@@")


async def test_missing_checkpoint_is_explained(tmp_path: Path) -> None:
    async with shown(tmp_path) as it:
        await it.leader("d", ChangesScreen)
        await it.sees("There is no checkpoint of this workspace yet")
        await it.pilot.press("a", "r", "A", "R", "c", "s", "tab", "escape")
        await until(it.pilot, lambda: it.app.screen is it.app.workspace)


async def test_file_names_and_contents_are_sanitized(tmp_path: Path) -> None:
    async with shown(tmp_path) as it:
        hostile = "\x1b]52;c;AAAA\x07 \u202e[red]x[/red]"
        await it.say("the first task")
        await it.say("the second task")
        (it.workspace / "a").write_text(hostile + "\n" + LONG * 100)
        await it.leader("d", ChangesScreen)
        await it.sees("[red]x[/red]")
        assert "\x1b" not in it.text()
        assert "\u202e" not in it.text()
