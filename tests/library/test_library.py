"""The library finds the sessions of other agents, keeps copies, and changes nothing of theirs."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.errors import StoreBusyError, UsageError
from core.import_export.agents.source import AgentSession, Places, Source
from core.import_export.agents.transcript import Transcript
from core.import_export.bounded_json import Fault
from core.import_export.exporter import export
from core.library.all_sessions import AllSessions
from core.library.library import FIRST_BYTES, TOGETHER, Library
from core.library.prepared_session import PreparedSession, copy_id, prepare
from core.library.records import Record, library_home
from core.replay.player import LogFollower
from core.secrets import Redactor
from core.store.conversations import ConversationFilter
from core.store.database import sqlite3
from core.store.event_store import EventStore
from core.store.reader import EventReader
from tests.library.diary import DIARY, write
from tui.replay.agent_tab import AgentTab
from tui.replay.replay_tab import FollowTab

START: dict[str, Any] = {"title": "Mend the pump", "folder": "/work/pump", "at": "2026-03-01T10:00:00+00:00"}
SAID: dict[str, Any] = {"user": "Why does it drip?", "at": "2026-03-01T10:00:01+00:00"}
DONE: dict[str, Any] = {"run": "ls valves", "output": "one\ntwo", "at": "2026-03-01T10:00:02+00:00"}
TOLD: dict[str, Any] = {"agent": "A washer is worn.", "at": "2026-03-01T10:00:03+00:00"}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path / "user"


@pytest.fixture
async def library(tmp_path: Path, user: Path) -> AsyncIterator[Library]:
    async with _library(tmp_path, user) as opened:
        yield opened


def _library(tmp_path: Path, user: Path, *, keeps: bool = True, sources: tuple[Source, ...] = (DIARY,)) -> Library:
    return Library(tmp_path / "home", places=Places(user), sources=sources, keeps=keeps)


async def test_session_is_listed_before_it_is_read(library: Library, user: Path) -> None:
    write(user, "a", START, SAID)
    progress = await library.find()
    (info,) = await library.store.conversations()
    assert (progress.found, progress.pending) == (1, 1)
    assert (info.title, info.workspace, info.origin, info.origin_of) == ("Mend the pump", "/work/pump", "diary", "a")
    assert info.event_count == 0
    assert info.updated_at.isoformat() == START["at"]


async def test_read_session_has_its_events(library: Library, user: Path) -> None:
    write(user, "a", START, SAID, DONE, TOLD)
    await library.find()
    assert (await library.read_pending()).pending == 0
    events = await library.store.read(copy_id("diary", "a"))
    assert [type(each.event).__name__ for each in events] == [
        "MessageAction",
        "CmdRunAction",
        "CmdOutputObservation",
        "MessageAction",
    ]
    assert events[2].cause == 1
    assert [hit.event_id for hit in await library.store.search("washer")] == [3]


async def test_session_that_grew_keeps_its_events_and_gains_the_new_ones(library: Library, user: Path) -> None:
    write(user, "a", START, SAID)
    await library.find()
    await library.read_pending()
    key = await library.store._key(copy_id("diary", "a"))
    write(user, "a", DONE, TOLD, append=True)
    record = await library.read_now(copy_id("diary", "a"))
    assert not record.is_pending
    assert len(await library.store.read(record.id)) == 4
    assert await library.store._key(record.id) == key


async def test_long_session_has_its_first_events_before_all_is_read(library: Library, user: Path) -> None:
    lines = 2 * FIRST_BYTES // 1000
    write(user, "a", START, *({**SAID, "user": f"{number} {'drip ' * 200}"} for number in range(lines)))
    await library.find()
    id = copy_id("diary", "a")
    assert await library.read_beginning(id)
    first = await library.store.read(id, limit=2 * lines)
    assert lines / 3 < len(first) < lines / 1.5
    assert (await library.records())[id].is_pending
    await library.read_now(id)
    assert (await library.store.read(id, limit=2 * lines))[: len(first)] == first
    assert (await library.store.conversation(id)).event_count == lines


async def test_beginning_has_no_branches(library: Library, user: Path) -> None:
    write(user, "a", START, SAID, {"other": "Another way"})
    await library.find()
    assert await library.read_beginning(copy_id("diary", "a"))
    assert [info.title for info in await library.store.conversations()] == ["Mend the pump"]


async def test_beginning_does_not_replace_the_session_that_another_process_has_read(
    library: Library, tmp_path: Path, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, loop = 2 * FIRST_BYTES // 1000, asyncio.get_running_loop()
    write(user, "a", START, *({**SAID, "user": f"{number} {'drip ' * 200}"} for number in range(lines)))
    await library.find()
    id = copy_id("diary", "a")
    async with _library(tmp_path, user) as other:

        def prepare_late(*arguments: Any) -> PreparedSession:
            monkeypatch.undo()
            prepared = prepare(*arguments)
            asyncio.run_coroutine_threadsafe(other.read_pending(), loop).result()
            return prepared

        monkeypatch.setattr("core.library.library.prepare", prepare_late)
        assert await library.read_beginning(id)
    assert (await library.store.conversation(id)).event_count == lines


@pytest.mark.parametrize("is_removed", [False, True])
async def test_what_another_process_did_since_a_reading_began_is_kept(
    library: Library, tmp_path: Path, user: Path, is_removed: bool
) -> None:
    loop, id = asyncio.get_running_loop(), copy_id("diary", "a")
    async with _library(tmp_path, user) as other:

        def prepare_late(*arguments: Any) -> PreparedSession:
            prepared = prepare(*arguments)
            write(user, "a", TOLD, append=True)
            change = other.forget(id) if is_removed else other.read_now(id)
            asyncio.run_coroutine_threadsafe(change, loop).result()
            return prepared

        async def apart(function: object, *arguments: Any) -> PreparedSession:
            return await asyncio.to_thread(prepare_late, *arguments)

        write(user, "a", START, SAID)
        async with Library(tmp_path / "home", places=Places(user), sources=(DIARY,), apart=apart) as slow:
            await slow.find()
            await slow.read_pending()
    assert [info.event_count for info in await library.store.conversations()] == ([] if is_removed else [2])


async def test_session_whose_first_line_is_too_long_has_no_beginning(library: Library, user: Path) -> None:
    write(user, "a", {**SAID, "user": "x" * FIRST_BYTES}, SAID)
    await library.find()
    assert not await library.read_beginning(copy_id("diary", "a"))
    assert (await library.read_now(copy_id("diary", "a"))).was_read


@pytest.mark.parametrize("was_refreshed", [True, False])
async def test_followed_session_that_is_replaced_is_read_anew(
    library: Library, user: Path, was_refreshed: bool
) -> None:
    write(user, "a", START, SAID, DONE, TOLD)
    await library.find()
    await library.read_pending()
    follower = LogFollower(library.store, await library.store.conversation(copy_id("diary", "a")))
    await follower.open()
    if was_refreshed:
        assert await follower.refresh() is False
    write(user, "a", START, {**SAID, "user": "Where is the leak?"}, TOLD)
    await library.find()
    await library.read_pending()
    assert await follower.refresh() is True
    assert follower.count == 2
    assert await follower.refresh() is False


async def test_session_that_is_replaced_while_it_is_followed_is_read_anew(
    library: Library, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(user, "a", START, SAID)
    await library.find()
    await library.read_pending()
    follower = LogFollower(library.store, await library.store.conversation(copy_id("diary", "a")))
    await follower.open()
    grow = follower.timeline.grow

    async def grow_late() -> None:
        later = {**TOLD, "at": "2026-03-01T11:00:00+00:00"}
        write(user, "a", START, {**SAID, "user": "Where is the leak?"}, later, later)
        await library.read_now(copy_id("diary", "a"))
        await grow()

    monkeypatch.setattr(follower.timeline, "grow", grow_late)
    write(user, "a", TOLD, append=True)
    await library.read_now(copy_id("diary", "a"))
    assert await follower.refresh() is True
    assert follower.count == 3
    assert follower.position.length_s == 3599


async def test_tab_after_the_end_of_what_replaced_its_session_goes_to_the_new_end(library: Library, user: Path) -> None:
    write(user, "a", START, SAID, TOLD, TOLD, TOLD)
    await library.find()
    await library.read_pending()
    follower = LogFollower(library.store, await library.store.conversation(copy_id("diary", "a")))
    tab = FollowTab(follower, None, lambda tab: None, AsyncExitStack())
    await tab.start()
    tab.target = 2
    await tab.run(lambda: None)
    tab.hits, tab.query = [1, 3], "washer"
    write(user, "a", START, {**SAID, "user": "Where is the leak?"})
    await library.find()
    await library.read_pending()
    tab.needs_refresh = True
    await tab.run(lambda: None)
    assert (tab.player.position.event, tab.player.count) == (0, 1)
    assert [row.id for row in tab.events.rows] == [0]
    assert (list(tab.hits), tab.query) == ([], "")


async def test_closing_a_tab_ends_the_reading_of_its_session(library: Library, user: Path) -> None:
    write(user, "a", START, SAID)
    await library.find()
    follower = LogFollower(library.store, await library.store.conversation(copy_id("diary", "a")))
    tab = AgentTab(follower, None, lambda tab: None, AsyncExitStack())
    assert tab.reading_group in tab.work_groups


async def test_session_that_was_rewritten_is_replaced(library: Library, user: Path) -> None:
    write(user, "a", START, SAID, DONE, TOLD)
    await library.find()
    await library.read_pending()
    assert len(await library.store.search("washer")) == 1, "it is in the index"
    write(user, "a", START, {**SAID, "user": "Where is the leak?"})
    await library.find()
    await library.read_pending()
    (event,) = await library.store.read(copy_id("diary", "a"))
    assert event.event.message == "Where is the leak?"
    assert await library.store.search("washer") == []
    with closing(sqlite3.connect(library.store.path)) as connection:
        assert connection.execute("SELECT rowid FROM words WHERE words MATCH 'washer'").fetchall() == [], "nor kept"


async def test_unchanged_session_is_not_read_again(tmp_path: Path, user: Path) -> None:
    reads: list[str] = []

    def read(session: AgentSession) -> Transcript:
        reads.append(session.id)
        return DIARY.read(session)

    write(user, "a", START, SAID)
    async with _library(tmp_path, user, sources=(Source("diary", "Diary", DIARY.discover, read),)) as library:
        for _time in range(3):
            await library.find()
            await library.read_pending()
    assert reads == ["a"]


async def test_copy_stays_when_its_agent_deletes_the_session(library: Library, user: Path) -> None:
    path = write(user, "a", START, SAID, TOLD)
    await library.find()
    await library.read_pending()
    path.unlink()
    await library.find()
    record = (await library.records())[copy_id("diary", "a")]
    assert record.is_gone
    assert len(await library.store.read(record.id)) == 2
    write(user, "a", START, SAID, TOLD)
    await library.find()
    assert not (await library.records())[record.id].is_gone


async def test_nothing_stays_without_the_users_yes(tmp_path: Path, user: Path) -> None:
    path = write(user, "a", START, SAID, TOLD)
    async with _library(tmp_path, user, keeps=False) as library:
        await library.find()
        await library.read_pending()
        path.unlink()
        await library.find()
        assert await library.store.conversations() == []
        assert await library.store.search("washer") == []
        assert await library.records() == {}


async def test_copy_stays_although_the_last_version_could_not_be_read(tmp_path: Path, user: Path) -> None:
    path = write(user, "a", START, SAID, TOLD)
    async with _library(tmp_path, user) as library:
        await library.find()
        await library.read_pending()
        path.write_text("")
        await library.find()
        await library.read_pending()
        record = (await library.records())[copy_id("diary", "a")]
        assert record.wrong == "it has no events"
        assert await library.read_beginning(record.id)
        path.unlink()
        await library.find()
        record = await library.read_now(record.id)
        assert (record.is_gone, record.wrong) == (True, "")
        assert len(await library.store.read(record.id)) == 2


async def test_branches_go_with_their_session(tmp_path: Path, user: Path) -> None:
    path = write(user, "a", START, SAID, {"other": "One way"}, {"other": "Another way"})
    async with _library(tmp_path, user, keeps=False) as library:
        await library.find()
        await library.read_pending()
        write(user, "a", START, {**SAID, "user": "Where is the leak?"}, {"other": "One way"})
        await library.find()
        await library.read_pending()
        assert sorted(info.title for info in await library.store.conversations()) == ["Mend the pump", "One way"]
        path.unlink()
        await library.find()
        assert await library.store.conversations() == []
        assert await library.store.search("way") == []


async def test_sources_that_are_off_keep_what_they_have(tmp_path: Path, user: Path) -> None:
    write(user, "a", START, SAID)
    async with _library(tmp_path, user) as library:
        await library.find()
        await library.read_pending()
    async with _library(tmp_path, user, sources=()) as library:
        await library.find()
        assert not (await library.records())[copy_id("diary", "a")].is_gone


async def test_session_that_cannot_be_read_says_why_and_is_tried_again_when_it_changes(
    tmp_path: Path, user: Path
) -> None:
    def read(session: AgentSession) -> Transcript:
        if "SAID" not in session.path.read_text():
            raise Fault("it is cut off")
        return DIARY.read(session)

    path = write(user, "a", START)
    async with _library(tmp_path, user, sources=(Source("diary", "Diary", DIARY.discover, read),)) as library:
        await library.find()
        await library.read_pending()
        record = (await library.records())[copy_id("diary", "a")]
        assert (record.wrong, record.is_pending) == ("it is cut off", False)
        with path.open("a") as file:
            file.write('{"user": "SAID", "at": 1}\n')
        record = await library.read_now(record.id)
        assert record.wrong == ""
        assert len(await library.store.read(record.id)) == 1


async def test_broken_reader_does_not_hide_the_sessions_of_others(tmp_path: Path, user: Path) -> None:
    def fail(places: Places) -> list[AgentSession]:
        raise RuntimeError("a fault of this reader")

    write(user, "a", START, SAID)
    async with _library(tmp_path, user, sources=(Source("x", "X", fail, DIARY.read), DIARY)) as library:
        assert (await library.find()).found == 1


async def test_branch_and_sub_agent_are_below_their_session(library: Library, user: Path) -> None:
    write(user, "a", START, SAID, {"other": "Another way"})
    write(user, "b", {**START, "title": "Look at the valves", "parent": "a"}, SAID)
    await library.find()
    await library.read_pending()
    below = await library.store.descendants(copy_id("diary", "a"))
    assert sorted(info.title for info in below) == ["Another way", "Look at the valves"]


async def test_session_that_begins_like_an_older_one_is_below_it(tmp_path: Path, user: Path) -> None:
    def discover(places: Places) -> Iterator[AgentSession]:
        for session in DIARY.discover(places):
            begun_at = None if session.id == "old" else datetime(2026, 4, 1, tzinfo=UTC)
            yield replace(session, started_at=session.updated_at, beginning="first answer", begun_at=begun_at)

    for name in ("fork", "old"):
        write(user, name, START, SAID)
    async with _library(tmp_path, user, sources=(Source("diary", "Diary", discover, DIARY.read),)) as library:
        for _time in range(2):  # the second time, the files are known
            await library.find()
            (below,) = await library.store.descendants(copy_id("diary", "old"))
            assert below.id == copy_id("diary", "fork")


async def test_unchanged_file_is_not_opened_again(tmp_path: Path, user: Path) -> None:
    given: list[AgentSession | None] = []

    def discover(places: Places) -> Iterator[AgentSession]:
        for session in DIARY.discover(places):
            given.append(places.unchanged(session.path, session.size, session.changed_ns))
            yield session

    path = write(user, "a", START, SAID)
    async with _library(tmp_path, user, sources=(Source("diary", "Diary", discover, DIARY.read),)) as library:
        await library.find()
        await library.find()
        with path.open("a") as file:
            file.write("\n")
        await library.find()
    assert [each is not None for each in given] == [False, True, False]


async def test_secrets_are_redacted(tmp_path: Path, user: Path) -> None:
    write(user, "a", {**START, "title": "With hunter2-hunter2"}, {**SAID, "user": "The key is hunter2-hunter2."})
    redactor = Redactor(["hunter2-hunter2"])
    async with Library(tmp_path / "home", places=Places(user), sources=(DIARY,), redactor=redactor) as library:
        await library.find()
        await library.read_pending()
        (event,) = await library.store.read(copy_id("diary", "a"))
        (info,) = await library.store.conversations()
    assert "hunter2" not in event.event.message
    assert "hunter2" not in info.title + info.first_line
    assert b"hunter2" not in (library_home(tmp_path / "home") / "sessions.db").read_bytes()


async def test_export_for_v0_has_only_what_v0_knows(library: Library, user: Path, tmp_path: Path) -> None:
    write(user, "a", START, SAID, DONE, {"strange": 1}, TOLD)
    await library.find()
    await library.read_pending()
    await export(library.store, copy_id("diary", "a"), "trajectory", tmp_path / "a.json")
    events = json.loads((tmp_path / "a.json").read_text())
    assert [event.get("action") or event["observation"] for event in events] == ["message", "run", "run", "message"]
    assert not any("imported" in event for event in events)


async def test_files_of_the_agent_are_as_before(library: Library, user: Path) -> None:
    write(user, "a", START, SAID)
    before = _tree(user)
    await library.find()
    await library.read_pending()
    await library.read_now(copy_id("diary", "a"))
    assert _tree(user) == before


def _tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = status.st_mode, status.st_mtime_ns, content
    return found


async def test_only_one_process_updates(tmp_path: Path, user: Path, library: Library) -> None:
    async with _library(tmp_path, user) as other, library._alone():
        with pytest.raises(StoreBusyError, match="Another Handloom is reading"):
            await other.find()
    await library.find()


async def test_cancelled_reading_keeps_what_was_read(library: Library, user: Path) -> None:
    count = 2 * TOGETHER + 10
    for number in range(count):
        write(user, f"s{number}", START, SAID)
    await library.find()
    left: list[int] = []

    async def read() -> None:
        await library.read_pending(lambda progress: left.append(progress.pending))

    task = asyncio.create_task(read())
    while not left:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 0 < (await library.find()).pending < count
    assert (await library.read_pending()).pending == 0
    assert len(await library.store.conversations()) == count


@pytest.mark.parametrize(
    ("told", "computed", "cost"),
    [(0.5, 0.7, 0.5), (0.0, 0.7, 0.7), (None, 0.7, 0.7), (0.0, None, 0.0), (None, None, None)],
)
def test_cost_is_what_its_agent_says_unless_that_is_nothing(
    told: float | None, computed: float | None, cost: float | None
) -> None:
    session = AgentSession(agent="diary", id="a", root=Path("/x"), path=Path("/x/a"), cost=told)
    assert Record("0", session, read_cost=computed).cost == cost


async def test_unknown_session_says_what_to_do(library: Library) -> None:
    with pytest.raises(UsageError, match="handloom list --all-agents"):
        await library.read_now("0" * 32)


async def test_library_is_private(library: Library, tmp_path: Path) -> None:
    assert stat.S_IMODE(os.stat(library_home(tmp_path / "home")).st_mode) == 0o700


async def test_own_conversations_and_copies_are_one_list(tmp_path: Path, user: Path, library: Library) -> None:
    write(user, "a", START, SAID)
    write(user, "b", {**START, "title": "Older", "at": "2025-01-01T00:00:00+00:00"}, TOLD)
    await library.find()
    await library.read_pending()
    home = tmp_path / "home"
    async with EventStore(home) as own, EventReader(library_home(home)) as copies:
        await own.create_conversation("own", title="Ours", workspace="/w", model="m")
        both = AllSessions([own, copies])
        everything = await both.listing.page(ConversationFilter())
        assert [info.title for info in everything] == ["Ours", "Mend the pump", "Older"]
        assert [info.title for info in await both.listing.page(ConversationFilter(), offset=1, limit=1)] == [
            "Mend the pump"
        ]
        titles = [info.title for info in await both.listing.page(ConversationFilter(), order="title")]
        assert titles == ["Mend the pump", "Older", "Ours"]
        assert await both.listing.count(ConversationFilter()) == 3
        assert await both.listing.origins() == ["diary"]
        assert await both.home_of("own") == home
        assert await both.home_of(copy_id("diary", "a")) == library_home(home)
        (hit,) = await both.search("washer")
        assert hit.conversation_id == copy_id("diary", "b")
        assert await both.search("washer", before=hit) == []
