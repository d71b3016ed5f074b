"""A conversation opened from a snapshot equals one opened from its log; an unusable snapshot is ignored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.controller.decide import fold
from core.controller.state import Limits, Owed, Pending, State
from core.controller.stuck import Step
from core.conversations.conversation_manager import ConversationManager
from core.errors import StoreError
from core.events import (
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    event_to_dict,
)
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from core.snapshots.state_snapshots import MAX_CHARS, Snapshots, is_storable, state_from_json, state_to_json
from core.store.database import sqlite3
from core.store.event_store import EventStore
from core.store.writer import Draft, Lease
from core.stream import EventStream
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script

TURNS = [{"tool_calls": [bash(f"echo {number}")]} for number in range(5)]
SETTINGS = Settings.model_validate({"agent": {"confirm": "never"}})


async def opened(home: Path, then: Callable[[ConversationManager], Awaitable[Any]], **agent: Any) -> Any:
    settings = SETTINGS.model_copy(update={"agent": SETTINGS.agent.model_copy(update=agent)})
    async with ConversationManager(
        home, settings, make_runtime=lambda folder: ScriptedRuntime(), environ={}
    ) as manager:
        return await then(manager)


async def say(session: AgentSession, text: str) -> None:
    await session.send(text)
    async with asyncio.timeout(20):
        await session.settled()


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """One with a conversation that was closed after its agent had finished."""
    model = write_script(tmp_path, [*TURNS, FINISH] * 2)

    async def live(manager: ConversationManager) -> None:
        session = await manager.create(workspace=str(tmp_path), model=model)
        await say(session, "go")

    await opened(tmp_path / "home", live)
    return tmp_path / "home"


async def reopened(manager: ConversationManager) -> AgentSession:
    (info,) = await manager.store.conversations()
    return await manager.open(info.id)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of all events that are read from the log."""
    seen: list[int] = []
    real = EventStream.read

    async def watched(self: EventStream, **wanted: Any) -> list[Envelope]:
        page = await real(self, **wanted)
        seen.extend(envelope.id for envelope in page)
        return page

    monkeypatch.setattr(EventStream, "read", watched)
    return seen


async def test_opening_a_closed_conversation_reads_no_events(home: Path, read: list[int]) -> None:
    async def again(manager: ConversationManager) -> State:
        session = await reopened(manager)
        assert read == []
        assert session.state == fold(await session.stream.read(), session.state.limits)
        return session.state

    assert (await opened(home, again)).iteration == len(TURNS) + 1


async def test_model_call_after_a_snapshot_has_the_whole_history(home: Path, read: list[int]) -> None:
    async def again(manager: ConversationManager) -> None:
        session = await reopened(manager)
        last = session.stream.latest_id
        await say(session, "once more")
        assert read[: last + 1] == list(range(last + 1))
        assert session.state == fold(await session.stream.read(), session.state.limits)

    await opened(home, again)


async def test_other_limits_invalidate_the_snapshot(home: Path, read: list[int]) -> None:
    async def again(manager: ConversationManager) -> None:
        session = await reopened(manager)
        assert read[0] == 0
        assert session.state.limits.max_iterations == 7

    await opened(home, again, max_iterations=7)


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE snapshots SET state = 'no JSON'",
        "UPDATE snapshots SET state = '{}'",
        "UPDATE snapshots SET state = json_set(state, '$.iteration', 'many')",
        "UPDATE snapshots SET state = json_set(state, '$.recent', json('[[1, {}, null]]'))",
        "UPDATE snapshots SET event = 1000000",
        "UPDATE snapshots SET made_by = 'another version'",
        "DELETE FROM snapshots",
    ],
)
async def test_unreadable_snapshot_is_ignored(home: Path, harm: str) -> None:
    with sqlite3.connect(home / "handloom.db") as database:
        assert database.execute(harm).rowcount == 1

    async def again(manager: ConversationManager) -> None:
        session = await reopened(manager)
        assert session.state == fold(await session.stream.read(), session.state.limits)

    await opened(home, again)


async def test_snapshot_of_a_missing_event_is_ignored(home: Path, read: list[int]) -> None:
    with sqlite3.connect(home / "handloom.db") as database:
        database.execute("UPDATE snapshots SET event = event + 1")

    async def again(manager: ConversationManager) -> None:
        session = await reopened(manager)
        assert read == list(range(session.stream.latest_id + 1))

    await opened(home, again)


class Refusing(EventStore):
    """Keeps no snapshot, and notes which it was to keep."""

    fails = False

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.kept: list[int] = []

    async def save_snapshot(self, lease: Lease, event_id: int, made_by: str, state: str) -> None:
        if self.fails:
            raise StoreError("The disk is full.")
        self.kept.append(event_id)
        await super().save_snapshot(lease, event_id, made_by, state)


async def test_snapshot_is_taken_after_enough_events_unless_too_large(tmp_path: Path) -> None:
    async with Refusing(tmp_path) as store:
        lease = await store.create_conversation("c", title="", workspace="/", model="m")
        snapshots = Snapshots(store, lease, Limits())
        assert await snapshots.newest() == (State.initial(Limits()), 0)
        rests = State.initial(Limits())
        await snapshots.take(rests, 4, every=5)
        await snapshots.take(replace(rests, queue=(Pending(1, CmdRunAction(command="ls")),)), 5)
        store.fails = True
        await snapshots.take(rests, 5, every=5)
        assert store.kept == []
        store.fails = False
        await snapshots.take(rests, 5, every=5)
        await snapshots.take(rests, 9, every=5)
        await snapshots.take(rests, 10, every=5)
        assert store.kept == [4, 9]
        empty = len(state_to_json(rests))
        await snapshots.take(replace(rests, reason="x" * (MAX_CHARS - empty)), 11)
        await snapshots.take(replace(rests, reason="x" * (MAX_CHARS - empty + 1)), 12)
        assert store.kept == [4, 9, 10]


async def test_snapshot_is_taken_while_the_conversation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.session.agent_session.EVERY", 5)
    model = write_script(tmp_path, [*TURNS, FINISH])

    async def live(manager: ConversationManager) -> None:
        session = await manager.create(workspace=str(tmp_path), model=model)
        await say(session, "go")
        with sqlite3.connect(tmp_path / "home" / "handloom.db") as database:
            ((last,),) = database.execute("SELECT event FROM snapshots").fetchall()
        assert last > 5

    await opened(tmp_path / "home", live)


async def test_loaded_snapshot_counts_for_the_next_interval(tmp_path: Path) -> None:
    async with Refusing(tmp_path) as store:
        lease = await store.create_conversation("c", title="", workspace="/", model="m")
        await store.append(lease, [Draft(MessageAction(content="x"), EventSource.AGENT) for _ in range(10)])
        rests = replace(State.initial(Limits()), reason="as it was")
        first = Snapshots(store, lease, Limits())
        await first.newest()
        await first.take(rests, 4)
        await first.take(rests, 4)
        assert store.kept == [3], "no event came since"
        again = Snapshots(store, lease, Limits())
        assert await again.newest() == (rests, 4)
        await again.take(rests, 4)
        await again.take(rests, 8, every=5)
        await again.take(rests, 5)
        assert store.kept == [3, 4]
        await again.take(rests, 10, every=5)
        assert store.kept == [3, 4, 9]
        assert await Snapshots(store, lease, Limits()).newest() == (rests, 10)
        others = Snapshots(store, lease, Limits(max_iterations=1))
        assert await others.newest() == (State.initial(Limits(max_iterations=1)), 0)


RUNS, RAN = CmdRunAction(command="ls"), CmdOutputObservation(command="ls", content="é")


@pytest.mark.parametrize(
    ("changes", "can_be"),
    [
        ({}, True),
        ({"recent": (Step(1, RUNS, RAN), Step(3, RUNS))}, True),
        ({"queue": (Pending(1, RUNS),)}, False),
        ({"owed": (Owed(1, "stopped"),)}, False),
        ({"asked": 1}, False),
        ({"recalls": frozenset({1})}, False),
    ],
)
def test_only_resting_states_are_stored_and_restored_unchanged(changes: dict[str, Any], can_be: bool) -> None:
    state = replace(State.initial(Limits()), **changes)
    assert is_storable(state) is can_be
    if can_be:
        assert state_from_json(state_to_json(state)) == state


@pytest.mark.parametrize("step", [(RUNS, RUNS), (RAN, RAN), (RAN, None), (None, RAN)])
def test_step_must_be_an_action_and_a_result(step: tuple[Event | None, Event | None]) -> None:
    data = json.loads(state_to_json(State.initial(Limits())))
    data["recent"] = [[1, *(one and event_to_dict(one, derived=False) for one in step)]]
    with pytest.raises(TypeError, match="a step is"):
        state_from_json(json.dumps(data))
