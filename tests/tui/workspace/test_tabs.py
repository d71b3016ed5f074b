"""Tabs: their line, their order, what each keeps for itself, and two of them side by side."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual.app import App
from textual.widgets import Input

from core.controller.exit_reasons import Halt, HaltKind
from core.events import AgentState, MessageAction
from tests.tui.doubles import ManagerDouble, SessionDouble
from tests.tui.workspace.running_app import Running, running
from tui.chat.view import ChatView
from tui.delegation.delegate_tabs import moved
from tui.events.view import EventsView
from tui.terminal.view import TerminalView
from tui.workspace.conversation_status import Mark, mark_of, wait_of
from tui.workspace.layout import arrange
from tui.workspace.tab import TITLE_CELLS, short_title
from tui.workspace.tab_bar import TabItem, fit_tabs


def item(title: str, mark: Mark = Mark.IDLE, unread: bool = False) -> TabItem:
    return TabItem(title, mark, unread)


async def named(it: Running, *titles: str) -> list[SessionDouble]:
    """Open conversations with these titles; the last is shown."""
    sessions = [it.manager.add(title=title) for title in titles]
    for session in sessions:
        await it.app.tabs.add(session)  # type: ignore[arg-type]
    await it.settle()
    return sessions


def order(it: Running) -> list[str]:
    """The titles on the line."""
    return [tab.title for tab in it.app.tabs.all]


def first_line(it: Running) -> str:
    return it.screen_text().splitlines()[0]


# -- marks -------------------------------------------------------------------------------------------------------------


def test_every_mark_has_its_own_glyph() -> None:
    assert len({mark.glyph for mark in Mark}) == len(Mark)


@pytest.mark.parametrize(
    ("state", "halt", "is_suspended", "mark"),
    [
        ("running", "", False, Mark.RUNNING),
        ("awaiting_user_confirmation", "", False, Mark.WAITING),
        ("awaiting_user_input", "", False, Mark.WAITING),
        ("error", "", False, Mark.WAITING),
        ("paused", "", False, Mark.PAUSED),
        ("finished", "", False, Mark.DONE),
        ("finished", "", True, Mark.SUSPENDED),
        ("awaiting_user_input", "", True, Mark.WAITING),
        ("awaiting_user_confirmation", "", True, Mark.WAITING),
        ("paused", "model", True, Mark.WAITING),
        ("stopped", "", False, Mark.IDLE),
    ],
)
def test_every_mark_is_reached(state: str, halt: str, is_suspended: bool, mark: Mark) -> None:
    assert mark_of(state, wait_of(state, halt), is_suspended)[0] is mark


async def test_mark_is_in_the_tab_and_in_the_window_title(it: Running) -> None:
    for state, glyph in [(AgentState.FINISHED, "✓"), (AgentState.PAUSED, "‖"), (AgentState.RUNNING, "▶")]:
        await it.session.become(agent_state=state)
        await it.settle()
        assert glyph in first_line(it)
        assert it.app.title.startswith(glyph)
    await it.session.become(agent_state=AgentState.PAUSED, halt=Halt(HaltKind.LIMIT))
    it.session.suspension.is_on = True
    await it.settle()
    assert "◆" in first_line(it)


# -- the line ----------------------------------------------------------------------------------------------------------


def test_ends_of_the_bar_show_the_most_urgent_hidden_state() -> None:
    items = [item(f"conversation {n}") for n in range(20)]
    items[1] = item("asks", Mark.WAITING)
    items[18] = item("news", unread=True)
    shown = fit_tabs(items, 10, 80)
    assert shown[0].text == "‹◆"
    assert shown[-1].text == "›*"
    assert any(cell.target == "tab:10" for cell in shown)
    assert sum(len(cell.text) for cell in shown) <= 80
    assert fit_tabs(items, 0, 80)[0].target == "tab:0"
    assert fit_tabs(items, 19, 80)[-1].target == "tab:19"


def test_titles_are_shortened_before_tabs_are_hidden() -> None:
    items = [item("mend the build"), item("another long talk"), item("write the manual")]
    assert [cell.text.strip() for cell in fit_tabs(items, 1, 60)] == [
        "1 • mend the bu…", "2 • another long talk", "3 • write the m…",
    ]  # fmt: skip
    assert [cell.text.strip() for cell in fit_tabs(items, 1, 48)] == [
        "1 • mend the…", "2 • another l…", "3 • write the…",
    ]  # fmt: skip
    assert any(cell.target.startswith("scroll:") for cell in fit_tabs(items, 1, 40))


async def test_plus_stays_beside_many_tabs() -> None:
    async with running(size=(80, 24)) as it:
        for count in range(1, 7):
            await named(it, f"conversation number {count}")
            assert " + " in first_line(it)


@pytest.mark.parametrize("width", [5, 12, 40, 300])
def test_tab_bar_is_never_wider_than_the_screen(width: int) -> None:
    items = [item("Übergrößenträger 日本語の会話") for _ in range(64)]
    for current in (0, 1, 31, 63):
        assert sum(cell_len(cell.text) for cell in fit_tabs(items, current, width)) <= width


async def test_click_shows_a_tab_middle_click_closes_it_and_plus_creates_one() -> None:
    async with running(size=(120, 30)) as it:
        sessions = await named(it, "alpha", "beta")
        line = first_line(it)
        await it.pilot.click("#tabs", offset=(line.index("alpha"), 0))
        await it.settle()
        assert it.session is sessions[0]
        await it.pilot.click("#tabs", offset=(line.index("beta"), 0), button=2)
        await it.settle()
        assert order(it) == ["new conversation", "alpha"]
        await it.pilot.click("#tabs", offset=(first_line(it).index("+"), 0))
        await it.settle()
        assert len(it.app.tabs.all) == 3


async def test_click_on_an_end_scrolls_the_tab_bar() -> None:
    async with running(size=(80, 24)) as it:
        await named(it, *(f"conversation {n}" for n in range(12)))
        assert first_line(it).startswith("‹")
        clicks = 0
        while first_line(it).startswith("‹"):
            await it.pilot.click("#tabs", offset=(0, 0))
            await it.settle()
            clicks += 1
        assert clicks > 5
        assert "new conversation" in first_line(it)
        assert "›" in first_line(it)
        await it.press("ctrl+pageup")
        assert "conversation 10" in first_line(it)


# -- order, names, closed ones -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "index", "step", "expected"),
    [
        ([0, 0, 0], 0, 1, [1, 0, 2]),
        ([0, 0, 0], 2, 1, [0, 1, 2]),
        ([0, 0, 0], 0, -1, [0, 1, 2]),
        ([0, 1, 2, 0], 3, -1, [3, 0, 1, 2]),
        ([0, 1, 2, 0], 0, 1, [3, 0, 1, 2]),
        ([0, 1, 2, 1, 0], 3, -1, [0, 3, 1, 2, 4]),
        ([0, 1, 2, 1, 0], 3, 1, [0, 1, 2, 3, 4]),
        ([0, 1, 2, 1, 0], 2, 1, [0, 1, 2, 3, 4]),
    ],
)
def test_tab_moves_with_its_delegates(levels: list[int], index: int, step: int, expected: list[int]) -> None:
    assert moved(levels, index, step) == expected


async def test_tab_is_moved_left_and_right(it: Running) -> None:
    await named(it, "alpha", "beta")
    await it.press("ctrl+x", "<")
    assert order(it) == ["new conversation", "beta", "alpha"]
    await it.press("ctrl+x", "<", "ctrl+x", "<")
    assert order(it) == ["beta", "new conversation", "alpha"]
    await it.press("ctrl+x", ">")
    assert order(it) == ["new conversation", "beta", "alpha"]
    assert it.app.tabs.current is it.app.tabs.all[1]


async def test_renamed_conversation_renames_its_tab(it: Running) -> None:
    await it.press("ctrl+x", "r")
    it.app.screen.query_one(Input).value = ""
    await it.press(*"The  parser", "enter")
    assert it.session.wishes == [("set_title", "The parser")]
    assert "The parser" in first_line(it)
    await it.press("ctrl+x", "r")
    it.app.screen.query_one(Input).value = "  "
    await it.press("enter")
    assert "It was not renamed" in it.screen_text()
    assert len(it.session.wishes) == 1


async def test_closed_tabs_are_reopened_latest_first(it: Running) -> None:
    await named(it, "alpha", "beta")
    await it.press("ctrl+x", "w", "ctrl+x", "w")
    assert order(it) == ["new conversation"]
    await it.press("ctrl+x", "T")
    assert order(it) == ["new conversation", "alpha"]
    await it.press("ctrl+x", "T")
    assert order(it) == ["new conversation", "alpha", "beta"]
    await it.press("ctrl+x", "T")
    assert "No tab was closed." in it.screen_text()


async def test_64_conversations_are_open_at_once() -> None:
    async with running(size=(100, 30)) as it:
        sessions = await named(it, *(f"number {n}" for n in range(63)))
        assert len(it.app.tabs.all) == 64
        assert "64 ◆ number 62" in first_line(it)
        for session in sessions:
            await session.say("over")
        await it.settle()
        assert "‹" in first_line(it)
        await it.press("ctrl+x", "1")
        assert first_line(it).startswith(" 1 ◆ new conversation")
        assert "›" in first_line(it)


# -- what each keeps for itself ----------------------------------------------------------------------------------------


async def test_each_tab_keeps_its_draft_scroll_positions_filter_panes_and_mode() -> None:
    manager = ManagerDouble()
    async with running(size=(170, 40), manager=manager) as it:
        (session,) = await named(it, "alpha")
        for n in range(60):
            await session.run(f"echo {n}", f"number {n}\n")
            await session.say(f"said {n}")
        await it.settle()
        workspace = it.app.workspace
        workspace.chat.action_go("home")
        workspace.terminal.scroll_to(y=20, animate=False, immediate=True)
        await it.press(*"draft", "shift+tab", "f3", "slash", *"type:run", "enter", "home", "down", "down", "f3")
        await it.settle()
        before = state(it)
        assert before["maximised"]
        assert before["terminal"] == (20, False)
        await it.press("ctrl+x", "1")
        await it.settle()
        assert state(it) != before
        assert (workspace.chat.display, workspace.prompt.has_focus, workspace.prompt.text) == (True, True, "")
        await it.press("ctrl+x", "2")
        await it.settle()
        assert state(it) == before


def state(it: Running) -> dict[str, object]:
    """Behaviour of tabs that a user notices."""
    workspace, tab = it.app.workspace, it.app.tabs.current
    assert tab is not None
    return {
        "draft": workspace.prompt.text,
        "chat": workspace.chat.follows,
        "terminal": (workspace.terminal.scroll_offset.y, workspace.terminal.following),
        "log": (workspace.events_view.row, workspace.events_view.scroll_offset.y, workspace.events_view.following),
        "filter": str(tab.events.filter),
        "shown": [name for name in ("chat", "events", "terminal") if workspace.pane(name).display],
        "maximised": workspace.maximised_pane,
        "focus": it.app.focused,
        "mode": it.session.approval.mode,
    }


# -- side by side ------------------------------------------------------------------------------------------------------


def test_two_chats_are_shown_if_they_fit_and_a_chat_is_active() -> None:
    def visible(width: int, looked_at: str = "chat", maximised: bool = False) -> frozenset[str]:
        return arrange(width, looked_at, "terminal", maximised, split=True).visible

    assert visible(120) == {"chat", "beside"}
    assert visible(119) == {"chat", "terminal"}
    assert visible(160, "terminal") == {"chat", "events", "terminal"}
    assert visible(200, "terminal") == {"chat", "beside", "events", "terminal"}
    assert "beside" not in visible(200, "events", maximised=True)
    assert visible(90) == {"chat"}


async def split(it: Running) -> tuple[SessionDouble, SessionDouble]:
    """Two conversations side by side; the second is the shown one, on the left."""
    one, two = await named(it, "alpha", "beta")
    await one.say("here is alpha")
    await two.say("here is beta")
    await it.settle()
    await it.press("ctrl+x", "v")
    return one, two


async def test_split_shows_two_conversations_with_their_titles() -> None:
    async with running(size=(140, 30)) as it:
        one, two = await split(it)
        text = it.screen_text()
        assert "here is alpha" in text
        assert "here is beta" in text
        title = text.splitlines()[1]
        assert title.index("beta") < title.index("alpha")
        assert it.session is two
        await one.say("more of alpha")
        await it.settle()
        assert "more of alpha" in it.screen_text()
        assert "*" not in first_line(it)
        await it.press("ctrl+x", "v")
        assert "here is alpha" not in it.screen_text()
        assert "here is beta" in it.screen_text()


async def test_focused_side_owns_the_prompt_and_views_keep_their_sides() -> None:
    async with running(size=(140, 30)) as it:
        one, two = await split(it)
        await it.press(*"for beta", "ctrl+x", "o")
        assert it.session is one
        title = it.screen_text().splitlines()[1]
        assert title.index("beta") < title.index("alpha")
        await two.say("more of beta")
        await it.settle()
        assert "more of beta" in it.screen_text()
        assert "*" not in first_line(it)
        await it.press(*"for alpha", "enter")
        assert one.wishes == [("send", "for alpha")]
        await it.press("ctrl+x", "o", "enter")
        assert two.wishes == [("send", "for beta")]
        chats = list(it.app.workspace.query(ChatView))
        await it.pilot.click(chats[1], offset=(20, 10))
        await it.settle()
        assert it.session is one


async def test_tab_of_the_other_side_focuses_that_side() -> None:
    async with running(size=(140, 30)) as it:
        one, two = await split(it)
        await it.press("ctrl+x", "2")
        assert (it.session, it.app.workspace.split_tab.session) == (one, two)  # type: ignore[union-attr]
        await it.press("ctrl+x", "1")
        assert it.app.workspace.split_tab.session is two  # type: ignore[union-attr]
        assert "here is beta" in it.screen_text()
        assert "here is alpha" not in it.screen_text()


@pytest.mark.parametrize("side", [[], ["ctrl+x", "o"]])
async def test_closing_one_side_leaves_the_other(side: list[str]) -> None:
    async with running(size=(140, 30)) as it:
        await split(it)
        await it.press(*side)
        left = it.app.workspace.split_tab
        await it.press("ctrl+x", "w")
        assert it.app.tabs.current is left
        assert it.app.workspace.split_tab is None
        text = it.screen_text()
        assert ("here is alpha" in text) != ("here is beta" in text)


async def test_other_side_loads_its_own_older_messages() -> None:
    async with running(size=(140, 30)) as it:
        one, _ = await named(it, "alpha", "beta")
        other = it.manager.add(title="long")
        for n in range(300):
            other.stream.store(MessageAction(content=f"message {n}"))
        await it.app.tabs.add(other)  # type: ignore[arg-type]
        await it.press("ctrl+x", "2", "ctrl+x", "v")
        assert it.app.workspace.split_tab.session is other  # type: ignore[union-attr]
        reads, own = other.stream.reads, one.stream.reads
        it.app.workspace.query(ChatView).last().action_go("home")
        await it.settle()
        assert (other.stream.reads, one.stream.reads) == (reads + 1, own)


async def test_split_needs_a_second_conversation_and_room() -> None:
    async with running(size=(100, 30)) as it:
        await it.press("ctrl+x", "v")
        assert "There is no other conversation" in it.screen_text()
        await it.press("ctrl+n", "ctrl+x", "v")
        assert "need 120 columns; this terminal has 100." in it.screen_text()
        await it.press("ctrl+x", "o")
        assert "Only one conversation is shown" in it.screen_text()


# -- costs -------------------------------------------------------------------------------------------------------------


class Drawn:
    """Counts drawn frames."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines = self.frames = 0
        for view in (ChatView, EventsView, TerminalView):
            monkeypatch.setattr(view, "render_line", self._counting(view.render_line))
        original = App._display

        def display(app: App[object], *args: object) -> None:
            self.frames += 1
            original(app, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(App, "_display", display)

    def _counting(self, original: object) -> object:
        def render_line(view: object, y: int) -> object:
            self.lines += 1
            return original(view, y)  # type: ignore[operator]

        return render_line

    def reset(self) -> None:
        self.lines = self.frames = 0


@pytest.mark.every_frame
async def test_hidden_tab_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Drawn(monkeypatch)
    async with running(size=(170, 40)) as it:
        hidden, shown = await named(it, "alpha", "beta")
        await hidden.run("make", "begins\n")
        await it.settle()
        drawn.reset()
        for n in range(50):
            await hidden.run(f"make {n}", f"{n}\n")
        await it.settle()
        assert drawn.lines == 0
        await shown.run("ls", "x\n")
        await it.settle()
        assert drawn.lines > 0


async def test_idle_screen_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Drawn(monkeypatch)
    async with running(size=(210, 40)) as it:
        await split(it)
        await it.press("f3", "slash", *"type:message", "enter")
        await it.settle()
        drawn.reset()
        for _ in range(3):
            await it.settle()
        assert (drawn.lines, drawn.frames) == (0, 0)


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Short (fork)", "Short (fork)"),
        ("A title that is far too long for a tab (fork)", "A title that is far… (fork)"),
        ("A title that is far too long for a tab · again", "A title that is far… · again"),
        ("A title that is far too long for a tab", "A title that is far too lon…"),
        ("\x1b[2J", "␛[2J"),
    ],
)
def test_shortened_title_keeps_its_ending(title: str, shown: str) -> None:
    assert short_title(title) == shown
    assert cell_len(short_title(title)) <= TITLE_CELLS
