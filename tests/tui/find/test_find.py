"""ctrl+f: the line in which is written what to find, and where the keys go meanwhile."""

from __future__ import annotations

import pytest

from core.events import AgentFinishAction, AgentState, FileEditAction
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import Running, running, until
from tui.commands import Scope
from tui.find.commands import find_bar
from tui.find.pane_search import FindBar


async def conversed(it: Running, count: int = 60) -> None:
    """Let the agent say something so many times."""
    for n in range(count):
        await it.session.say(f"answer {n} is {'odd' if n % 2 else 'even'}")
    await it.settle()


def bar(it: Running) -> FindBar | None:
    """The find line, if it is open."""
    return find_bar(it.app)


async def test_ctrl_f_from_prompt_searches_chat() -> None:
    async with running() as it:
        await conversed(it)
        await it.press("ctrl+f", *"answer 7 is")
        assert "answer 7 is odd" in it.screen_text()
        assert "1/1" in it.screen_text()
        await it.press("escape")
        assert bar(it) is None
        assert it.app.focused is it.app.workspace.chat
        assert "answer 7 is odd" in it.screen_text()
        assert it.app.workspace.prompt.text == ""


async def test_enter_up_and_n_step_through_hits() -> None:
    async with running() as it:
        await conversed(it)
        await it.press("ctrl+f", *"even")
        chat = it.app.workspace.chat
        first = chat.tally.here
        await it.press("enter")
        assert chat.tally.here == first % 30 + 1
        await it.press("up", "up")
        assert chat.tally.here == (first - 2) % 30 + 1
        await it.press("tab", "n")
        assert it.app.focused is chat
        assert chat.tally.here == first
        assert bar(it) is not None


async def test_find_bar_takes_last_row() -> None:
    async with running(size=(160, 48)) as it:
        await conversed(it)
        chat = it.app.workspace.chat
        height = chat.scrollable_content_region.height
        await it.press("ctrl+f", "x")
        shown = bar(it)
        assert shown is not None
        assert (shown.region.x, shown.region.y) == (chat.region.x, chat.region.bottom - 1)
        assert (shown.region.width, shown.region.height) == (chat.region.width, 1)
        assert chat.scrollable_content_region.height == height - 1
        await it.pilot.resize_terminal(100, 30)
        await it.settle()
        assert (shown.region.x, shown.region.y, shown.region.width) == (
            chat.region.x,
            chat.region.bottom - 1,
            chat.region.width,
        )
        await it.press("escape")
        assert chat.scrollable_content_region.bottom == chat.region.bottom


@pytest.mark.parametrize("size", [(20, 5), (30, 8), (80, 24), (250, 80)])
async def test_find_bar_fits_any_size(size: tuple[int, int]) -> None:
    async with running(size=size) as it:
        await conversed(it, 20)
        await it.press("ctrl+f", *"answer 3")
        assert it.app.workspace.chat.tally.here == 1
        await it.press("enter", "escape")
        assert bar(it) is None


async def test_escape_closes_search_before_stopping_agent() -> None:
    async with running() as it:
        await conversed(it, 3)
        await it.session.become(agent_state=AgentState.RUNNING)
        await it.press("ctrl+f", "x", "escape")
        assert it.session.wishes == []
        await it.press("ctrl+f", "x")
        it.app.workspace.prompt.focus()
        await it.press("escape")
        assert it.session.wishes == [("interrupt",)]


async def test_focused_terminal_is_searched() -> None:
    async with running(size=(160, 48)) as it:
        await it.session.run("seq", "\n".join(f"row {n}" for n in range(300)))
        await it.press("f4", "ctrl+f", *"row 42")
        terminal = it.app.workspace.terminal
        await until(it.pilot, lambda: not terminal.tally.searching)
        assert terminal.tally.total == 1
        assert "row 42" in it.screen_text()
        await it.press("backspace", "enter", "tab", "N")
        assert terminal.tally.total == 11
        await it.press("escape")
        assert terminal.search_query is None


async def test_hidden_pane_closes_search() -> None:
    async with running(size=(80, 24)) as it:
        await conversed(it, 3)
        await it.press("ctrl+f", "x")
        it.app.workspace.show_pane("events")
        await it.settle()
        assert bar(it) is None
        assert it.app.workspace.chat.search is None


async def test_footer_shows_search_keys() -> None:
    async with running() as it:
        await it.press("ctrl+f")
        assert it.app.workspace.scope is Scope.FIND
        assert "to the pane" in it.screen_text()


async def test_older_page_is_searched() -> None:
    manager = ManagerDouble()
    stored = manager.add(workspace="/work")
    for n in range(400):
        stored.stream.store(FileEditAction(path=f"file {n} end"))
    async with running(manager=manager) as it:
        await it.press("ctrl+f", *"file 33 end")
        assert "no match · earlier events are not loaded; ↑ loads them" in it.screen_text()
        await it.press("up")
        await until(it.pilot, lambda: it.app.workspace.chat.tally.total == 1)
        await it.settle()
        assert "edit file 33 end" in it.screen_text()


async def test_leader_y_copies_last_answer() -> None:
    async with running() as it:
        await it.press("ctrl+x", "y")
        assert "The agent has not answered yet." in it.screen_text()
        await it.session.say("the **answer**")
        await it.session.run("ls", "files")
        await it.press("ctrl+x", "y")
        assert it.app.clipboard == "the **answer**"
        await it.session.stream.append_by_agent(AgentFinishAction(final_thought="the end"))
        await it.press("ctrl+x", "y")
        assert it.app.clipboard == "the end"


async def test_event_log_is_searched() -> None:
    async with running(size=(160, 40)) as it:
        for word in ("alpha", "beta", "alpha again"):
            await it.session.say(word)
        await it.press("f3", "ctrl+f", *"alpha")
        await until(it.pilot, lambda: it.app.workspace.events_view.tally.total == 2)
        assert "2/2" in it.screen_text()
        await it.press("up")
        row = it.app.workspace.events_view.row
        assert row is not None
        assert row.summary == "alpha"
        await it.press("tab", "n")
        row = it.app.workspace.events_view.row
        assert row is not None
        assert row.summary == "alpha again"
