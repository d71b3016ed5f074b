"""Many conversations at once: which are awake, shown and closed, and that they do not affect each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import StoreBusyError, UsageError
from core.events import (
    Action,
    AgentState,
    CmdOutputObservation,
    Frame,
    MessageAction,
    Observation,
    Status,
)
from core.protocols import Runtime
from core.sandbox_types import Say, silently
from core.session.agent_session import AgentSession
from core.session.session_parts import TASK_STATUS
from core.session.suspend import TOO_MANY
from core.settings.config import Settings
from core.store.event_store import EventStore
from tests.doubles import FINISH, ScriptedRuntime, bash, write_script
from tests.warm_servers import WarmRuntime

ONE_STEP: list[dict[str, Any]] = [{"tool_calls": [bash("work")]}, FINISH]


class Sandbox(ScriptedRuntime):
    """Counts its starts and ends. `answer` as in ScriptedRuntime; by default every action is done at once."""

    def __init__(self, answer: Callable[[Action], Observation | BaseException | None] | None = None) -> None:
        super().__init__(answer)
        self.starts = 0
        self.is_closed = asyncio.Event()

    async def start(self, say: Say = silently) -> None:
        self.starts += 1
        self.is_closed.clear()

    async def aclose(self) -> None:
        self.is_closed.set()


class Busy(Sandbox):
    """Never done with an action."""

    def __init__(self) -> None:
        super().__init__(lambda action: None)


class Broken(Sandbox):
    """Cannot be ended."""

    async def aclose(self) -> None:
        raise OSError("the engine does not answer")


class ManagerFixture:
    """A manager, and shortcuts to make conversations."""

    def __init__(self, place: Path, manager: ConversationManager, runtimes: list[Runtime]) -> None:
        self.place = place
        self.manager = manager
        self.runtimes = runtimes
        """Models for conversations created from now on, in order; afterwards plain ones."""

    async def create(self, turns: Sequence[dict[str, Any]] = ONE_STEP, **named: Any) -> AgentSession:
        model = write_script(self.place, turns, f"{len(list(self.place.iterdir()))}.yaml")
        session = await self.manager.create(workspace=str(self.place), model=model, **named)
        await session.settled()
        return session

    async def working(self) -> AgentSession:
        """A conversation whose action never ends."""
        runtime = Busy()
        self.runtimes.append(runtime)
        session = await self.create()
        await session.send("go")
        await runtime.started.wait()
        return session


@asynccontextmanager
async def open_manager(
    tmp_path: Path, *runtimes: Runtime, clock: Callable[[], float] | None = None, **conversations: Any
) -> AsyncIterator[ManagerFixture]:
    """A manager whose conversations get the runtimes that are given, one after the other."""
    place, left = tmp_path / "workspace", list(runtimes)
    place.mkdir(exist_ok=True)
    settings = Settings.model_validate({"agent": {"confirm": "never"}, "conversations": conversations})

    def make_runtime(workspace: str) -> Runtime:
        return left.pop(0) if left else Sandbox()

    async with ConversationManager(
        tmp_path / "home", settings, make_runtime=make_runtime, environ={}, clock=clock or partial(next, count(0.0))
    ) as manager:
        yield ManagerFixture(place, manager, left)


async def said(session: AgentSession, text: str = "go") -> None:
    """Say something, and wait until the agent rests."""
    await session.send(text)
    async with asyncio.timeout(20):
        await session.settled()
        while not session.rests:
            assert session.setup._warming is not None
            await session.setup._warming


def notices(session: AgentSession) -> list[Status]:
    """The notices of a session from now on, as they come."""
    seen: list[Status] = []

    def watch(frame: Frame) -> None:
        if isinstance(frame, Status):
            seen.append(frame)

    session.frames.watch(watch)
    return seen


# -- places --------------------------------------------------------------------------------------------------------


async def test_longest_resting_conversation_is_suspended_when_slots_run_out(tmp_path: Path) -> None:
    runtimes = [Sandbox(), Sandbox()]
    async with open_manager(tmp_path, *runtimes, max_concurrent=2) as managed:
        older, newer = await managed.create(), await managed.create()
        await said(newer)
        await said(older)  # made first, but at work last
        told, state = notices(newer), newer.state
        third = await managed.create()
        assert [older.suspension.is_on, newer.suspension.is_on, third.suspension.is_on] == [False, True, False]
        assert runtimes[1].is_closed.is_set()
        assert not runtimes[0].is_closed.is_set()
        assert told == [TOO_MANY]
        assert (newer.state, newer.suspension.is_on) == (state, True)
        assert (await newer.stream.read())[-1].id == newer.stream.latest_id


async def test_suspension_notice_has_the_text_of_v0() -> None:
    assert (TOO_MANY.id, TOO_MANY.message) == (
        "AGENT_ERROR$TOO_MANY_CONVERSATIONS",
        "Too many conversations at once. If you are still using this one, try reactivating it by prompting the agent "
        "to continue",
    )


async def test_message_resumes_a_suspended_conversation_and_suspends_another(tmp_path: Path) -> None:
    runtime = Sandbox()
    async with open_manager(tmp_path, runtime, max_concurrent=1) as managed:
        first = await managed.create([*ONE_STEP, *ONE_STEP])
        await said(first)
        second = await managed.create()
        assert (first.suspension.is_on, second.suspension.is_on) == (True, False)
        told = notices(first)
        await said(first, "and once more")
        assert (first.suspension.is_on, second.suspension.is_on) == (False, True)
        assert Status(TOO_MANY.level, TOO_MANY.id, "") in told
        assert len(runtime.executed) == 2
        assert not runtime.is_closed.is_set()
        assert first.state.agent_state is AgentState.FINISHED


async def test_working_conversation_is_never_suspended(tmp_path: Path) -> None:
    """V0 closes the oldest one, even if it works."""
    async with open_manager(tmp_path, max_concurrent=2) as managed:
        busy, idle = await managed.working(), await managed.create()
        await managed.create()
        assert (busy.suspension.is_on, idle.suspension.is_on) == (False, True)
        assert busy.state.agent_state is AgentState.RUNNING


async def test_new_conversation_is_refused_while_all_work(tmp_path: Path) -> None:
    async with open_manager(tmp_path, max_concurrent=1) as managed:
        sleeper = await managed.create([*ONE_STEP, *ONE_STEP])
        await said(sleeper)
        busy = await managed.working()
        before = await sleeper.stream.read()
        with pytest.raises(UsageError, match=r"are working.*conversations\.max_concurrent"):
            await managed.create()
        with pytest.raises(UsageError, match="are working"):
            await sleeper.send("are you there?")
        assert len(await managed.manager.list()) == 2
        assert await sleeper.stream.read() == before
        assert sleeper.suspension.is_on
        await busy.interrupt()
        await busy.settled()
        await said(sleeper, "are you there?")
        assert (busy.suspension.is_on, sleeper.suspension.is_on) == (True, False)


async def test_failed_open_takes_no_slot(tmp_path: Path) -> None:
    async with open_manager(tmp_path, max_concurrent=1) as managed:
        with pytest.raises(UsageError, match="There is no conversation"):
            await managed.manager.open("nope")
        busy = await managed.working()
        await managed.manager.close(busy.info.id)
        assert not (await managed.working()).suspension.is_on


async def test_waiting_conversation_may_be_suspended_and_resumes_for_the_answer(tmp_path: Path) -> None:
    runtime = Sandbox()
    async with open_manager(tmp_path, runtime, max_concurrent=1) as managed:
        asks = await managed.create()
        asks.approval.set_mode("always")
        await said(asks)
        assert asks.state.agent_state is AgentState.AWAITING_USER_CONFIRMATION
        await managed.create()
        assert (asks.suspension.is_on, runtime.executed) == (True, [])
        await asks.approval.confirm()
        await asks.settled()
        assert (asks.suspension.is_on, len(runtime.executed)) == (False, 1)


async def test_interrupt_does_not_resume_a_conversation(tmp_path: Path) -> None:
    async with open_manager(tmp_path, max_concurrent=1) as managed:
        sleeper = await managed.create()
        await managed.create()
        await sleeper.interrupt()
        await sleeper.settled()
        assert sleeper.suspension.is_on


async def test_message_during_suspension_leaves_a_working_conversation(tmp_path: Path) -> None:
    async with open_manager(tmp_path, max_concurrent=1) as managed:
        for round in range(10):
            session = await managed.create()
            both = [said(session), session.suspend(TOO_MANY)]
            await asyncio.gather(*(both if round % 2 else reversed(both)))
            assert not session.suspension.is_on
            assert session.state.agent_state is AgentState.FINISHED
            await managed.manager.close(session.info.id)


async def test_sandbox_that_cannot_be_ended_does_not_block_suspension(tmp_path: Path) -> None:
    async with open_manager(tmp_path, Broken(), max_concurrent=1) as managed:
        first = await managed.create()
        second = await managed.create()
        assert (first.suspension.is_on, second.suspension.is_on) == (True, False)


async def test_suspension_ends_the_shell_and_resuming_starts_a_new_one(tmp_path: Path) -> None:
    runtime = WarmRuntime(tmp_path)
    turns = [{"tool_calls": [bash("echo once")]}, FINISH, {"tool_calls": [bash("echo again")]}, FINISH]
    async with open_manager(tmp_path, runtime, max_concurrent=1) as managed:
        session = await managed.create(turns)
        await said(session)
        before = runtime.server_pid
        await managed.create()
        assert (before is None, runtime.server_pid) == (False, None)
        await said(session, "more")
        outputs = [e.event.content for e in await session.stream.read() if isinstance(e.event, CmdOutputObservation)]
        assert outputs == ["once", "again"]


# -- who looks -----------------------------------------------------------------------------------------------------


async def test_concurrent_opens_share_one_start(tmp_path: Path) -> None:
    async with open_manager(tmp_path) as managed:
        id = (await managed.create()).info.id
        await managed.manager.close(id)
        runtimes: list[Runtime] = [Sandbox(), Sandbox(), Sandbox()]
        managed.runtimes += runtimes
        first, second, third = await asyncio.gather(
            managed.manager.attach(id), managed.manager.open(id), managed.manager.attach(id)
        )
        assert first is second is third
        assert managed.runtimes == runtimes[1:]


async def test_concurrent_open_and_close_leave_a_consistent_state(tmp_path: Path) -> None:
    sandboxes = [Sandbox() for _ in range(20)]
    async with open_manager(tmp_path, *sandboxes) as managed:
        id = (await managed.create()).info.id
        for _ in range(5):
            await asyncio.gather(managed.manager.close(id), managed.manager.open(id), managed.manager.close(id))
            session = await managed.manager.open(id)  # nobody holds its lease
            assert await is_open(managed, session)
        await said(session)
        assert session.state.agent_state is AgentState.FINISHED
        assert len([sandbox for sandbox in sandboxes if sandbox.starts and not sandbox.is_closed.is_set()]) == 1
        await managed.manager.close(id)
        assert not await is_open(managed, session)


async def test_detached_conversation_keeps_working(tmp_path: Path) -> None:
    async with open_manager(tmp_path) as managed:
        busy = await managed.working()
        assert await managed.manager.attach(busy.info.id) is busy
        managed.manager.detach(busy.info.id)
        await managed.manager.close_stale()
        assert busy.state.agent_state is AgentState.RUNNING
        assert await managed.manager.attach(busy.info.id) is busy


class Clock:
    """Waits until it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def is_open(managed: ManagerFixture, session: AgentSession) -> bool:
    """Whether its lease is held; asked of the store."""
    try:
        await managed.manager.store.release(await managed.manager.store.acquire(session.info.id))
    except StoreBusyError:
        return True
    return False


async def test_detached_conversation_is_closed_after_the_delay(tmp_path: Path) -> None:
    """V0 closes a detached conversation at the next tick, whatever its age."""
    clock = Clock()
    async with open_manager(tmp_path, clock=clock, close_delay_s=60) as managed:
        session = await managed.create()
        await managed.manager.attach(session.info.id)
        await managed.manager.attach(session.info.id)
        clock.now = 1000
        managed.manager.detach(session.info.id)
        clock.now = 2000
        await managed.manager.close_stale()
        assert await is_open(managed, session), "one still looks"
        managed.manager.detach(session.info.id)
        clock.now += 59
        await managed.manager.close_stale()
        assert await is_open(managed, session), "too young"
        clock.now += 1
        await managed.manager.close_stale()
        assert not await is_open(managed, session)


async def test_delay_counts_from_the_end_of_the_work(tmp_path: Path) -> None:
    clock = Clock()
    async with open_manager(tmp_path, clock=clock, close_delay_s=60) as managed:
        busy = await managed.working()
        managed.manager.detach(busy.info.id)
        clock.now = 1000
        await managed.manager.close_stale()
        assert await is_open(managed, busy), "it works"
        await busy.interrupt()
        await busy.settled()
        clock.now += 59
        await managed.manager.close_stale()
        assert await is_open(managed, busy), "it has only just come to rest"
        clock.now += 1
        await managed.manager.close_stale()
        assert not await is_open(managed, busy)


async def test_opening_or_attaching_prevents_closing(tmp_path: Path) -> None:
    clock = Clock()
    async with open_manager(tmp_path, clock=clock, close_delay_s=1) as managed:
        attached, opened, made = [await managed.create() for _ in range(3)]
        for session in (attached, opened):
            managed.manager.detach(session.info.id)
        await managed.manager.attach(attached.info.id)
        await managed.manager.open(opened.info.id)
        clock.now = 1000
        await managed.manager.close_stale()
        assert [await is_open(managed, session) for session in (attached, opened, made)] == [True] * 3


@pytest.mark.parametrize("delay", [0, None])
async def test_nothing_is_closed_without_a_delay(tmp_path: Path, delay: float | None) -> None:
    clock = Clock()
    async with open_manager(tmp_path, clock=clock, close_delay_s=delay, cleanup_interval_s=0.001) as managed:
        session = await managed.create()
        managed.manager.detach(session.info.id)
        clock.now = 1e9
        await managed.manager.close_stale()
        assert await is_open(managed, session)


async def test_one_failed_close_does_not_stop_closing_stale_conversations(tmp_path: Path) -> None:
    healthy = Sandbox()
    async with open_manager(tmp_path, Broken(), healthy, close_delay_s=0.5, cleanup_interval_s=0.001) as managed:
        sessions = [await managed.create(), await managed.create()]
        for session in sessions:
            managed.manager.detach(session.info.id)
        async with asyncio.timeout(20):
            await healthy.is_closed.wait()
        for session in sessions:
            assert await managed.manager.open(session.info.id) is not session


# -- failures ------------------------------------------------------------------------------------------------------


async def test_failed_task_ends_no_conversation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def bug() -> None:
        raise KeyError("not there")

    async with open_manager(tmp_path) as managed:
        session, neighbour = await managed.working(), await managed.create()
        told = notices(session)
        await session.tasks.spawn(bug())
        (notice,) = told
        assert (notice.level, notice.id) == ("error", TASK_STATUS)
        assert "KeyError: 'not there'" in notice.message
        assert "a task of conversation" in caplog.text
        assert session.state.is_busy
        await session.interrupt()
        await session.settled()
        assert session.state.agent_state is AgentState.STOPPED
        await said(neighbour)
        assert neighbour.state.agent_state is AgentState.FINISHED


async def test_task_cancelled_before_its_first_step_is_no_failure(tmp_path: Path) -> None:
    async def never() -> None:
        raise AssertionError("it was cancelled")

    async with open_manager(tmp_path) as managed:
        session = await managed.create()
        told, task = notices(session), session.tasks.spawn(never())
        task.cancel()
        await asyncio.wait([task])
        assert (task.cancelled(), told) == (True, [])


async def test_instructions_of_the_settings_are_those_of_new_conversations(tmp_path: Path) -> None:
    async with open_manager(tmp_path) as managed:
        manager = managed.manager
        manager.settings = manager.settings.model_copy(
            update={"agent": manager.settings.agent.model_copy(update={"instructions": " Be brief.\n"})}
        )
        session = await managed.create()
        assert session.memory.instructions == "Be brief."
        await manager.close(session.info.id)
        assert (await manager.open(session.info.id)).memory.instructions == ""


async def test_failed_close_does_not_stop_closing_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    healthy = Sandbox()
    async with open_manager(tmp_path, Broken(), healthy) as managed:
        ids = [(await managed.create()).info.id for _ in range(2)]
    assert healthy.is_closed.is_set()
    assert f"conversation {ids[0]} could not be closed" in caplog.text
    assert "the engine does not answer" in caplog.text
    async with open_manager(tmp_path) as managed:
        for id in ids:
            await managed.manager.open(id)


# -- titles --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def titled(tmp_path: Path, *turns: dict[str, Any], secret: str = "") -> AsyncIterator[AgentSession]:
    """A conversation for which a cheap model, which plays these turns, finds titles."""
    llm = {"title_model": write_script(tmp_path, turns, "title.yaml")}
    settings = Settings.model_validate({"agent": {"confirm": "never"}, "llm": llm})
    environ = {"MY_API_KEY": secret} if secret else {}
    async with ConversationManager(
        tmp_path / "home", settings, make_runtime=lambda workspace: Sandbox(), environ=environ
    ) as manager:
        yield await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, [FINISH, FINISH]))


async def title_asked(session: AgentSession) -> None:
    assert session.record.title_task is not None
    async with asyncio.timeout(20):
        await session.record.title_task


async def test_title_model_names_the_conversation_and_its_cost_counts(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 10, "cost": 0.25}
    async with titled(tmp_path, {"text": '\n "Repair of the\tbuild"\nbecause', "usage": usage}) as session:
        told = notices(session)
        await session.send("please look at the build\nit is red")
        assert session.info.title == "please look at the build"
        await title_asked(session)
        assert session.info.title == "Repair of the build"
        (stored,) = await session._store.conversations()
        assert stored.title == "Repair of the build"
        titles = [status.message for status in told if status.id == "STATUS$CONVERSATION_TITLE"]
        assert titles == ["please look at the build", "Repair of the build"]
        spent = await session._store.spent()
        assert (spent.cost, spent.tokens) == (0.25, 100), "the agent, which may have begun, costs nothing"


@pytest.mark.parametrize(
    "turn",
    [
        {"text": "x", "fault": "server_error"},
        {"text": "x", "fault": "empty"},
        {"text": "Late", "first_token_s": 600},
        {"text": "..."},
        {"text": "<think>what could it be"},
        {"text": "An essay " * 100},
        {"expect": "never", "text": "x"},
    ],
    ids=["down", "empty", "slow", "signs", "markup", "essay", "refused"],
)
async def test_useless_title_keeps_the_first_line(
    tmp_path: Path, turn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.llm.title_suggestion.TIMEOUT_S", 0.05)
    async with titled(tmp_path, turn) as session:
        told = notices(session)
        await said(session, "the first line")
        await title_asked(session)
        assert session.info.title == "the first line"
        assert session.state.agent_state is AgentState.FINISHED
        assert not [status for status in told if status.level == "error"]


async def test_missing_title_model_keeps_the_first_line(tmp_path: Path) -> None:
    async with titled(tmp_path, {"text": "x"}) as session:
        (tmp_path / "title.yaml").unlink()
        await session.send("the first line")
        await title_asked(session)
        assert session.info.title == "the first line"


async def test_title_given_by_the_user_is_kept(tmp_path: Path) -> None:
    async with titled(tmp_path, {"text": "Better"}) as session:
        await session.send("the first line")
        await session.record.set_title("Mine")
        await title_asked(session)
        assert session.info.title == "Mine"


async def test_only_the_first_message_of_an_untitled_conversation_requests_a_title(tmp_path: Path) -> None:
    async with titled(tmp_path, {"text": "Better"}) as session:
        await session.record.set_title("Mine")
        await said(session)
        assert session.record.title_task is None


async def test_secrets_reach_neither_the_title_nor_its_model(tmp_path: Path) -> None:
    async with titled(tmp_path, {"text": "x", "fault": "server_error"}, secret="hunter2-hunter2") as session:
        await session.send("use hunter2-hunter2")
        assert "hunter2" not in session.info.title


async def test_closing_does_not_wait_for_a_title(tmp_path: Path) -> None:
    async with titled(tmp_path, {"text": "Late", "first_token_s": 600}) as session:
        await said(session)
        task = session.record.title_task
        async with asyncio.timeout(60):  # the title takes longer
            await session.aclose()
        assert task is not None
        assert task.cancelled()


# -- lists ---------------------------------------------------------------------------------------------------------


async def test_old_conversations_are_not_listed_as_recent(tmp_path: Path) -> None:
    for id, days in (("old", 11), ("recent", 9)):
        async with EventStore(tmp_path / "home", clock=partial(_days_ago, days)) as store:
            await store.create_conversation(id, title="", workspace="/", model="demo")
    async with open_manager(tmp_path) as managed:
        assert [info.id for info in await managed.manager.list()] == ["recent", "old"]
        assert [info.id for info in await managed.manager.list(all=False)] == ["recent"]
    async with open_manager(tmp_path, max_age_days=None) as managed:
        assert len(await managed.manager.list(all=False)) == 2


def _days_ago(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


async def test_conversations_are_ordered_by_their_newest_event_in_utc(tmp_path: Path) -> None:
    """V0's times are naive, and local."""
    async with open_manager(tmp_path) as managed:
        first, second = await managed.create(), await managed.create()
        await said(first)
        infos = await managed.manager.list()
        assert [info.id for info in infos] == [first.info.id, second.info.id]
        assert {info.updated_at.utcoffset() for info in infos} == {timedelta(0)}
        events = await first.stream.read()
        assert {envelope.timestamp.utcoffset() for envelope in events} == {timedelta(0)}
        assert infos[0].updated_at == events[-1].timestamp


async def test_appending_events_does_not_change_the_conversation_record(tmp_path: Path) -> None:
    """V0 rewrites the metadata for every event, and looks through all events for a title."""
    async with open_manager(tmp_path) as managed:
        session = await managed.create()
        writer = managed.manager.store._writer.connection
        await writer.execute("CREATE TEMP TABLE writes (title TEXT)")
        await writer.execute(
            "CREATE TEMP TRIGGER note AFTER UPDATE OF title ON conversations BEGIN"
            " INSERT INTO writes VALUES (NEW.title); END"
        )
        await said(session, "name me")
        assert len([e for e in await session.stream.read() if not isinstance(e.event, MessageAction)]) > 5
        assert list(await writer.execute_fetchall("SELECT title FROM writes")) == [("name me",)]


async def test_sending_to_a_closed_conversation_is_refused(tmp_path: Path) -> None:
    async with open_manager(tmp_path) as managed:
        session = await managed.create()
        before = await session.stream.read()
        await managed.manager.close(session.info.id)
        with pytest.raises(UsageError, match="Open it again"):
            await session.send("hello?")
        assert await (await managed.manager.open(session.info.id)).stream.read() == before
