"""Delegates with real parts: separate conversations, side by side, shared sums, one observation each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from core.controller.exit_reasons import HaltKind, HaltOption
from core.controller.state import Limits, Pending, Queued, State
from core.conversations.conversation_manager import ConversationManager
from core.delegation.delegation import DELEGATE_FAILED, MAX_DEPTH, Delegation, delegate_limits
from core.errors import StoreError
from core.events import (
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentFinishAction,
    AgentState,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    LLMMetrics,
    MCPAction,
    MessageAction,
    Observation,
)
from core.protocols import Runtime
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from core.stream import EventStream, Frames
from tests.doubles import FINISH, ScriptedRuntime, bash, call, write_script
from tests.streams import opened_stream
from tests.warm_servers import WarmRuntime

DELEGATE = call("delegate", task="count the files")


@asynccontextmanager
async def parent(
    tmp_path: Path,
    turns: Sequence[dict[str, Any]],
    child_turns: Sequence[dict[str, Any]],
    *,
    agent: dict[str, Any] | None = None,
    make_runtime: Callable[[str], Runtime] = lambda folder: ScriptedRuntime(),
) -> AsyncIterator[tuple[ConversationManager, AgentSession]]:
    """A conversation whose delegates have a scripted model of their own."""
    child_model = write_script(tmp_path, child_turns, "child.yaml")
    settings = Settings.model_validate({"agent": {"confirm": "never", "delegate_model": child_model, **(agent or {})}})
    async with ConversationManager(tmp_path / "home", settings, make_runtime=make_runtime, environ={}) as manager:
        yield manager, await manager.create(workspace=str(tmp_path), model=write_script(tmp_path, turns))


async def settled(session: AgentSession, text: str = "go") -> list[Envelope]:
    await session.send(text)
    async with asyncio.timeout(30):
        await session.settled()
    return await session.stream.read()


async def has_child(session: AgentSession, count: int = 1) -> list[AgentSession]:
    """The delegates, once so many are at work."""
    await delegates_are(session, lambda children: len(children) >= count)
    return cast("list[AgentSession]", list(session.delegation.children.values()))


async def delegates_are(session: AgentSession, so: Callable[[Collection[object]], bool]) -> None:
    """Wait for these states of the delegates; the conversation publishes every change."""
    told = asyncio.Event()
    stop = session.frames.watch(lambda frame: told.set())
    async with asyncio.timeout(10):
        while not so(session.delegation.children):
            told.clear()
            await told.wait()
    stop()


def results(events: Sequence[Envelope]) -> list[Observation]:
    asked = [e.id for e in events if isinstance(e.event, AgentDelegateAction)]
    found = {e.cause: e.event for e in events if isinstance(e.event, Observation) and e.cause in asked}
    assert len([e for e in events if isinstance(e.event, Observation) and e.cause in asked]) == len(asked)
    return [found[action] for action in asked]


async def test_delegate_has_its_own_conversation_and_answers_its_parent(tmp_path: Path) -> None:
    child = [{"tool_calls": [bash("ls | wc -l > count; cat count")]}, {"tool_calls": [call("finish", message="3")]}]
    turns = [{"tool_calls": [DELEGATE]}, {"expect": "finishes task with 3", **FINISH}]
    async with parent(tmp_path, turns, child, make_runtime=WarmRuntime) as (manager, session):
        events = await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
        (result,) = results(events)
        assert isinstance(result, AgentDelegateObservation)
        assert result.content == "Delegated agent finished with result:\n\nCodeActAgent finishes task with 3"
        child_id = str(result.outputs["conversation"])
        (info,) = [info for info in await manager.list() if info.id == child_id]
        action = next(e.id for e in events if isinstance(e.event, AgentDelegateAction))
        assert (info.parent, info.parent_action) == (session.info.id, action)
        log = await manager.store.read(child_id)
        assert [e.id for e in log] == list(range(len(log)))
        assert "TASK: count the files" in str([e.event for e in log])
        assert session.delegation.children == {}
        assert int((tmp_path / "count").read_text()) > 0


async def test_delegate_shares_a_remote_sandbox(tmp_path: Path) -> None:
    class Elsewhere(WarmRuntime):
        is_elsewhere = True

    made: list[Elsewhere] = []

    def make_runtime(folder: str) -> Elsewhere:
        made.append(Elsewhere(folder))
        return made[-1]

    child = [{"tool_calls": [bash("echo $kept > told")]}, {"tool_calls": [call("finish", message="done")]}]
    turns = [{"tool_calls": [bash("kept=1")]}, {"tool_calls": [DELEGATE]}, {"tool_calls": [bash("cat told")]}, FINISH]
    async with parent(tmp_path, turns, child, make_runtime=make_runtime) as (_, session):
        await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
    assert len(made) == 1
    assert (tmp_path / "told").read_text() == "1\n"


async def test_cost_of_a_delegate_is_added_to_its_parent(tmp_path: Path) -> None:
    child = [{"tool_calls": [call("think", thought="hm")], "usage": {"prompt_tokens": 100, "cost": 0.2}}, FINISH]
    turns = [{"tool_calls": [DELEGATE], "usage": {"prompt_tokens": 10, "cost": 0.1}}, FINISH]
    async with parent(tmp_path, turns, child) as (manager, session):
        await settled(session)
        assert session.state.metrics.accumulated_cost == pytest.approx(0.3)
        assert session.state.tokens >= 110
        assert session.state.iteration == 4
        assert (await manager.store.spent()).cost == pytest.approx(0.3)
        assert (await manager.store.spent()).calls == 4


async def test_several_delegates_work_in_parallel(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(lambda action: None)  # never answers
    child = [{"tool_calls": [bash("sleep")]}, FINISH]
    turns = [{"tool_calls": [DELEGATE, DELEGATE, DELEGATE]}, FINISH]
    async with parent(tmp_path, turns, child, make_runtime=lambda folder: runtime) as (_, session):
        await session.send("go")
        children = await has_child(session, 3)
        assert len({child.id for child in children}) == 3
        assert session.state.running == tuple(sorted(session.delegation.children))
        await session.interrupt()
        await session.settled()


async def test_interrupting_the_parent_interrupts_and_answers_its_delegates(tmp_path: Path) -> None:
    child = [{"text": "a long answer " * 500, "tokens_per_s": 50}]
    turns = [{"tool_calls": [DELEGATE, DELEGATE]}, FINISH]
    async with parent(tmp_path, turns, child) as (_, session):
        await session.send("go")
        children = await has_child(session, 2)
        started_at = asyncio.get_running_loop().time()
        await session.interrupt()
        async with asyncio.timeout(10):
            await session.settled()
        assert asyncio.get_running_loop().time() - started_at < 1
        events = await session.stream.read()
        assert all("was stopped before it was done" in result.content for result in results(events))
        for child_session in children:
            assert child_session.state.agent_state is AgentState.STOPPED
        events = await settled(session, "go on")
        assert isinstance(events[-2].event, AgentFinishAction)


async def test_failed_delegate_becomes_an_observation(tmp_path: Path) -> None:
    child = [{"text": "x", "fault": "server_error"}]
    turns = [{"tool_calls": [DELEGATE]}, {"expect": "encountered an error during execution", **FINISH}]
    async with parent(tmp_path, turns, child) as (_, session):
        await settled(session)
        assert session.state.agent_state is AgentState.FINISHED


async def test_delegate_that_cannot_start_becomes_an_observation(tmp_path: Path) -> None:
    turns = [{"tool_calls": [call("delegate", task="x", agent="NobodyAgent")]}, FINISH]
    async with parent(tmp_path, turns, [FINISH]) as (_, session):
        (result,) = results(await settled(session))
        assert isinstance(result, ErrorObservation)
        assert result.error_id == DELEGATE_FAILED
        assert "There is no agent 'NobodyAgent'. Choose one of: ACPAgent, BrowsingAgent, CodeActAgent" in result.content
        assert session.state.agent_state is AgentState.FINISHED


async def test_delegation_depth_is_limited(tmp_path: Path) -> None:
    turns = [{"tool_calls": [DELEGATE]}, FINISH]
    async with parent(tmp_path, turns, turns) as (manager, session):
        await settled(session)
        assert session.state.agent_state is AgentState.FINISHED
        assert len(await manager.list()) == 1 + MAX_DEPTH


async def test_unattended_delegate_ends_at_its_share_of_the_limit(tmp_path: Path) -> None:
    child = [{"tool_calls": [call("think", thought=str(n))]} for n in range(20)]
    turns = [{"tool_calls": [DELEGATE, DELEGATE]}, FINISH]
    async with parent(tmp_path, turns, child, agent={"max_iterations": 9}) as (_, session):
        events = await settled(session)
        told = [result.content for result in results(events)]
        assert all("Agent reached maximum iteration" in text for text in told), told
        assert session.state.iteration == 9
        assert session.state.halt is not None
        assert session.state.halt.kind is HaltKind.LIMIT


async def test_attended_delegate_asks_and_waits_for_the_answer(tmp_path: Path) -> None:
    child = [*({"tool_calls": [call("think", thought=str(n))]} for n in range(3)), FINISH]
    turns = [{"tool_calls": [DELEGATE]}, FINISH]
    async with parent(tmp_path, turns, child, agent={"max_iterations": 3}) as (_, session):
        session.delegation.attended = True
        await session.send("go")
        (asks,) = await has_child(session)
        async with asyncio.timeout(10):
            while asks.state.halt is None:
                await asks.changed()
        assert session.state.agent_state is AgentState.RUNNING
        await asks.recover(HaltOption.EXTEND)
        await delegates_are(session, lambda children: not children)


async def test_closing_during_delegation_leaves_complete_logs(tmp_path: Path) -> None:
    child = [{"text": "a long answer " * 500, "tokens_per_s": 50}]
    async with parent(tmp_path, [{"tool_calls": [DELEGATE]}, FINISH], child) as (manager, session):
        await session.send("go")
        await has_child(session)
        id = session.info.id
    async with ConversationManager(
        tmp_path / "home", Settings(), make_runtime=lambda folder: ScriptedRuntime(), environ={}
    ) as manager:
        for info in await manager.list():
            again = await manager.open(info.id)
            assert again.state.agent_state is AgentState.STOPPED
            assert not again.state.queue
        assert results(await manager.store.read(id))


async def test_starting_a_delegate_needs_confirmation(tmp_path: Path) -> None:
    turns = [{"tool_calls": [DELEGATE]}, FINISH]
    async with parent(tmp_path, turns, [FINISH], agent={"confirm": "always"}) as (manager, session):
        await session.send("go")
        await session.settled()
        assert session.state.awaiting is not None
        assert len(await manager.list()) == 1
        await session.approval.confirm()
        await session.settled()
        assert session.state.agent_state is AgentState.FINISHED


# -- one delegate without its conversation -----------------------------------------------------------------------------


class Scripted:
    """A delegate: `does` says what becomes of it with each message, its log is a real one."""

    id = "d"

    def __init__(self, stream: EventStream, does: Callable[[Scripted], Awaitable[None]]) -> None:
        self.stream = stream
        self.state = State(agent_state=AgentState.FINISHED, iteration=4)
        self.said: list[str] = []
        self.calls: list[str] = []
        self._does = does

    async def send(self, text: str) -> None:
        self.said.append(text)
        await self._does(self)

    async def interrupt(self) -> None:
        self.calls.append("interrupt")
        if "unstoppable" in self.said[0]:
            raise StoreError("The disk is full.")

    async def settled(self) -> None:
        self.calls.append("settled")

    async def changed(self) -> None:
        self.calls.append("changed")
        if self.calls.count("changed") == 2:
            self.state = State(agent_state=AgentState.FINISHED)


@asynccontextmanager
async def one(
    tmp_path: Path, does: Callable[[Scripted], Awaitable[None]]
) -> AsyncIterator[tuple[Delegation, Scripted, list[str]]]:
    """A delegation with one delegate, and a record of working and closed delegates."""
    notes: list[str] = []
    async with opened_stream(tmp_path) as stream:
        child = Scripted(stream, does)

        async def make(action: AgentDelegateAction, action_id: int, limits: Limits) -> Scripted:
            return child

        async def close(id: str) -> None:
            notes.append(f"closed {id}")

        frames = Frames()
        delegation = Delegation(make, close, frames, State)
        frames.watch(lambda frame: notes.append(f"at work: {list(delegation.children)}"))
        yield delegation, child, notes


def task(**inputs: Any) -> AgentDelegateAction:
    return AgentDelegateAction(agent="Reader", inputs=inputs)


async def nothing(child: Scripted) -> None:
    """It has ended at once."""


@pytest.mark.parametrize(
    ("inputs", "said"), [({"task": "count"}, "TASK: count"), ({"file": "a"}, "TASK: {'file': 'a'}"), ({}, "TASK: {}")]
)
async def test_delegate_gets_its_task_and_is_closed_at_the_end(
    tmp_path: Path, inputs: dict[str, Any], said: str
) -> None:
    async with one(tmp_path, nothing) as (delegation, child, notes):
        result = await delegation.run(task(**inputs), 7)
        assert child.said == [said]
        assert notes == ["at work: [7]", "at work: []", "closed d"]
        assert isinstance(result, AgentDelegateObservation)
        assert result.outputs == {"conversation": "d", "iterations": 4}


async def test_delegate_that_cannot_get_its_task_becomes_an_observation(tmp_path: Path) -> None:
    async def fails(child: Scripted) -> None:
        raise StoreError("The disk is full.")

    async with one(tmp_path, fails) as (delegation, _, notes):
        expected = ErrorObservation(content="Reader failed: The disk is full.", error_id=DELEGATE_FAILED)
        assert await delegation.run(task(), 7) == expected
        assert notes[:2] == ["at work: [7]", "at work: []"]


@pytest.mark.parametrize(("what", "calls"), [("stoppable", ["interrupt", "settled"]), ("unstoppable", ["interrupt"])])
async def test_cancelled_delegate_is_stopped_and_still_answers(tmp_path: Path, what: str, calls: list[str]) -> None:
    begun = asyncio.Event()

    async def works(child: Scripted) -> None:
        child.state = State(agent_state=AgentState.STOPPED, reason="By you.")
        begun.set()
        await asyncio.Event().wait()

    async with one(tmp_path, works) as (delegation, child, notes):
        running = asyncio.create_task(delegation.run(task(task=what), 7))
        await begun.wait()
        running.cancel()
        result = await running
        assert isinstance(result, AgentDelegateObservation)
        assert result.content == "Reader was stopped before it was done. By you."
        assert child.calls == calls
        assert notes == ["at work: [7]", "at work: []", "closed d"]


ASKS = State(agent_state=AgentState.AWAITING_USER_CONFIRMATION)
QUEUED = State(agent_state=AgentState.FINISHED, queued=(Queued(3, "and this"),))


@pytest.mark.parametrize(
    ("state", "attended", "calls"),
    [
        (ASKS, False, ["settled"]),
        (ASKS, True, ["settled", "changed", "settled", "changed", "settled"]),
        (QUEUED, False, ["settled"]),
        (QUEUED, True, ["settled", "changed", "settled", "changed", "settled"]),
        (State(agent_state=AgentState.AWAITING_USER_INPUT), True, ["settled"]),
        (State(agent_state=AgentState.STOPPED), True, ["settled"]),
        (State(agent_state=AgentState.REJECTED), True, ["settled"]),
    ],
)
async def test_delegate_with_a_question_waits_only_if_attended(
    tmp_path: Path, state: State, attended: bool, calls: list[str]
) -> None:
    async with one(tmp_path, nothing) as (delegation, child, _):
        child.state, delegation.attended = state, attended
        await delegation.run(task(), 7)
        assert child.calls == calls


SAYS = MessageAction(content="3 files")
ENDS = AgentFinishAction(final_thought="3")


@pytest.mark.parametrize(
    ("state", "events", "content"),
    [
        (AgentState.FINISHED, [(SAYS, "agent"), (ENDS, "agent")], "finishes task with 3"),
        (AgentState.FINISHED, [(ENDS, "agent"), (SAYS, "agent")], "finishes task with 3 files"),
        (AgentState.AWAITING_USER_INPUT, [(SAYS, "agent"), (SAYS.model_copy(update={"content": "yes"}), "user")],
         "finishes task with 3 files"),
        (AgentState.FINISHED, [(AgentFinishAction(final_thought="3", outputs={"n": 3}), "agent")],
         "finishes task with {'n': 3, 'result': '3'}"),
        (AgentState.FINISHED, [(SAYS, "user")], "finishes task with "),
        (AgentState.REJECTED, [(SAYS, "agent")], "rejected the task. Why."),
        (AgentState.STOPPED, [(SAYS, "agent")], "was stopped before it was done. Why."),
        (AgentState.ERROR, [(SAYS, "agent")], "encountered an error during execution. Why."),
        (AgentState.PAUSED, [(SAYS, "agent")], "encountered an error during execution. Why."),
    ],
)  # fmt: skip
async def test_result_of_a_delegate_contains_its_last_answer(
    tmp_path: Path, state: AgentState, events: Sequence[tuple[Event, str]], content: str
) -> None:
    async with one(tmp_path, nothing) as (delegation, child, _):
        for event, source in events:
            await child.stream.append(event, EventSource(source))
        child.state = State(agent_state=state, reason="Why.")
        result = await delegation.run(task(), 7)
        assert isinstance(result, AgentDelegateObservation)
        assert result.content.removeprefix("Delegated agent finished with result:\n\n") == f"Reader {content}"


@pytest.mark.parametrize(
    ("limits", "used", "delegates", "expected"),
    [
        (Limits(max_iterations=20), {"iteration": 5}, 0, Limits(max_iterations=15)),
        (Limits(max_iterations=20), {"iteration": 5}, 1, Limits(max_iterations=15)),
        (Limits(max_iterations=20), {"iteration": 5}, 2, Limits(max_iterations=7)),
        (Limits(max_iterations=20), {"iteration": 20}, 2, Limits(max_iterations=1)),
        (Limits(max_iterations=None), {"iteration": 5}, 2, Limits(max_iterations=None)),
        (Limits(max_iterations=None, max_budget=1.0), {"cost": 0.5}, 2, Limits(max_iterations=None, max_budget=0.25)),
        (Limits(max_iterations=None, max_budget=1.0), {"cost": 2.0}, 2, Limits(max_iterations=None, max_budget=0.0)),
        (Limits(max_iterations=None, max_tokens=100), {}, 4, Limits(max_iterations=None, max_tokens=25)),
        (Limits(max_iterations=None, max_seconds=60.0), {"worked_s": 20.0}, 2,
         Limits(max_iterations=None, max_seconds=40.0)),
        (Limits(max_iterations=None, max_seconds=60.0), {"worked_s": 60.0}, 2,
         Limits(max_iterations=None, max_seconds=1.0)),
    ],
)  # fmt: skip
def test_delegates_started_together_share_the_remaining_limits(
    limits: Limits, used: dict[str, Any], delegates: int, expected: Limits
) -> None:
    used = dict(used)
    cost = used.pop("cost", 0.0)
    queue = (*(Pending(n, task()) for n in range(delegates)), Pending(9, MCPAction(name="n")))
    state = replace(State.initial(limits), queue=queue, metrics=LLMMetrics(accumulated_cost=cost), **used)
    assert delegate_limits(state) == expected
