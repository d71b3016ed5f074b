"""Whole conversations are stored, forked, renamed and deleted, and the lists show it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.errors import StoreBusyError, UsageError
from core.events import (
    AgentState,
    AgentStateChangedObservation,
    CmdOutputObservation,
    Envelope,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    TerminalOutput,
)
from core.store import database
from core.store.blobs import parse_data_url
from core.store.conversations import ConversationFilter, NewConversation
from core.store.event_store import EventStore
from core.store.recordings import RecordedFrame, pack_frames, unpack_frames
from core.store.writer import Draft
from tests.tapes import recording_of

USER, AGENT, ENVIRONMENT = EventSource.USER, EventSource.AGENT, EventSource.ENVIRONMENT
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with EventStore(tmp_path / "home") as opened:
        yield opened


def new(id: str = "n", *, title: str = "", origin: str = "import", origin_of: str = "file.json") -> NewConversation:
    return NewConversation(id=id, title=title, workspace="/w", model="m", origin=origin, origin_of=origin_of)


def envelopes(*events: Event) -> list[Envelope]:
    return [
        Envelope(
            conversation_id="x",
            id=number,
            timestamp=AT + timedelta(seconds=number),
            source=USER if isinstance(event, MessageAction) else ENVIRONMENT,
            event=event,
            carried={"args": {"from_elsewhere": number}} if isinstance(event, MessageAction) else {},
        )
        for number, event in enumerate(events)
    ]


def frame(after: int, ms: int, data: bytes, *, cause: int = 0) -> RecordedFrame:
    return RecordedFrame(after, AT + timedelta(milliseconds=ms), TerminalOutput(cause, data))


async def test_list_has_the_facts_of_the_events(store: EventStore) -> None:
    lease = await store.create_conversation("c", title="t", workspace="/w", model="m")
    metrics = LLMMetrics(accumulated_cost=0.5)
    for event, source in (
        (MessageAction(content="\n  First line \nsecond"), USER),
        (MessageAction(content="answer", llm_metrics=metrics), AGENT),
        (MessageAction(content="another"), USER),
        (AgentStateChangedObservation(agent_state=AgentState.FINISHED), ENVIRONMENT),
    ):
        await store.append(lease, [Draft(event, source)])
    (info,) = await store.conversations()
    assert (info.first_line, info.state, info.cost, info.event_count) == ("First line", "finished", 0.5, 4)
    assert info.size == sum(len(body.encode()) for body in await store.read_json("c"))
    unknown = LLMMetrics(accumulated_cost=None)
    await store.append(lease, [Draft(MessageAction(content="x", llm_metrics=unknown), AGENT)])
    assert (await store.conversations())[0].cost is None


async def test_list_is_filtered_and_paged(store: EventStore) -> None:
    for number in range(5):
        await store.adopt(new(f"c{number}", title="Odd" if number % 2 else "Even"), envelopes())
    every = [info.id for info in await store.conversations()]
    first = await store.conversations(limit=2)
    rest = await store.conversations(before=first[-1])
    assert [info.id for info in [*first, *rest]] == every
    assert {i.id for i in await store.conversations(where=ConversationFilter(text="odd"))} == {"c1", "c3"}
    assert await store.conversations(where=ConversationFilter(origin="")) == []
    assert await store.conversations(where=ConversationFilter(states=frozenset({"running"}))) == []


async def test_adopted_conversation_is_complete(store: EventStore) -> None:
    blob = parse_data_url(f"data:image/png;base64,{PNG}")
    assert blob is not None
    given = envelopes(MessageAction(content="hello"), CmdOutputObservation(content="x" * 5000, command="ls"))
    frames = [frame(0, 0, b"\x1b[31mred"), frame(0, 7, b"\xff"), frame(1, 9, b"$ ", cause=-1)]
    await store.adopt(new(), given, blobs=[blob], recorded=frames)
    read = await store.read("n")
    assert [(e.id, e.timestamp, e.source, e.event, e.carried) for e in read] == [
        (e.id, e.timestamp, e.source, e.event, e.carried) for e in given
    ]
    assert await store.blob("n", blob.ref) == blob
    assert await recording_of(store, "n") == frames
    assert await recording_of(store, "n", after=1) == frames[2:]
    timeline = await store.event_times("n")
    assert (len(timeline.times), list(timeline.turns)) == (2, [0])
    assert timeline.times[0] == AT.timestamp()


async def test_conversation_is_adopted_completely_or_not_at_all(store: EventStore) -> None:
    with_a_gap = [envelopes(MessageAction(content="a"))[0], envelopes(*[MessageAction(content="b")] * 3)[2]]
    with pytest.raises(Exception, match="not the next one"):
        await store.adopt(new(), with_a_gap)
    assert await store.conversations() == []
    await store.adopt(new(), [])
    with pytest.raises(UsageError, match="already"):
        await store.adopt(new(), [])


async def test_fork_has_the_events_up_to_its_point_and_is_independent(store: EventStore) -> None:
    lease = await store.create_conversation("c", title="t", workspace="/w", model="m")
    for text in ("one", "two", "three"):
        await store.append(lease, [Draft(MessageAction(content=text), USER)])
    await store.fork("c", 1, new("f", origin="fork", origin_of="c"))
    assert [e.id for e in await store.read("f")] == [0, 1]
    forked = await store.acquire("f")
    await store.append(forked, [Draft(MessageAction(content="other"), USER)])
    await store.append(lease, [Draft(MessageAction(content="four"), USER)])  # whoever had it open still has
    assert [getattr(e.event, "content", "") for e in await store.read("f")] == ["one", "two", "other"]
    (info,) = await store.conversations(conversation_id="f")
    assert (info.origin, info.origin_of, info.first_line) == ("fork", "c", "one")
    with pytest.raises(UsageError, match="no event 9"):
        await store.fork("c", 9, new("g"))


async def test_deleted_conversation_leaves_nothing(tmp_path: Path) -> None:
    canary = "Zeisigkanarie"
    home = tmp_path / "home"
    async with EventStore(home) as store:
        await store.adopt(new("kept"), envelopes(MessageAction(content="kept words stay")))
        told = envelopes(
            MessageAction(content=f"secret {canary}"), CmdOutputObservation(content=f"{canary} " * 400, command="")
        )
        await store.adopt(new("gone", title=canary), told, recorded=[frame(0, 0, canary.encode())])
        await store.index()
        assert len(await store.search(canary.lower())) == 2
        await store.delete_conversation("gone")
        assert await store.search(canary) == []
        assert [hit.conversation_id for hit in await store.search("words")] == ["kept"]
        with pytest.raises(UsageError, match="no conversation"):
            await store.delete_conversation("gone")
        files = [path for path in home.rglob("*") if path.is_file()]
        assert not [path for path in files if canary.lower() in path.read_bytes().lower().decode("latin-1")]
    with closing(sqlite3.connect(home / "handloom.db")) as connection:
        for table in ("events", "blobs", "recordings", "indexed", "leases", "snapshots"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] <= 1


async def test_database_of_the_previous_schema_is_listed_read_and_searched(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    database.upgrade(home / "handloom.db", database.MIGRATIONS[:4])
    told = {
        "action:message": {"source": "user", "action": "message", "args": {"content": "First words\nmore"}},
        "action:run": {
            "source": "agent", "action": "run", "args": {"command": "ls"},
            "llm_metrics": {"accumulated_cost": 0.25},
        },
        "observation:agent_state_changed": {
            "source": "environment", "observation": "agent_state_changed", "content": "",
            "extras": {"agent_state": "finished"},
        },
    }  # fmt: skip
    with closing(sqlite3.connect(home / "handloom.db")) as connection, connection:
        for id in ("empty", "full"):
            connection.execute(
                "INSERT INTO conversations (id, title, workspace, model, created_at) VALUES (?, 't', '/w', 'm', ?)",
                (id, AT.isoformat()),
            )
        connection.execute("INSERT INTO leases VALUES (2, 1, NULL)")
        for number, (kind, data) in enumerate(told.items()):
            at = (AT + timedelta(seconds=number)).isoformat()
            body = json.dumps({"id": number, "timestamp": at, **data})
            connection.execute(
                "INSERT INTO events VALUES (2, ?, ?, ?, NULL, ?, 1, ?)", (number, at, data["source"], kind, body)
            )
    async with EventStore(home) as store:
        full, empty = await store.conversations()
        assert (full.first_line, full.state, full.cost, full.event_count) == ("First words", "finished", 0.25, 3)
        assert full.updated_at == AT + timedelta(seconds=2)
        assert (empty.first_line, empty.state, empty.cost, empty.size) == ("", "", 0.0, 0)
        assert full.size == sum(map(len, await store.read_json("full")))
        assert await store.index() == 0
        assert [hit.event_id for hit in await store.search("first words")] == [0]
        lease = await store.acquire("full")
        await store.append(lease, [Draft(MessageAction(content="on"), USER)])
        assert (await store.conversations())[0].event_count == 4


async def test_conversation_that_is_open_elsewhere_is_not_deleted(tmp_path: Path, store: EventStore) -> None:
    await store.create_conversation("c", title="t", workspace="/w", model="m")
    async with EventStore(tmp_path / "home") as other:
        with pytest.raises(StoreBusyError, match="open in another"):
            await other.delete_conversation("c")
    assert len(await store.conversations()) == 1


async def test_latest_event_of_a_kind_is_found(store: EventStore) -> None:
    states = [AgentStateChangedObservation(agent_state=state) for state in (AgentState.RUNNING, AgentState.FINISHED)]
    await store.adopt(new(), envelopes(states[0], MessageAction(content="x"), states[1]))
    kinds = frozenset({"observation:agent_state_changed"})
    assert [getattr(await store.latest("n", kinds, at), "id", None) for at in (0, 1, 2, 3)] == [None, 0, 0, 2]


def test_frames_keep_their_bytes_and_milliseconds() -> None:
    frames = [frame(3, 0, b"a"), frame(3, 1, b""), frame(3, 70_000, bytes(range(256))), frame(4, 70_001, b"b")]
    rows = pack_frames(frames)
    assert [row.after for row in rows] == [3, 4]
    assert [each for row in rows for each in unpack_frames(row)] == frames
