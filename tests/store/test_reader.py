"""Reading saved conversations: pages of recordings, times, answers, hits, and failed openings."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from core.errors import StoreBusyError, StoreError, StoreVersionError
from core.events import (
    AgentDelegateObservation,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    ErrorObservation,
    Event,
    EventSource,
    MessageAction,
    NullObservation,
    TerminalOutput,
)
from core.store import database
from core.store import reader as reader_module
from core.store.conversations import ConversationFilter
from core.store.database import sqlite3
from core.store.event_store import EventStore
from core.store.locks import FileLock
from core.store.reader import EventFilter, EventReader, EventTimes, RecordingRow
from core.store.recordings import RecordedFrame, RecordedRow, pack_frames
from core.store.writer import Draft
from tests.repeated import leaves_nothing_running
from tests.store.conversations import conversation

AT = datetime(2026, 11, 22, 13, 0, tzinfo=UTC)
USER, AGENT, SANDBOX = EventSource.USER, EventSource.AGENT, EventSource.ENVIRONMENT


class Clock:
    """Moves by a second with each look."""

    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with EventStore(tmp_path / "home", clock=Clock()) as opened:
        yield opened


# -- recordings ----------------------------------------------------------------------------------------------------


def row(after: int, *pieces: bytes) -> RecordedRow:
    """One stored row, with a frame for each piece."""
    (made,) = pack_frames([RecordedFrame(after, AT, TerminalOutput(7, piece)) for piece in pieces])
    return made


def told(frames: Sequence[RecordedFrame]) -> list[tuple[int, bytes]]:
    return [(frame.after, frame.frame.data) for frame in frames]


ROWS = [row(-1, b"begin"), row(0, b"one ", b"two"), row(0, b"three"), row(2, b"four"), row(2, b"five"), row(3, b"six")]


@pytest.mark.parametrize(
    ("after", "before", "beyond", "numbers"),
    [
        (-1, None, None, [0, 1, 2, 3, 4, 5]),
        (0, None, None, [1, 2, 3, 4, 5]),
        (1, None, None, [3, 4, 5]),
        (-1, 0, None, [0]),
        (0, 1, None, [1, 2]),
        (0, 3, None, [1, 2, 3, 4]),
        (4, None, None, []),
        (-1, None, (0, 0), [2, 3, 4, 5]),
        (-1, 3, (0, 1), [3, 4]),
        (-1, None, (3, 0), []),
    ],
)
async def test_recording_is_read_between_events_and_after_a_row(
    store: EventStore, after: int, before: int | None, beyond: RecordingRow | None, numbers: list[int]
) -> None:
    await store.record(await conversation(store), ROWS)
    await store.record(await conversation(store, "other"), [row(0, b"other")])
    page = await store.recorded("c", after=after, before=before, beyond=beyond)
    pieces = [[(-1, b"begin")], [(0, b"one "), (0, b"two")], [(0, b"three")], [(2, b"four")], [(2, b"five")]]
    wanted = [piece for number in numbers for piece in [*pieces, [(3, b"six")]][number]]
    assert (told(page.frames), page.end) == (wanted, None)
    assert await store.recorded("nobody", after=after, before=before, beyond=beyond) == ([], None)


async def test_recording_page_ends_after_a_number_of_bytes_and_a_row(store: EventStore) -> None:
    """Each frame counts with some bytes more than it has, so that many short ones come to an end as well."""
    await store.record(await conversation(store), [row(0, b"x" * (65536 - 256)) for _ in range(10)])
    page = await store.recorded("c")
    assert (len(page.frames), page.end) == (8, (0, 7))
    rest = await store.recorded("c", beyond=page.end)
    assert (len(rest.frames), rest.end) == (2, None)
    await store.record(await conversation(store, "short"), [row(0, *[b"x"] * 1000) for _ in range(4)])
    page = await store.recorded("short")
    assert (len(page.frames), page.end) == (3000, (0, 2))


async def test_recording_page_ends_after_a_number_of_rows(store: EventStore) -> None:
    rows = [row(number, str(number).encode()) for number in range(65)]
    await store.record(await conversation(store), rows)
    frames: list[RecordedFrame] = []
    end, pages = None, 0
    while (page := await store.recorded("c", beyond=end)).end is not None:
        frames, end, pages = frames + page.frames, page.end, pages + 1
    assert pages == 2
    assert [frame.after for frame in frames + page.frames] == list(range(65))


@pytest.mark.parametrize(
    ("after", "before", "least_bytes", "wanted"),
    [
        (-1, 4, 1, [(-1, b""), (0, b""), (0, b""), (2, b""), (2, b""), (3, b"six")]),
        (-1, 3, 1, [(-1, b""), (0, b""), (0, b""), (2, b""), (2, b"five")]),
        (-1, 3, 6, [(-1, b""), (0, b""), (0, b""), (2, b"four"), (2, b"five")]),
        (0, 3, 14, [(0, b""), (0, b"three"), (2, b"four"), (2, b"five")]),
        (0, 3, 17, [(0, b"one "), (0, b"two"), (0, b"three"), (2, b"four"), (2, b"five")]),
        (0, 3, 10_000, [(0, b"one "), (0, b"two"), (0, b"three"), (2, b"four"), (2, b"five")]),
        (1, 3, 10_000, [(2, b"four"), (2, b"five")]),
        (1, 2, 10_000, []),
    ],
)
async def test_only_the_end_of_a_recording_has_bytes(
    store: EventStore, after: int, before: int, least_bytes: int, wanted: list[tuple[int, bytes]]
) -> None:
    await store.record(await conversation(store), ROWS)
    tail = await store.recorded_tail("c", after=after, before=before, least_bytes=least_bytes)
    assert told(tail) == wanted
    assert {frame.frame.cause for frame in tail} <= {7}
    assert await store.recorded_tail("nobody", after=after, before=before, least_bytes=least_bytes) == []


async def test_rows_without_bytes_are_not_all_read_for_the_end_of_a_recording(store: EventStore) -> None:
    """Each row has two frames; an unread one counts as one."""
    await store.record(await conversation(store), [row(number, b"", b"") for number in range(10)])
    tail = await store.recorded_tail("c", after=0, before=10, least_bytes=4)
    assert [frame.after for frame in tail] == [0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9]


# -- times, answers, and the last of a kind ------------------------------------------------------------------------


async def test_event_times_and_turns_are_listed(store: EventStore) -> None:
    drafts = [
        Draft(MessageAction(content="one"), USER), Draft(MessageAction(content="an answer"), AGENT),
        Draft(CmdRunAction(command="ls"), USER), Draft(MessageAction(content="two"), USER),
    ]  # fmt: skip
    lease = await conversation(store)
    stored = [envelope for draft in drafts for envelope in await store.append(lease, [draft])]
    times = [envelope.timestamp.timestamp() for envelope in stored]
    for after, turns in ((-1, [0, 3]), (0, [3]), (2, [3]), (3, [])):
        timeline = await store.event_times("c", after=after)
        assert (list(timeline.times), list(timeline.turns)) == (times[after + 1 :], turns)
    assert (await store.event_times("c")) == (await store.event_times("c", after=-1))
    nothing = await store.event_times("nobody")
    assert (isinstance(nothing, EventTimes), list(nothing.times), list(nothing.turns)) == (True, [], [])


def delegated(iterations: Any) -> Draft:
    return Draft(AgentDelegateObservation(content="", outputs={"iterations": iterations}), SANDBOX, cause=0)


async def test_answers_of_delegates_have_their_result_and_invalid_ones_are_left_out(store: EventStore) -> None:
    lease = await conversation(store)
    numbers = [1, 0, -1, 2, 1_000_000, 1_000_001, "3", 2.5, None]
    await store.append(lease, [delegated(number) for number in numbers])
    assert await store.answers("c") == [(0, 1), (3, 2), (4, 1_000_000)]
    assert await store.answers("c", after=0, before=4) == [(3, 2)]
    assert await store.answers("c", before=0) == await store.answers("nobody") == []


async def test_answer_with_several_events_counts_once(store: EventStore) -> None:
    run, failed = CmdRunAction(command="ls"), ErrorObservation(content="no")
    condensed = CondensationAction(forgotten_event_ids=[1])
    events: list[tuple[Event, EventSource, int | None]] = [
        (MessageAction(content="go"), USER, None), (run, AGENT, 0), (run, AGENT, 0), (failed, AGENT, 1),
        (CmdOutputObservation(content="", command="ls"), SANDBOX, 2), (MessageAction(content="done"), AGENT, 4),
        (failed, AGENT, 0), (condensed, AGENT, 5), (run, AGENT, None),
    ]  # fmt: skip
    await store.append(await conversation(store), [Draft(event, source, cause) for event, source, cause in events])
    assert await store.answers("c") == [(1, 1), (5, 1)]


@pytest.mark.parametrize(
    ("kinds", "before", "wanted"),
    [
        ({"action:message"}, 9, 3),
        ({"action:message"}, 3, 0),
        ({"action:message"}, 0, None),
        ({"action:message", "action:run"}, 9, 4),
        ({"action:run"}, 4, 1),
        ({"observation:error", "action:message"}, 3, 2),
        ({"observation:null"}, 9, None),
    ],
)
async def test_last_event_of_a_kind_is_found(
    store: EventStore, kinds: set[str], before: int, wanted: int | None
) -> None:
    run = CmdRunAction(command="ls " * 400)
    events = [MessageAction(content="0"), run, ErrorObservation(content="2"), MessageAction(content="3"), run]
    stored = await store.append(await conversation(store), [Draft(event, USER) for event in events])
    await store.append(await conversation(store, "other"), [Draft(NullObservation(), USER)])
    found = await store.latest("c", frozenset(kinds), before)
    assert found == (None if wanted is None else stored[wanted])


# -- events and conversations --------------------------------------------------------------------------------------


async def test_time_filter_works_in_every_time_zone(store: EventStore) -> None:
    lease = await conversation(store)
    stored = [
        envelope for text in "abc" for envelope in await store.append(lease, [Draft(MessageAction(content=text), USER)])
    ]
    at = stored[1].timestamp.astimezone(timezone(timedelta(hours=5)))
    assert await store.read("c", where=EventFilter(since=at)) == stored[1:]
    assert await store.read("c", where=EventFilter(until=at)) == stored[:2]
    both = EventFilter(since=at, until=at, kinds=frozenset({"action:message"}), sources=frozenset({USER}), query="B")
    assert await store.read("c", where=both) == stored[1:2]
    assert await store.read("c", limit=0) == await store.read("c", before=0) == []


async def test_pages_of_conversations_are_stable_for_equal_times(tmp_path: Path) -> None:
    moments = iter([AT + timedelta(minutes=minutes) for minutes in (3, 1, 2, 2, 2)])
    async with EventStore(tmp_path, clock=lambda: next(moments)) as store:
        for id in "abcde":
            await conversation(store, id)
        listed, last = [], None
        while page := await store.conversations(limit=2, before=last):
            listed += [info.id for info in page]
            last = page[-1]
        assert listed == ["a", "e", "d", "c", "b"]
        assert [info.id for info in await store.conversations(conversation_id="d")] == ["d"]
        assert await store.conversations(conversation_id="d", where=ConversationFilter(model="other")) == []


async def test_user_inputs_of_this_folder_come_first_without_delegates(store: EventStore) -> None:
    for id, folder, parent in (("here", "/w", ""), ("there", "/other", ""), ("delegate", "/w", "here")):
        lease = await store.create_conversation(id, title="", workspace=folder, model="m", parent=parent)
        drafts = [Draft(MessageAction(content=f"said {id}"), USER), Draft(CmdRunAction(command=f"ls {id}"), USER)]
        await store.append(lease, [*drafts, Draft(CmdRunAction(command="of the agent"), AGENT)])
    assert await store.user_inputs(workspace="/w", limit=9) == ["!ls here", "said here", "!ls there", "said there"]
    assert await store.user_inputs(workspace="/w", limit=3) == ["!ls here", "said here", "!ls there"]


# -- search --------------------------------------------------------------------------------------------------------


async def test_search_skips_candidates_that_do_not_match(store: EventStore) -> None:
    """The index knows which words an event has, not their order: every second one is none."""
    await conversation(store, "c", *["one two" if number % 2 else "two one" for number in range(40)])
    await store.index()
    first = await store.search('"one two"', limit=3)
    assert [hit.event_id for hit in first] == [39, 37, 35]
    more = await store.search('"one two"', limit=3, before=first[-1])
    assert [hit.event_id for hit in more] == [33, 31, 29]
    assert [hit.event_id for hit in await store.search('"one two"', limit=20)] == list(range(39, 0, -2))
    assert [hit.event_id for hit in await store.search('"one two"', limit=21)] == list(range(39, 0, -2))
    assert await store.search('"one two"', limit=0) == []


async def test_search_in_one_conversation_finds_nothing_in_others(store: EventStore) -> None:
    for id in "abc":
        await conversation(store, id, "word", "word")
    await store.index()
    found = [(hit.conversation_id, hit.event_id) for hit in await store.search("word", conversation_id="b")]
    assert found == [("b", 1), ("b", 0)]
    first, *_ = await store.search("word", conversation_id="b")
    assert [hit.event_id for hit in await store.search("word", conversation_id="b", before=first)] == [0]
    assert await store.search("word", conversation_id="nobody") == []
    assert len(await store.search("word")) == 6


async def test_deleted_event_is_not_found(store: EventStore) -> None:
    await conversation(store, "c", "word", "word")
    await store.index()
    await store._writer.connection.execute("DELETE FROM events WHERE id = 1")
    assert [hit.event_id for hit in await store.search("word")] == [0]


# -- opening and closing -------------------------------------------------------------------------------------------


def is_free(home: Path) -> bool:
    """Whether no process has a shared lock of the home."""
    lock = FileLock(home / "locks" / "share.lock")
    try:
        return lock.try_acquire()
    finally:
        lock.release()


@pytest.mark.parametrize("kind", [EventReader, EventStore])
async def test_home_is_shared_while_open_and_free_afterwards(kind: type[EventReader], tmp_path: Path) -> None:
    async with kind(tmp_path):
        assert not is_free(tmp_path)
        async with EventReader(tmp_path) as other:
            assert await other.count_conversations() == 0
        assert not is_free(tmp_path)
        names = sorted(file.name for file in (tmp_path / "locks").iterdir())
        assert len(names) == (3 if kind is EventStore else 2), "who writes has a file of its own"
    assert is_free(tmp_path)
    assert sorted(file.name for file in (tmp_path / "locks").iterdir()) == ["schema.lock", "share.lock"]


@pytest.mark.parametrize("kind", [EventReader, EventStore])
async def test_failed_opening_leaves_the_home_to_others(kind: type[EventReader], tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        path = store.path
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {database.VERSION + 1}")

    async def fail() -> None:
        with pytest.raises(StoreVersionError):
            async with kind(tmp_path):
                pass

    await leaves_nothing_running(fail, times=5)
    assert is_free(tmp_path)


@pytest.mark.parametrize("kind", [EventReader, EventStore])
@pytest.mark.parametrize("pragmas", ["READER_PRAGMAS", "WRITER_PRAGMAS"])
async def test_failed_connection_leaves_the_home_to_others(
    kind: type[EventReader], pragmas: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EventStore(tmp_path):
        pass
    monkeypatch.setattr(database, pragmas, ("SELECT * FROM nowhere",))

    async def fail() -> None:
        with pytest.raises(StoreError, match=r"cannot be opened: no such table: nowhere\. Check the disk"):
            async with kind(tmp_path):
                pass

    if kind is EventStore or pragmas == "READER_PRAGMAS":
        await leaves_nothing_running(fail, times=5)
    assert is_free(tmp_path)
    assert sorted(file.name for file in (tmp_path / "locks").iterdir()) == ["schema.lock", "share.lock"]


async def test_exclusively_locked_home_is_refused_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older SQLite locks the home exclusively; a newer one reports who has it."""
    with monkeypatch.context() as patch:
        patch.setattr(reader_module, "can_be_shared", lambda: False)
        async with EventReader(tmp_path):
            patch.undo()
            with pytest.raises(StoreBusyError, match="only one at a time can, because it lacks the fix"):
                async with EventReader(tmp_path):
                    pass
    assert is_free(tmp_path)
    async with EventReader(tmp_path):
        monkeypatch.setattr(reader_module, "can_be_shared", lambda: False)
        with pytest.raises(StoreBusyError, match=r"this Python's SQLite \(\d+\.\d+\.\d+\) lacks the fix"):
            async with EventReader(tmp_path):
                pass


async def test_permissions_of_an_open_home_are_restricted(tmp_path: Path) -> None:
    home, locks, file = tmp_path / "a" / "home", tmp_path / "a" / "home" / "locks", tmp_path / "a/home/handloom.db"
    locks.mkdir(parents=True)
    file.touch()
    for path in (home, locks, file):
        path.chmod(0o777)
    async with EventReader(home):
        assert [stat.S_IMODE(path.stat().st_mode) for path in (home, locks, file)] == [0o700, 0o700, 0o600]


async def test_failed_query_raises_store_error(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store, EventReader(tmp_path) as reader:
        await store._writer.connection.execute("DROP TABLE spending")
        with pytest.raises(StoreError, match=r"handloom\.db cannot be read: no such table: spending\. Check"):
            await reader.spent()
