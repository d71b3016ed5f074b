"""The session manager on the screen, on a real store: keys, mouse, chips, search, deletion, at every size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from core.errors import OutOfReachError, StoreBusyError
from core.events import AgentState, AgentStateChangedObservation, Envelope, Event, EventSource, MessageAction
from core.settings.screen_settings import ScreenSettings
from core.store.conversations import ConversationInfo, NewConversation
from core.store.event_store import EventStore
from core.store.search_index import Hit
from tests.tui.workspace.running_app import WITHIN_S
from tui.cli.options import StartOptions
from tui.dialogs.choice_dialog import LastKey
from tui.dialogs.dialog import SureScreen, TextScreen
from tui.sessions.conversation_list import Entry
from tui.sessions.screen import SessionsScreen
from tui.sessions.session_rows import CLOSED, OpenState, entry_lines, hit_line
from tui.sessions.session_search import ScreenState, SessionActions, SessionChoice
from tui.sessions.view import ChipBar, RowsView
from tui.workspace.conversation_status import Mark

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Home:
    """A store with conversations, and the actions that the screen called."""

    store: EventStore
    renamed: list[tuple[str, str]] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    out_of_reach: set[str] = field(default_factory=set)
    open_states: dict[str, OpenState] = field(default_factory=dict)

    async def put(self, id: str, title: str = "", *said: str, minutes: int = 0, **named: str) -> None:
        """A conversation with this message that ended a number of minutes before NOW."""
        at = NOW - timedelta(minutes=minutes, seconds=len(said))
        events: list[Event] = [MessageAction(content=text) for text in said or ("hello",)]
        events.append(AgentStateChangedObservation(agent_state=AgentState(named.get("state", "finished"))))
        envelopes = [
            Envelope(
                conversation_id=id,
                id=number,
                timestamp=at + timedelta(seconds=number),
                source=EventSource.AGENT if number % 2 else EventSource.USER,
                cause=None,
                event=event,
            )
            for number, event in enumerate(events)
        ]
        new = NewConversation(
            id, title, named.get("workspace", "/work"), named.get("model", "demo"), named.get("origin", "import"), ""
        )
        await self.store.adopt(new, envelopes)

    async def rename(self, id: str, title: str) -> None:
        await self.store.rename(id, title)

    async def delete(self, id: str, later: bool) -> None:
        if id in self.busy:
            raise StoreBusyError(f"Conversation {id} is open in another Handloom. Close it there first.")
        if id in self.out_of_reach and not later:
            raise OutOfReachError("The container engine does not respond.")
        await self.store.delete_conversation(id)

    async def said(self, id: str) -> Sequence[tuple[str, str]]:
        return [
            ("you", envelope.event.content)
            for envelope in await self.store.read(id)
            if isinstance(envelope.event, MessageAction)
        ]

    async def stand(self, infos: Sequence[ConversationInfo]) -> Mapping[str, OpenState]:
        return self.open_states

    async def ids(self) -> set[str]:
        return {info.id for info in await self.store.conversations()}


class Host(App[None]):
    """Shows the screen and keeps its answer."""

    def __init__(self, home: Home, place: ScreenState) -> None:
        super().__init__()
        self.options = StartOptions("/work", screen=ScreenSettings(question_guard_ms=0))
        self.last_key = LastKey()
        self.clock = time.monotonic
        self.home, self.place = home, place
        self.answers: list[SessionChoice | None] = []

    def on_mount(self) -> None:
        actions = SessionActions(
            self.home.store,
            self.home.stand,
            self.home.said,
            self.home.store.index,
            self.home.rename,
            self.home.delete,
        )
        self.push_screen(SessionsScreen(actions, "/work", self.place, lambda: NOW), self.answers.append)


@dataclass
class Shown:
    """The screen on a pilot."""

    app: Host
    pilot: Pilot[None]

    @property
    def screen(self) -> SessionsScreen:
        """The session manager below any open dialog."""
        return next(screen for screen in self.app.screen_stack if isinstance(screen, SessionsScreen))

    @property
    def text(self) -> str:
        """The visible screen."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in lines)

    @property
    def rows(self) -> RowsView:
        return self.screen.query_one(RowsView)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the app work until something is so. Raises TimeoutError after WITHIN_S."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                await self.pilot.pause()

    async def until_said(self, *said: str) -> None:
        await self.until(lambda: all(word in self.text for word in said))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with EventStore(tmp_path / "home") as store:
        home = Home(store)
        await home.put("aa1", "Fix the parser", "please fix the parser of dates", "done", minutes=10)
        await home.put("bb2", "夜莺 Release", "release it", "the zebra ran", minutes=20, model="gpt", workspace="/else")
        await home.put("cc3", "", "what is \x1b[31mred", minutes=5000, state="error", origin="fork")
        yield home


@asynccontextmanager
async def shown(
    home: Home, size: tuple[int, int] = (100, 30), place: ScreenState | None = None
) -> AsyncIterator[Shown]:
    app = Host(home, place or ScreenState())
    async with app.run_test(size=size) as pilot:
        it = Shown(app, pilot)
        await it.until_said(" of ")
        yield it


class TestList:
    @pytest.mark.parametrize("size", [(160, 48), (100, 30), (80, 24), (40, 12), (20, 5)], ids=str)
    async def test_screen_fits_every_size(self, home: Home, size: tuple[int, int]) -> None:
        app = Host(home, ScreenState())
        async with app.run_test(size=size) as pilot:
            it = Shown(app, pilot)
            await it.until(lambda: len(it.rows.rows) == 3)
            if size[0] >= 80:
                await it.until_said("Fix the parser", "夜莺 Release", "3 of 3")
            assert "\x1b" not in it.text

    async def test_typing_filters_and_enter_opens_at_once(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press(*"releas", "enter")
            await it.until(lambda: bool(it.app.answers))
            assert it.app.answers == [SessionChoice("open", "bb2")]

    async def test_filtered_conversations_are_counted(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press(*"parser")
            await it.until_said("1 of 3")
            await it.press("escape")
            await it.until_said("3 of 3")

    async def test_rows_show_state_origin_and_where_they_are_open(self, home: Home) -> None:
        home.open_states = {"aa1": OpenState(here=True, mark=Mark.RUNNING), "bb2": OpenState(elsewhere=True)}
        async with shown(home) as it:
            await it.until_said("▶ Fix the parser ● open here", "◌ open elsewhere", "◆ what is", "[fork]")

    async def test_double_click_opens_and_single_click_does_not(self, home: Home) -> None:
        async with shown(home) as it:
            await it.pilot.click(RowsView, offset=(10, 2))
            assert it.rows.cursor == 1
            assert it.app.answers == []
            await it.pilot.click(RowsView, offset=(10, 2), times=2)
            await it.until(lambda: it.app.answers == [SessionChoice("open", "bb2")])

    async def test_letters_are_commands_in_the_list_and_text_in_the_field(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("p")
            assert it.screen.query_one(Input).value == "p"
            await it.press("backspace", "down", "p")
            await it.until(lambda: it.app.answers == [SessionChoice("replay", "aa1")])

    @pytest.mark.parametrize(("key", "kind"), [("e", "export"), ("f", "fork"), ("p", "replay"), ("R", "again")])
    async def test_each_letter_chooses_its_command(self, home: Home, key: str, kind: str) -> None:
        async with shown(home) as it:
            await it.press("down", key)
            await it.until(lambda: it.app.answers == [SessionChoice(kind, "aa1")])

    async def test_preview_shows_the_last_messages(self, home: Home) -> None:
        async with shown(home, (160, 48)) as it:
            await it.until_said("please fix the parser of dates")
            await it.press("down", "down")
            await it.until_said("the zebra ran", "/else")

    async def test_order_can_be_reversed(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("down", "o", "o")
            await it.until_said("by title")
            await it.until(lambda: it.text.index("Fix the parser") < it.text.index("what is"))

    async def test_position_is_kept_for_the_next_time(self, home: Home) -> None:
        place = ScreenState()
        async with shown(home, place=place) as it:
            await it.press("down", "down")
            await it.until(lambda: place.conversation_id == "bb2")
        async with shown(home, place=place) as it:
            await it.until(lambda: it.rows.cursor == 1)


class TestDelegates:
    async def test_delegates_are_folded_below_their_parent(self, home: Home) -> None:
        for id in ("d1", "d2"):
            lease = await home.store.create_conversation(
                id, title=f"task {id}", workspace="/work", model="demo", parent="aa1", parent_action=1
            )
            await home.store.release(lease)
        async with shown(home) as it:
            await it.until_said("▸ ✓ Fix the parser +2", "3 of 3")
            assert "task d1" not in it.text
            await it.press("down", "right")
            await it.until_said("▾", "└ • task d1", "└ • task d2")
            assert len(it.rows.rows) == 5
            await it.press("left")
            await it.until(lambda: "task d1" not in it.text)


class TestChips:
    async def test_key_toggles_a_chip_and_backspace_removes_the_last(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("down", "1")
            await it.until_said("folder: this", "2 of 3")
            await it.press("4")
            await it.until_said("age: 1 d", "1 of 3")
            await it.press("backspace")
            await it.until_said("age: any", "2 of 3")
            await it.press("0")
            await it.until_said("folder: any", "3 of 3")

    async def test_click_changes_a_chip_and_its_cross_removes_it(self, home: Home) -> None:
        async with shown(home) as it:
            await it.pilot.click(ChipBar, offset=(4, 0))
            await it.until_said("folder: this ×", "2 of 3")
            await it.pilot.click(ChipBar, offset=(len("1 folder: this "), 0))
            await it.until_said("folder: any", "3 of 3")

    async def test_model_is_chosen_from_a_list(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("down", "2")
            await it.until(lambda: it.app.screen is not it.screen)
            await it.press(*"gpt", "enter")
            await it.until(lambda: it.app.screen is it.screen)
            await it.until_said("model: gpt", "1 of 3")


class TestSearch:
    async def test_hits_are_below_their_conversation_and_open_at_the_event(self, home: Home) -> None:
        await home.store.index()
        async with shown(home) as it:
            await it.press("tab", *"zebra")
            await it.until_said("夜莺 Release", "#1 message", "the zebra ran", "1 match")
            await it.press("enter")
            await it.until(lambda: it.app.answers == [SessionChoice("open", "bb2", 1)])

    async def test_unindexed_events_are_indexed_and_found(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("tab", *"zebra")
            await it.until_said("the zebra ran")

    async def test_escape_goes_back_to_the_list(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("tab", *"zebra", "escape")
            await it.until_said("folder: any")
            assert it.app.answers == []


class TestChanges:
    async def test_new_name_is_stored_and_shown(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("down", "r")
            await it.until(lambda: it.app.screen is not it.screen)
            await it.press(*"dates", "enter")
            await it.until_said("✓ dates")
        (info,) = await home.store.conversations(conversation_id="aa1")
        assert info.title == "dates"

    async def test_deleting_asks_and_lists_what_is_deleted(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("down", "d")
            await it.until(lambda: isinstance(it.app.screen, SureScreen))
            await it.until_said("“Fix the parser”", "3 events", "checkpoints", "cannot be undone")
            await it.press("enter")
            await it.until(lambda: it.app.screen is it.screen)
            assert await home.ids() == {"aa1", "bb2", "cc3"}
            await it.press("d")
            await it.until(lambda: isinstance(it.app.screen, SureScreen))
            await it.press("down", "enter")
            await it.until_said("1 conversation was deleted", "2 of 2")
        assert await home.ids() == {"bb2", "cc3"}

    async def test_selected_conversations_are_deleted_and_refusals_shown(self, home: Home) -> None:
        home.busy = {"bb2"}
        async with shown(home) as it:
            await it.press("down", "space", "space")
            await it.until_said("2 selected")
            await it.press("D")
            await it.until(lambda: isinstance(it.app.screen, SureScreen))
            await it.press("down", "enter")
            await it.until_said("1 conversation was deleted", "open in another Handloom")
        assert await home.ids() == {"bb2", "cc3"}

    @pytest.mark.parametrize("answer", ["2", "1"])
    async def test_unreachable_containers_are_deleted_after_a_question(self, home: Home, answer: str) -> None:
        home.out_of_reach = {"aa1", "bb2"}
        async with shown(home) as it:
            await it.press("down", "space", "space", "space", "D")
            await it.until(lambda: isinstance(it.app.screen, SureScreen))
            first = it.app.screen
            await it.press("down", "enter")
            await it.until(lambda: isinstance(it.app.screen, SureScreen) and it.app.screen is not first)
            await it.until_said("The container engine does not respond", "2 conversations")
            await it.press(answer, "enter")
            await it.until_said("3 conversations were deleted" if answer == "2" else "1 conversation was deleted")
        assert await home.ids() == (set() if answer == "2" else {"aa1", "bb2"})

    async def test_deleting_without_a_selection_shows_a_message(self, home: Home) -> None:
        async with shown(home) as it:
            await it.press("down", "D")
            await it.until_said("Nothing is selected")

    async def test_help_lists_every_key(self, home: Home) -> None:
        async with shown(home, (100, 48)) as it:
            await it.press("down", "question_mark")
            await it.until(lambda: isinstance(it.app.screen, TextScreen))
            await it.until_said("filter: folder", "replay", "run again", "delete (asks first)")


async def test_only_visible_pages_of_ten_thousand_rows_are_read(tmp_path: Path) -> None:
    async with EventStore(tmp_path / "home") as store:
        home = Home(store)
        await home.put("first", "the first", minutes=1)
        async with store._transaction("many") as connection:
            await connection.executemany(
                "INSERT INTO conversations (id, title, workspace, model, created_at, updated_at) VALUES (?,?,?,?,?,?)",
                (
                    (f"m{n}", f"number {n}", "/work", "demo", NOW.isoformat(), (NOW - timedelta(hours=n)).isoformat())
                    for n in range(10_000)
                ),
            )
        async with shown(home) as it:
            await it.until_said("10,001 of 10,001")
            await it.press("down", "end")
            await it.until_said("number 9999")
            await it.press("pageup", "pageup")
            await it.until_said("number 9983")
            assert len(it.screen._list._pages) <= 4


@pytest.mark.parametrize(
    ("title", "said", "told"),
    [
        ("", "hello", "finished"),
        ("hello", "hello", "finished"),
        ("hello (fork)", "hello", "finished"),
        ("hello · again", "hello", "finished"),
        ("Fix the par", "Fix the parser, please", "…ser, please"),
        ("The parser", "Fix it, please", "Fix it, please"),
        ("Imported", "", "finished"),
    ],
)
def test_second_line_does_not_repeat_the_title(title: str, said: str, told: str) -> None:
    info = ConversationInfo("a", title, "/work", "demo", NOW, NOW, 3, first_line=said, state="finished")
    second = entry_lines(Entry(info), 100, NOW, CLOSED, is_selected=False)[1].plain
    assert second.strip().startswith(f"{told} ")
    assert second.index("/work") >= 40


@pytest.mark.parametrize("width", [70, 100])
def test_match_is_visible_anywhere_in_its_excerpt(width: int) -> None:
    for before in (0, 20, 60, 100):
        text = "x" * before + " found " + "y" * 60
        hit = Hit("a", 7, NOW, "action:run", text, ((before + 1, before + 6),), 1)
        line = hit_line(hit, width)
        assert " found " in line.plain
        assert line.plain.rstrip().endswith("…") or len(line.plain) <= width
        assert line.cell_length <= width
