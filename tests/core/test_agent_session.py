"""AgentSession: what each wish does, and what it is refused with where it cannot be had now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import UsageError
from core.events import (
    Action,
    AgentDelegateAction,
    AgentState,
    CmdOutputObservation,
    CmdRunAction,
    MessageAction,
    NullAction,
    Observation,
)
from core.session.agent_session import DELEGATES_STATUS, AgentSession
from core.session.places import TOO_MANY
from tests.core.test_delegation import DELEGATE, has_child, parent
from tests.core.test_session import conversation, of, said_and_settled
from tests.doubles import FINISH, ScriptedRuntime, bash
from tests.streams import heard

ENDLESS = {"text": "a long answer " * 500, "tokens_per_s": 50}
STEP = [{"tool_calls": [bash("true")]}, FINISH]


def never(action: Action) -> Observation | None:
    return None


def runtimes(
    answer: Callable[[Action], Observation | BaseException | None] | None = None,
) -> Callable[[str], ScriptedRuntime]:
    return lambda _: ScriptedRuntime(answer)


async def state_is(session: AgentSession, wanted: AgentState) -> None:
    async with asyncio.timeout(20):
        while session.state.agent_state is not wanted:
            await session.changed()


async def test_at_rest_it_falls_asleep_and_the_next_message_wakes_it_up(tmp_path: Path) -> None:
    async with conversation(tmp_path, [*STEP, *STEP], make_runtime=runtimes()) as session:
        await said_and_settled(session)
        assert (session.rests, session.asleep) == (True, False)
        told, before = heard(session.frames), session.rests_since
        assert await session.sleep(TOO_MANY)
        assert (session.asleep, session.rests_since) == (True, before)
        assert told == [(TOO_MANY.level, TOO_MANY.id, TOO_MANY.message)]
        model = session._mind._llm
        await said_and_settled(session, "again")
        assert not session.asleep
        assert session._mind._llm is not model
        assert session.rests_since >= before
        assert len(of(await session.stream.read(), CmdRunAction)) == 2
        assert (TOO_MANY.level, TOO_MANY.id, "") in told


async def test_what_works_or_is_closed_does_not_fall_asleep(tmp_path: Path) -> None:
    async with conversation(tmp_path, [ENDLESS]) as session:
        await session.send("go")
        await state_is(session, AgentState.RUNNING)
        assert not session.rests
        assert not await session.sleep(TOO_MANY)
        assert not session.asleep
        await session.aclose()
        assert not await session.sleep(TOO_MANY)
        assert not session.asleep


@pytest.mark.parametrize("hands", ["commands", "terminal", "browser"])
async def test_who_has_something_of_the_sandbox_in_hand_keeps_it_awake_until_it_closes(
    tmp_path: Path, hands: str
) -> None:
    runtime = ScriptedRuntime(never)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        assert session.rests
        begin = {
            "commands": lambda: session.run_command("sleep 600"),
            "terminal": lambda: session.take_terminal(24, 80),
            "browser": session.take_browser,
        }[hands]
        taken = await begin()
        await runtime.started.wait()
        assert session.hands.are_on
        assert not session.rests
        assert not await session.sleep(TOO_MANY)
        assert session.runs_command is (hands == "commands")
        with pytest.raises(UsageError):
            await begin() if hands != "commands" else await session.run_command("ls")
        with pytest.raises(UsageError, match="at work"):
            await session.undoing.preview()
        session.hands.interrupt()
        async with asyncio.timeout(20):
            await session.command_ended()
            await session.hands.terminal.ended()
            await session.hands.browser.settled()
        assert [e.cause for e in await session.stream.read() if isinstance(e.event, Observation)][-1] == taken.id
        assert not session.hands.are_on
        assert session.rests


async def test_while_the_agent_works_nothing_is_run_put_back_or_undone_beside_it(tmp_path: Path) -> None:
    async with conversation(tmp_path, [ENDLESS, FINISH]) as session:
        await session.send("go")
        await state_is(session, AgentState.RUNNING)
        with pytest.raises(UsageError, match="works in this shell"):
            await session.run_command("ls")
        with pytest.raises(UsageError, match="The agent is working"):
            await session.put_back("x")
        with pytest.raises(UsageError, match="The agent is at work"):
            await session.undoing.preview()
        await session.interrupt()
        await session.settled()
        with pytest.raises(UsageError, match="Name the file to restore"):
            await session.put_back("x")
        assert of(await session.stream.read(), CmdRunAction) == []


async def test_a_command_is_refused_while_the_user_has_the_terminal(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], make_runtime=runtimes(never)) as session:
        await session.take_terminal(24, 80)
        with pytest.raises(UsageError, match="You have taken over the terminal"):
            await session.run_command("ls")
        session.hands.terminal.interrupt()


async def test_after_a_pause_the_running_command_is_the_last_until_it_goes_on(tmp_path: Path) -> None:
    may_end, runtime = asyncio.Event(), ScriptedRuntime()
    inner = runtime.execute

    async def execute(*given: object) -> Observation:
        observation = await inner(*given)  # type: ignore[arg-type]
        await may_end.wait()
        return observation

    runtime.execute = execute  # type: ignore[method-assign, assignment]
    async with conversation(tmp_path, [STEP[0], *STEP], make_runtime=lambda _: runtime) as session:
        await session.send("go")
        await runtime.started.wait()
        await session.pause()
        may_end.set()
        async with asyncio.timeout(20):
            await session.settled()
        await state_is(session, AgentState.PAUSED)
        events = await session.stream.read()
        assert (len(of(events, CmdRunAction)), len(of(events, CmdOutputObservation))) == (1, 1)
        await session.resume()
        async with asyncio.timeout(20):
            await session.settled()
        assert session.state.agent_state is AgentState.FINISHED
        assert len(of(await session.stream.read(), CmdRunAction)) == 2


async def test_what_is_queued_is_said_once_the_agent_rests_with_all_that_goes_with_it(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH, ENDLESS, FINISH]) as session:
        await said_and_settled(session)
        await session.send("go on")
        await state_is(session, AgentState.RUNNING)
        picture = "data:image/png;base64,AAAA"
        kept = await session.queue("later", [picture], "beside")
        dropped = await session.queue("never")
        assert isinstance(kept.event, MessageAction)
        assert (kept.event.queued, kept.event.image_urls, kept.event.context) == (True, [picture], "beside")
        assert isinstance(dropped.event, MessageAction)
        assert dropped.event.image_urls is None
        await session.unqueue(dropped.id)
        assert [queued.id for queued in session.state.queued] == [kept.id]
        assert of(await session.stream.read(after=dropped.id), NullAction)
        await session.interrupt()
        async with asyncio.timeout(20):
            await session.settled()
        said = [m.content for m in of(await session.stream.read(), MessageAction) if not m.queued]
        assert "never" not in said


async def test_there_is_nothing_to_condense_before_anything_was_said(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        with pytest.raises(UsageError, match="Nothing was said yet"):
            await session.compact()


async def test_once_closed_nothing_is_begun_and_closing_again_does_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        await session.aclose()
        await session.aclose()
        for wish in (session.send("go"), session.run_command("ls"), session.take_browser(), session.resume()):
            with pytest.raises(UsageError, match=f"Conversation {session.id} is closed here"):
                await wish


async def test_delegates_are_listed_in_the_order_of_their_actions_while_they_work(tmp_path: Path) -> None:
    async with parent(tmp_path, [{"tool_calls": [DELEGATE, DELEGATE]}, FINISH], [ENDLESS]) as (_, session):
        told = heard(session.frames)
        assert not session.attended
        session.attended = True
        assert (session.delegation.attended, session.attended) == (True, True)
        await session.send("go")
        children = await has_child(session, 2)
        actions = [e.id for e in await session.stream.read() if isinstance(e.event, AgentDelegateAction)]
        assert [child.info.parent_action for child in session.delegates] == actions
        assert {child.id for child in session.delegates} == {child.id for child in children}
        assert told.count(("info", DELEGATES_STATUS, "")) == 2
        with pytest.raises(UsageError, match="in the conversation that began it"):
            await session.delegates[0].undoing.preview()
        await session.interrupt()
        async with asyncio.timeout(20):
            await session.settled()
        assert session.delegates == []
