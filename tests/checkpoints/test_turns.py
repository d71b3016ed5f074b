"""A checkpoint at both ends of each turn: recorded if files changed, and reported if there are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from core.checkpoints.model import Checkpoint
from core.checkpoints.turns import MAX_SKIPPED, NO_CHECKPOINTS, Turns
from core.conversations.conversation_manager import ConversationManager
from core.errors import CheckpointError
from core.events import (
    Action,
    AgentState,
    AgentStateChangedObservation,
    BrowseInteractiveAction,
    BrowseURLAction,
    CheckpointObservation,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileEditAction,
    FileReadAction,
    MessageAction,
    Observation,
    UndoObservation,
)
from core.protocols import Checkpoints, Runtime
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from core.stream import Frames
from runtime.checkpoints.checkpoint_store import WorkspaceCheckpoints
from tests.doubles import FINISH, ScriptedRuntime, bash, call, write_script
from tests.streams import heard, opened_stream
from tests.warm_servers import WarmRuntime

FREE = Settings.model_validate({"agent": {"confirm": "never"}})


class Slow(WorkspaceCheckpoints):
    """Waits with each checkpoint until the test lets it go."""

    def __init__(self, home: Path, workspace: str, conversation_id: str) -> None:
        super().__init__(home, workspace, conversation_id)
        self.begun = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def take(self, label: str) -> Checkpoint:
        self.begun.set()
        await self.may_go_on.wait()
        return await super().take(label)


class Failing(WorkspaceCheckpoints):
    """Has none."""

    async def take(self, label: str) -> Checkpoint:
        raise CheckpointError("There is no git here. Install it.")


@asynccontextmanager
async def conversation(
    tmp_path: Path,
    turns: list[dict[str, Any]],
    *,
    make_runtime: Callable[[str], Runtime] = WarmRuntime,
    make: Callable[[Path, str, str], Checkpoints] = WorkspaceCheckpoints,
) -> AsyncIterator[tuple[AgentSession, Checkpoints]]:
    """A new conversation in a folder of its own, and the store of its checkpoints."""
    home, made = tmp_path / "home", list[Checkpoints]()
    (tmp_path / "workspace").mkdir()

    def checkpoints(workspace: str, conversation_id: str) -> Checkpoints:
        made.append(make(home, workspace, conversation_id))
        return made[-1]

    manager = ConversationManager(home, FREE, make_runtime=make_runtime, make_checkpoints=checkpoints, environ={})
    async with manager:
        session = await manager.create(workspace=str(tmp_path / "workspace"), model=write_script(tmp_path, turns))
        yield session, made[0]


async def rested(session: AgentSession) -> list[Envelope]:
    async with asyncio.timeout(30):
        await session.settled()
    return await session.stream.read()


def records(events: list[Envelope]) -> list[CheckpointObservation]:
    return [envelope.event for envelope in events if isinstance(envelope.event, CheckpointObservation)]


def told_in(envelope: Envelope) -> str:
    assert isinstance(envelope.event, Observation)
    return envelope.event.content


def ids(events: list[Envelope], *kinds: type[Event]) -> list[int]:
    return [envelope.id for envelope in events if isinstance(envelope.event, kinds)]


async def test_checkpoints_of_two_turns_can_be_restored_back_and_forth(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    turns = [{"tool_calls": [bash("echo 1 > a")]}, FINISH, {"tool_calls": [bash("echo 2 > a; rm mine; echo 2 > b")]}]
    async with conversation(tmp_path, [*turns, FINISH]) as (session, store):
        (workspace / "mine").write_text("of the user")
        await session.send("one")
        first = await rested(session)
        (workspace / "mine").write_text("changed between the turns")
        await session.send("two")
        events = await rested(session)
        begun, ended, begun_again, _ = records(events)
        messages = ids(events, MessageAction)
        assert [begun.after, begun_again.after] == messages, "each turn begins with a message"
        assert ended.after in ids(first, AgentStateChangedObservation)
        assert [(r.files, r.changed) for r in records(events)] == [(1, 1), (2, 1), (2, 1), (2, 3)]
        before = {"a": "2\n", "b": "2\n"}
        assert read(workspace) == before
        done = await store.restore(ended.checkpoint)
        assert read(workspace) == {"a": "1\n", "mine": "of the user"}
        await store.restore(done.before.id)
        assert read(workspace) == before
        await store.unpack(begun.checkpoint, str(tmp_path / "fork"))
        assert read(tmp_path / "fork") == {"mine": "of the user"}


def read(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


async def test_unchanged_turn_adds_no_checkpoint_event(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH, FINISH]) as (session, _):
        await session.send("one")
        assert len(records(await rested(session))) == 1
        await session.send("two")
        assert len(records(await rested(session))) == 1


async def test_empty_conversation_has_no_checkpoints(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as (session, store):
        await rested(session)
        assert await store.list() == []


async def test_only_actions_that_change_files_wait_for_the_checkpoint(tmp_path: Path) -> None:
    def answer(action: Action) -> Observation:
        if isinstance(action, FileReadAction):
            was_read.set()
        return CmdOutputObservation(command="", content="ok")

    was_read = asyncio.Event()
    runtime = ScriptedRuntime(answer)
    view = call("str_replace_editor", command="view", path="/workspace/a", security_risk="LOW")
    turns = [{"tool_calls": [view]}, {"tool_calls": [bash("touch a")]}, FINISH]
    async with conversation(tmp_path, turns, make_runtime=lambda _: runtime, make=Slow) as (session, store):
        assert isinstance(store, Slow)
        await session.send("go")
        async with asyncio.timeout(10):
            await store.begun.wait()
            await was_read.wait()
        while len(session.state.queue) != 1 or len(ids(await session.stream.read(), Action)) < 4:
            await session.changed()
        assert len(runtime.executed) == 1, "the command waits for the checkpoint"
        store.may_go_on.set()
        events = await rested(session)
        assert len(runtime.executed) == 2
        (begun,) = records(events)
        (record_id,) = ids(events, CheckpointObservation)
        command_done = ids(events, CmdOutputObservation)[-1]
        assert record_id < command_done
        assert begun.after == ids(events, MessageAction)[0]


async def test_waiting_for_a_checkpoint_can_be_interrupted(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    turns = [{"tool_calls": [bash("touch a")]}]
    async with conversation(tmp_path, turns, make_runtime=lambda _: runtime, make=Slow) as (session, store):
        assert isinstance(store, Slow)
        await session.send("go")
        async with asyncio.timeout(10):
            await store.begun.wait()
            while not session.state.running:
                await session.changed()
            await session.interrupt()
            while session.state.is_busy:
                await session.changed()
        store.may_go_on.set()
        await rested(session)
        assert runtime.executed == []


async def test_impossible_checkpoints_are_reported_once_and_work_goes_on(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("echo ran")]}, FINISH, {"tool_calls": [bash("echo again")]}, FINISH]
    async with conversation(tmp_path, turns, make=Failing) as (session, _):
        await session.send("one")
        await rested(session)
        await session.send("two")
        events = await rested(session)
    told = [e for e in events if isinstance(e.event, ErrorObservation) and e.event.error_id == NO_CHECKPOINTS]
    assert [envelope.source for envelope in told] == [EventSource.ENVIRONMENT]
    assert "There is no git here. Install it." in told_in(told[0])
    assert [e.event.content for e in events if isinstance(e.event, CmdOutputObservation)] == ["ran", "again"]


async def test_work_after_a_pause_is_a_new_turn(tmp_path: Path) -> None:
    workspace, may_end = tmp_path / "workspace", asyncio.Event()
    runtime = ScriptedRuntime()
    inner = runtime.execute

    async def execute(*given: Any) -> Observation:
        observation = await inner(*given)
        (workspace / "a").write_text("of the agent")
        await may_end.wait()
        return observation

    runtime.execute = execute  # type: ignore[method-assign, assignment]
    async with conversation(tmp_path, [{"tool_calls": [bash("x")]}, FINISH], make_runtime=lambda _: runtime) as (
        session,
        _,
    ):
        await session.send("go")
        async with asyncio.timeout(10):
            await runtime.started.wait()
        await session.pause()
        may_end.set()
        await rested(session)
        (workspace / "mine").write_text("of the user")
        await session.resume()
        events = await rested(session)
        assert [(record.files, record.changed) for record in records(events)] == [(0, 0), (1, 1), (2, 1)]
        states = [e for e in events if isinstance(e.event, AgentStateChangedObservation)]
        running = [e.id for e in states if e.event.agent_state is AgentState.RUNNING]  # type: ignore[attr-defined]
        assert records(events)[-1].after == running[-1]


# -- without a conversation around it ----------------------------------------------------------------------------------


class Labels:
    """Records why checkpoints are taken; `ids` are their ids, in order."""

    def __init__(self, *ids: str) -> None:
        self.labels: list[str] = []
        self.ids = list(ids)
        self.skipped: tuple[str, ...] = ()
        self.may_go_on: asyncio.Event | None = None

    async def take(self, label: str) -> Checkpoint:
        self.labels.append(label)
        if self.may_go_on is not None:
            await self.may_go_on.wait()
        if self.ids == ["broken"]:
            raise CheckpointError("No room.")
        return Checkpoint(self.ids.pop(0) if self.ids else label, label, 3, 2, 0, self.skipped)


SAYS, REPLIES = (MessageAction(content="x"), EventSource.USER), (MessageAction(content="x"), EventSource.AGENT)
QUEUES = (MessageAction(content="x", queued=True), EventSource.USER)
UNDOES = (UndoObservation(), EventSource.ENVIRONMENT)
RUNS, RESTS, ASKS, ENDS_, PAUSES, FAILS, STOPS, REFUSES = (
    (AgentStateChangedObservation(agent_state=state), EventSource.ENVIRONMENT)
    for state in (
        AgentState.RUNNING, AgentState.AWAITING_USER_INPUT, AgentState.AWAITING_USER_CONFIRMATION, AgentState.FINISHED,
        AgentState.PAUSED, AgentState.ERROR, AgentState.STOPPED, AgentState.REJECTED,
    )
)  # fmt: skip
ACTS = (CmdRunAction(command="x"), EventSource.AGENT)


@pytest.mark.parametrize(
    ("events", "moments"),
    [
        ([SAYS, RUNS, ACTS, ENDS_], [0, 3]),
        ([SAYS, ASKS, RUNS, RESTS], [0, 3]),
        ([SAYS, PAUSES, RUNS, FAILS, RUNS, STOPS, SAYS, REFUSES], [0, 1, 2, 3, 4, 5, 6, 7]),
        ([RESTS, ENDS_, REPLIES, QUEUES, ACTS], []),
        ([RUNS, RUNS, SAYS, RUNS, RESTS, RESTS], [0, 2, 4]),
        ([UNDOES, SAYS, UNDOES, RESTS], [0, 1, 2, 3]),
    ],
)
async def test_turn_begins_with_message_or_resumed_work_and_ends_at_rest(
    tmp_path: Path, events: list[tuple[Event, EventSource]], moments: list[int]
) -> None:
    labels = Labels()
    async with opened_stream(tmp_path) as stream:
        turns = Turns(cast("Checkpoints", labels), stream, Frames())
        envelopes = [await stream.append(event, source) for event, source in events]
        for envelope in envelopes:
            await turns.on_event(envelope)
        assert labels.labels == [str(moment) for moment in moments]
        assert [record.after for record in records(list(await stream.read()))] == moments


async def test_checkpoint_is_recorded_once_for_the_same_files(tmp_path: Path) -> None:
    labels = Labels("a", "a", "b", "a")
    labels.skipped = tuple(f"{n}: too large" for n in range(MAX_SKIPPED + 1))
    async with opened_stream(tmp_path) as stream:
        turns = Turns(cast("Checkpoints", labels), stream, Frames())
        for event, source in (SAYS, RESTS, SAYS, RESTS):
            await turns.on_event(await stream.append(event, source))
        found = [envelope for envelope in await stream.read() if isinstance(envelope.event, CheckpointObservation)]
        assert {envelope.source for envelope in found} == {EventSource.ENVIRONMENT}
        skipped = list(labels.skipped[:MAX_SKIPPED])
        assert [envelope.event for envelope in found] == [
            CheckpointObservation(checkpoint=id, after=after, files=3, changed=2, skipped=skipped)
            for id, after in (("a", 0), ("b", 3), ("a", 5))
        ]


async def test_failed_checkpoint_is_reported_once_and_ends_checkpoints(tmp_path: Path) -> None:
    async with opened_stream(tmp_path) as stream:
        for _ in range(2):
            labels = Labels("broken")
            turns = Turns(cast("Checkpoints", labels), stream, Frames())
            for event, source in (SAYS, RESTS):
                await turns.on_event(await stream.append(event, source))
            assert len(labels.labels) == 1
        (told,) = [e for e in await stream.read() if isinstance(e.event, ErrorObservation)]
        assert isinstance(told.event, ErrorObservation)
        assert (told.source, told.event.error_id) == (EventSource.ENVIRONMENT, NO_CHECKPOINTS)
        assert told.event.content.endswith("to an earlier turn. No room.")


@pytest.mark.parametrize(
    ("event", "waits"),
    [
        (CmdRunAction(command="x"), True),
        (FileEditAction(path="a", command="create"), True),
        (FileEditAction(path="a", command="view"), False),
        (FileReadAction(path="a"), False),
        (BrowseURLAction(url="http://a/"), False),
        (BrowseInteractiveAction(browser_actions="noop(1)"), False),
        (CmdOutputObservation(command="x", content=""), False),
    ],
)
async def test_changing_actions_wait_for_the_checkpoint_before_them(tmp_path: Path, event: Event, waits: bool) -> None:
    labels, frames = Labels(), Frames()
    told = heard(frames)
    async with opened_stream(tmp_path) as stream:
        turns = Turns(cast("Checkpoints", labels), stream, frames)
        action = await stream.append(event, EventSource.AGENT)
        asked = asyncio.create_task(turns.ready(action))
        for _ in range(10):
            await asyncio.sleep(0)
        assert asked.done() is not waits
        earlier = (await stream.read())[0]
        await turns.on_event(replace(earlier, id=action.id - 1))
        for _ in range(10):
            await asyncio.sleep(0)
        assert asked.done() is not waits, "that was an event before it"
        await turns.on_event(action)
        await asked
        assert [text for _, _, text in told] == (["Taking a checkpoint of the workspace …", ""] if waits else [])
        await turns.ready(action)
        assert len(told) == 2 * waits, "what is kept already is not waited for"
        await Turns(None, stream, frames).ready(action)
