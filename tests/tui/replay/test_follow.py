"""A conversation of another process, read along: nothing is missed, nothing done while nothing happens."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.events import Envelope, MessageAction
from core.replay.player import AT_ONCE, LogFollower, Owner
from core.settings.config import Settings
from core.store.reader import EventReader
from tests.doubles import FINISH, bash, write_script
from tests.tui.doubles import ManagerDouble
from tests.tui.workspace.running_app import Clock, Running, until
from tests.warm_servers import WarmRuntime
from tests.writing import ID, Writer, writer
from tui.app import HandloomApp
from tui.cli.options import StartOptions
from tui.file_watcher import RUNG, Watch, watch
from tui.replay import replay_start
from tui.replay.replay_start import replay_to
from tui.replay.replay_tab import FollowTab
from tui.workspace.conversation_start import show_conversation
from tui.workspace.conversation_status import Mark

REST_S = 0.05


@dataclass
class Reading:
    """A follower."""

    followed: LogFollower
    bell: Watch = field(init=False)
    rung: asyncio.Event = field(default_factory=asyncio.Event)
    rings: int = 0
    texts: list[str] = field(default_factory=list)
    """The texts of the events that arrived."""
    most: int = 0
    """Items that arrived together."""

    def ring(self) -> None:
        self.rings += 1
        self.rung.set()

    async def look(self) -> None:
        """Wait for the notification, and return what arrived."""
        await self.rung.wait()
        self.rung.clear()
        await self.followed.refresh()
        while items := await self.followed.new_items():
            self.most = max(self.most, len(items))
            self.texts += [
                item.event.content
                for item in items
                if isinstance(item, Envelope) and isinstance(item.event, MessageAction)
            ]


@asynccontextmanager
async def reading(home: Path, rest_s: float = REST_S) -> AsyncIterator[Reading]:
    async with EventReader(home) as reader:
        (info,) = await reader.conversations(conversation_id=ID)
        it = Reading(LogFollower(reader, info))
        bell = watch(home / "locks", it.ring, RUNG, rest_s=rest_s)
        assert bell is not None
        it.bell = bell
        try:
            await it.followed.open()
            await it.followed.refresh()
            yield it
        finally:
            bell.close()


async def test_event_is_readable_when_the_notification_arrives(tmp_path: Path) -> None:
    async with writer(tmp_path) as owner, reading(tmp_path, rest_s=0.0) as it:
        assert it.followed.owner == Owner(owner.process.pid, "")
        for number in range(30):
            await asyncio.gather(owner.do(commits=1), it.look())
            assert it.texts == [f"event {n}" for n in range(number + 1)]
        before = it.rings
        await it.followed.refresh()
        for _turn in range(3):
            await asyncio.sleep(0)
        assert it.rings == before, "who looks rings no bell, or two readers would wake each other for ever"


async def test_many_events_are_read_in_order_with_few_refreshes(tmp_path: Path) -> None:
    async with writer(tmp_path) as owner, reading(tmp_path) as it, reading(tmp_path) as other:
        begun = asyncio.get_running_loop().time()
        flood = asyncio.ensure_future(owner.do(commits=150, each=20))
        while len(it.texts) < 3000 or len(other.texts) < 3000:
            await asyncio.gather(*(one.look() for one in (it, other) if len(one.texts) < 3000))
        await flood
        took_s = asyncio.get_running_loop().time() - begun
        assert it.texts == other.texts == [f"event {n}" for n in range(3000)]
        assert it.rings <= took_s / REST_S + 1
        assert it.most <= AT_ONCE


async def test_renaming_and_deleting_are_followed(tmp_path: Path) -> None:
    async with writer(tmp_path) as owner, reading(tmp_path) as it:
        await owner.do(commits=3, truncate=True)
        await until_so(it, lambda: len(it.texts) == 3)
        await owner.do(commits=2, title="\x1b]0;evil\x07As it is")
        await until_so(it, lambda: len(it.texts) == 5 and it.followed.info.title.endswith("As it is"))
        await owner.do(release=True)
        await until_so(it, lambda: it.followed.owner is None and not it.followed.is_gone)
        await owner.do(delete=True)
        await until_so(it, lambda: it.followed.is_gone)


@pytest.mark.parametrize("writes", [True, False])
async def test_stored_events_of_a_killed_process_are_shown(tmp_path: Path, writes: bool) -> None:
    async with writer(tmp_path) as owner, reading(tmp_path) as it:
        await owner.do(commits=40)
        flood = asyncio.ensure_future(owner.do(commits=100_000 if writes else 20))
        await until_so(it, lambda: len(it.texts) >= 60)
        while not writes and (it.rung.is_set() or it.bell._resting is not None):
            await it.look()  # from here on only its end notifies
        os.kill(owner.process.pid, signal.SIGKILL)
        await asyncio.gather(flood, return_exceptions=True)
        await until_so(it, lambda: it.followed.owner is None)
        assert it.texts == [f"event {n}" for n in range(len(it.texts))]
        assert len(it.texts) == len(await it.followed.timeline.reader.read(ID))


async def until_so(it: Reading, condition: Callable[[], bool]) -> None:
    """Look at each ring until something is so; the test's time limit ends a wait that never ends."""
    while not condition():
        await it.look()


# -- on the screen -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def app(
    manager: ConversationManager | ManagerDouble, resume: str, size: tuple[int, int]
) -> AsyncIterator[Running]:
    async def connect() -> ConversationManager:
        return manager  # type: ignore[return-value]

    app = HandloomApp(connect, StartOptions(workspace="/work", resume=resume), clock := Clock())
    async with app.run_test(size=size) as pilot:
        it = Running(app, pilot, ManagerDouble(), clock)
        await until(pilot, lambda: isinstance(app.tabs.current, FollowTab) and app.workspace.notice.display)
        yield it


def tab(it: Running) -> FollowTab:
    assert isinstance(it.app.tabs.current, FollowTab)
    return it.app.tabs.current


async def shows(it: Running, *texts: str) -> None:
    """Wait until all of it is on the screen."""
    while not all(text in it.screen_text() for text in texts):
        await it.pilot.pause(0.01)


def does_nothing(it: Running) -> bool:
    """Whether only a bell or a key would wake it."""
    bell, timers = tab(it).watch, (it.app.frames.timer, it.app.frames.elapsed_timer)
    assert bell is not None
    assert timers[1] is not None
    works = [worker for worker in it.app.workers if worker.group.startswith("replay-")]
    return bell._resting is None and timers[0] is None and not timers[1]._active.is_set() and not works


async def test_question_is_answered_by_the_owner_before_the_takeover(tmp_path: Path) -> None:
    settings = Settings.model_validate({"agent": {"confirm": "always"}})
    turns = [{"tool_calls": [bash("echo seen-$((40+2))")]}, FINISH, {"text": "It goes on here."}]
    home, made = tmp_path / "home", {"make_runtime": WarmRuntime, "environ": {}}
    async with (
        ConversationManager(home, settings, **made) as here,  # type: ignore[arg-type]
        ConversationManager(home, settings, **made) as there,  # type: ignore[arg-type]
    ):
        session = await there.create(workspace=str(tmp_path), model=write_script(tmp_path, turns))
        await session.send("look around")
        await session.settled()
        asked = session.state.awaiting
        assert asked is not None
        async with app(here, session.id, (120, 40)) as it:
            await shows(it, "needs approval: answer in process", "seen-$((")
            assert (tab(it).mark, it.app.title[0]) == (Mark.WAITING, Mark.WAITING.glyph)
            await it.pilot.press("escape", "y", "n", "a", "b", "ctrl+p", "escape")
            assert session.state.awaiting == asked
            await session.approval.confirm(asked)
            await shows(it, "seen-42", "All is done.", "finished", "follows process")
            await until(it.pilot, lambda: tab(it).facts.iteration == session.state.iteration)
            replay_to(it.app, tab(it), asked + 1)
            await shows(it, "End follows process", "needs approval")
            assert "needs approval: answer" not in it.screen_text(), "that was then"
            assert tab(it).mark is Mark.DONE
            await it.pilot.press("end")
            await shows(it, "follows process", "✓ finished")
            await session.record.set_title("Another name")
            await shows(it, "Read: Another name")
            await show_conversation(it.app, session.id)
            assert len(it.app.tabs.all) == 1, "from the list as well, and not twice"
            await until(it.pilot, lambda: does_nothing(it))
            it.app.workspace.prompt.put("a draft")
            await there.close(session.id)
            await shows(it, "not open anywhere: b continues it here", "is no longer open in")
            await it.pilot.press("b")
            await until(it.pilot, lambda: it.app.tabs.conversation is not None)
            await it.settle()
            assert it.app.workspace.prompt.text == "a draft"
            assert [tab.is_replay for tab in it.app.tabs.all] == [False]
            await it.pilot.press("enter")
            await shows(it, "It goes on here.")


async def test_following_stops_while_seeking_and_resumes_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where nothing rings, End reads on."""
    async with writer(tmp_path) as owner:
        await owner.do(commits=60)
        async with EventReader(tmp_path) as reader:
            double = ManagerDouble(home=tmp_path)
            double.store = reader
            async with replaying(double, owner) as it:
                await shows(it, "event 60 of 60")
                await it.pilot.press("left", "left")
                await shows(it, "event 58 of 60", "End follows process")
                await owner.do(commits=1, title="\x1b]0;evil\x07As it is")
                await shows(it, "event 58 of 61", "As it is")
                assert "\x1b" not in it.screen_text() + it.app.title
                assert "event 60\n" not in it.screen_text()
                await it.pilot.press("end")
                await shows(it, "event 61 of 61", "follows process")
                await it.pilot.press("f2", "home")  # to the beginning of the chat
                before = it.app.workspace.chat.scroll_offset
                await owner.do(commits=5)
                await shows(it, "event 66 of 66")
                assert it.app.workspace.chat.scroll_offset == before
            monkeypatch.setattr(replay_start, "watch", lambda *_args, **_named: None)
            async with replaying(double, owner) as it:
                await shows(it, "End loads new events from process", "event 66 of 66")
                await owner.do(commits=1)
                await it.pilot.press("end")
                await shows(it, "event 67 of 67")


@asynccontextmanager
async def replaying(double: ManagerDouble, owner: Writer) -> AsyncIterator[Running]:
    """The app with only the writer's conversation."""
    from tests.tui.workspace.running_app import running

    async with running((120, 30), double) as it:
        await replay_start.follow(it.app, ID)
        yield it
