"""The user can go on after every halt, with each of its choices; real parts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from core.controller.exit_reasons import Halt, HaltKind, HaltOption
from core.controller.state import State
from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, ModelErrorKind
from core.events import (
    AgentFinishAction,
    AgentState,
    CmdOutputObservation,
    CondensationAction,
    CondensationRequestAction,
    ErrorObservation,
    Event,
    EventSource,
    LoopDetectionObservation,
    LoopRecoveryAction,
    MessageAction,
    Observation,
)
from core.session.agent_session import REPEATING, AgentSession
from core.settings.config import Settings
from core.stream import EventStream
from tests.doubles import FINISH, ScriptedRuntime, bash, call, gone, write_script
from tests.session.test_session import FREE, conversation, of_type, send_and_settle
from tests.streams import opened_stream
from tests.warm_servers import WarmRuntime

FAILS = {**FINISH, "fault": "server_error"}
"""Fails on the first call."""
TOO_LONG = {**FINISH, "fault": "context_window"}


async def recover(session: Any, option: HaltOption, model: str = "") -> list[Any]:
    """Recover, and return all events once the agent rests."""
    await session.recover(option, model)
    async with asyncio.timeout(20):
        await session.settled()
    events: list[Any] = await session.stream.read()
    return events


async def test_retry_asks_the_failed_model_again(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FAILS]) as session:
        events = await send_and_settle(session)
        assert session.state.halt == Halt(HaltKind.MODEL, "server")
        assert of_type(events, ErrorObservation)[-1].error_id == "LLM$SERVER"
        events = await recover(session, HaltOption.RETRY)
        assert session.state.agent_state is AgentState.FINISHED


async def test_switching_the_model_continues_and_a_failed_switch_changes_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FAILS]) as session:
        await send_and_settle(session)
        with pytest.raises(ConfigurationError):
            await session.recover(HaltOption.SWITCH_MODEL, "scripted:/nowhere.yaml")
        assert session.state.halt is not None
        other = write_script(tmp_path, [FINISH, FINISH], "other.yaml")
        await recover(session, HaltOption.SWITCH_MODEL, other)
        assert session.state.agent_state is AgentState.FINISHED
        assert session.active_model.name == other


async def test_too_long_history_is_condensed_automatically(tmp_path: Path) -> None:
    work = [{"tool_calls": [call("think", thought=str(n))]} for n in range(6)]
    async with conversation(tmp_path, [*work, TOO_LONG], make_runtime=lambda folder: ScriptedRuntime()) as session:
        events = await send_and_settle(session)
        assert session.state.agent_state is AgentState.FINISHED
        (cut,) = of_type(events, CondensationAction)
        assert len(cut.forgotten) >= 6


async def test_user_is_asked_if_condensing_did_not_help(tmp_path: Path) -> None:
    async with conversation(tmp_path, [TOO_LONG]) as session:
        await session.stream.append(CondensationRequestAction(), EventSource.USER)
        await send_and_settle(session)
        assert session.state.halt == Halt(HaltKind.MODEL, "context_window")
        assert session.state.halt.options[0] is HaltOption.CONDENSE
        await recover(session, HaltOption.CONDENSE)
        assert session.state.agent_state is AgentState.FINISHED


async def test_lost_sandbox_is_restarted(tmp_path: Path) -> None:
    answers: Iterator[Observation | Exception] = iter([gone(), CmdOutputObservation(command="ls", content="back")])
    turns = [{"tool_calls": [bash("ls")]}, {"tool_calls": [bash("ls")]}, {"expect": "back", **FINISH}]
    async with conversation(
        tmp_path, turns, make_runtime=lambda folder: ScriptedRuntime(lambda action: next(answers))
    ) as session:
        events = await send_and_settle(session)
        assert session.state.halt == Halt(HaltKind.SANDBOX)
        assert len(of_type(events, ErrorObservation)) == 1
        await recover(session, HaltOption.RESTART_SANDBOX)
        assert session.state.agent_state is AgentState.FINISHED


async def test_restarted_sandbox_has_a_new_shell(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("x=1; kill -9 $PPID")]}, {"tool_calls": [bash("echo [$x]")]}, FINISH]
    async with conversation(tmp_path, turns, make_runtime=WarmRuntime) as session:
        await send_and_settle(session)
        assert session.state.halt == Halt(HaltKind.SANDBOX)
        events = await recover(session, HaltOption.RESTART_SANDBOX)
        assert of_type(events, CmdOutputObservation)[-1].content == "[]"
        assert session.state.agent_state is AgentState.FINISHED


async def test_failed_step_can_be_skipped(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("ls")]}, {"expect": "has ended", **FINISH}]
    async with conversation(
        tmp_path, turns, make_runtime=lambda folder: ScriptedRuntime(lambda action: gone())
    ) as session:
        await send_and_settle(session)
        await recover(session, HaltOption.SKIP)
        assert session.state.agent_state is AgentState.FINISHED


LOOP = [{"tool_calls": [bash("make")]}] * 4


async def looped(session: Any) -> list[Any]:
    events = await send_and_settle(session, "build it")
    assert session.state.halt is not None
    assert session.state.halt.kind is HaltKind.STUCK
    assert len(of_type(events, LoopDetectionObservation)) == 1
    return events


async def test_looping_agent_is_told_that_it_repeats_itself(tmp_path: Path) -> None:
    async with conversation(tmp_path, [*LOOP, FINISH], make_runtime=lambda folder: ScriptedRuntime()) as session:
        await looped(session)
        events = await recover(session, HaltOption.TELL)
        said = of_type(events, MessageAction)[-1].content
        assert "You are repeating yourself: The agent did the same 4 times, with the same result." in said
        assert session.state.agent_state is AgentState.FINISHED


async def test_last_request_can_be_resent(tmp_path: Path) -> None:
    async with conversation(tmp_path, [*LOOP, FINISH], make_runtime=lambda folder: ScriptedRuntime()) as session:
        await looped(session)
        events = await recover(session, HaltOption.RESEND)
        assert [message.content for message in of_type(events, MessageAction)] == ["build it", "build it"]
        assert session.state.agent_state is AgentState.FINISHED


async def test_last_request_is_found_behind_many_queued_messages(tmp_path: Path) -> None:
    async with conversation(tmp_path, [*LOOP, FINISH], make_runtime=lambda folder: ScriptedRuntime()) as session:
        await looped(session)
        for number in range(11):
            await session.stream.append(MessageAction(content=f"later {number}", queued=True), EventSource.USER)
        assert await session._last_message() == "build it"


async def test_loop_can_be_cut_and_the_user_continues(tmp_path: Path) -> None:
    async with conversation(tmp_path, [*LOOP, FINISH], make_runtime=lambda folder: ScriptedRuntime()) as session:
        await looped(session)
        events = await recover(session, HaltOption.CUT_LOOP)
        rests = session.state
        assert rests.agent_state is AgentState.AWAITING_USER_INPUT
        assert len(of_type(events, CondensationAction)) == 1
        await send_and_settle(session, "another way")
        assert session.state.agent_state is AgentState.FINISHED


@pytest.mark.parametrize("turns", [[FAILS], [*LOOP, FINISH]])
async def test_halt_can_be_stopped_and_resumed_later(tmp_path: Path, turns: list[Any]) -> None:
    async with conversation(tmp_path, turns, make_runtime=lambda folder: ScriptedRuntime()) as session:
        await send_and_settle(session)
        await recover(session, HaltOption.STOP)
        assert (session.state.agent_state, session.state.halt) == (AgentState.STOPPED, None)
        await send_and_settle(session, "go on")
        assert session.state.agent_state is AgentState.FINISHED


async def test_option_that_is_not_offered_does_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FAILS]) as session:
        await send_and_settle(session)
        before = await session.stream.read()
        await session.recover(HaltOption.EXTEND)
        await session.recover(HaltOption.CUT_LOOP)
        assert await session.stream.read() == before


async def test_halt_and_its_options_survive_a_restart(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FAILS]) as session:
        await send_and_settle(session)
        id = session.info.id
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        again = await manager.open(id)
        assert again.state.halt == Halt(HaltKind.MODEL, "server")
        await again.recover(HaltOption.STOP)
        await send_and_settle(again, "once more")  # the script fails once in each process
        await recover(again, HaltOption.RETRY)
        assert again.state.agent_state is AgentState.FINISHED


async def test_daily_limit_counts_all_conversations_before_the_call(tmp_path: Path) -> None:
    settings = Settings.model_validate({"agent": {"confirm": "never"}, "day": {"max_budget": 1.0}})
    dear = [{**FINISH, "usage": {"prompt_tokens": 10, "cost": 0.6}}] * 3
    async with conversation(tmp_path, dear, settings=settings) as session:
        await send_and_settle(session)
        assert session.state.agent_state is AgentState.FINISHED
    other = tmp_path / "other"
    other.mkdir()
    async with ConversationManager(tmp_path / "home", settings, make_runtime=WarmRuntime, environ={}) as manager:
        second = await manager.create(workspace=str(other), model=write_script(other, dear))
        await send_and_settle(second)
        assert second.state.agent_state is AgentState.FINISHED
        await send_and_settle(second, "more")
        assert second.state.halt == Halt(HaltKind.LIMIT, "day_budget")
        assert "all conversations together have used $1.20" in second.state.reason
        events = await recover(second, HaltOption.EXTEND)
        assert len(of_type(events, AgentFinishAction)) == 2


async def test_message_queued_during_work_is_sent_after_it(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("sleep 0.2")]}, FINISH, {"text": "and that"}]
    async with conversation(tmp_path, turns) as session:
        await session.send("first")
        await session.queue("then")
        dropped = await session.queue("never")
        await session.unqueue(dropped.id)
        async with asyncio.timeout(20):
            await session.settled()
        events = await session.stream.read()
        said = [e.event.content for e in events if isinstance(e.event, MessageAction) and not e.event.queued]
        assert said == ["first", "then", "and that"]
        assert session.state.queued == ()


class RecordedSession:
    """A session with its model and its setup, which records what `recover` calls."""

    def __init__(self, stream: EventStream, halt: Halt | None) -> None:
        self.stream = stream
        self.state = State(halt=halt, reason="It repeats ls.")
        self.calls: list[object] = []

    async def recover(self, option: HaltOption, model: str = "") -> None:
        await AgentSession.recover(cast("AgentSession", self), option, model)

    async def _last_message(self) -> str:
        return await AgentSession._last_message(cast("AgentSession", self))

    @property
    def active_model(self) -> RecordedSession:
        return self

    @property
    def setup(self) -> RecordedSession:
        return self

    async def switch(self, name: str) -> None:
        self.calls.append(("model", name))
        if name == "gone":
            raise ConfigurationError("There is no such model.")

    async def add(self, event: Event) -> None:
        self.calls.append(event)

    async def send(self, text: str) -> None:
        self.calls.append(("said", text))

    async def interrupt(self) -> None:
        self.calls.append("interrupted")

    async def resume(self) -> None:
        self.calls.append("resumed")

    async def restart(self) -> None:
        self.calls.append("restarted")

    def skip(self) -> None:
        self.calls.append("skipped")


STUCK, LOST = Halt(HaltKind.STUCK, "repeats", 3), Halt(HaltKind.SANDBOX)
TOO_MUCH, LIMIT = Halt(HaltKind.MODEL, ModelErrorKind.CONTEXT_WINDOW), Halt(HaltKind.LIMIT, "iterations")


@pytest.mark.parametrize(
    ("halt", "option", "calls"),
    [
        (LIMIT, HaltOption.EXTEND, ["resumed"]),
        (LIMIT, HaltOption.STOP, ["interrupted"]),
        (LIMIT, HaltOption.RETRY, []),
        (None, HaltOption.RETRY, []),
        (Halt(HaltKind.MODEL, "server"), HaltOption.RETRY, ["resumed"]),
        (Halt(HaltKind.MODEL, "server"), HaltOption.SWITCH_MODEL, [("model", "other"), "resumed"]),
        (TOO_MUCH, HaltOption.CONDENSE, [CondensationRequestAction(), "resumed"]),
        (LOST, HaltOption.RESTART_SANDBOX, ["restarted", "resumed"]),
        (LOST, HaltOption.SKIP, ["skipped", "resumed"]),
        (STUCK, HaltOption.CUT_LOOP, [LoopRecoveryAction(option=1)]),
        (STUCK, HaltOption.RESEND, [LoopRecoveryAction(option=2), ("said", "the request")]),
        (STUCK, HaltOption.TELL, [LoopRecoveryAction(option=2), ("said", REPEATING.format("It repeats ls."))]),
    ],
)
async def test_each_option_is_carried_out_and_nothing_else(
    tmp_path: Path, halt: Halt | None, option: HaltOption, calls: list[object]
) -> None:
    async with opened_stream(tmp_path) as stream:
        await stream.append(MessageAction(content="earlier"), EventSource.USER)
        await stream.append(MessageAction(content="the request"), EventSource.USER)
        for _ in range(11):
            await stream.append(MessageAction(content="later", queued=True), EventSource.USER)
        await stream.append(MessageAction(content="of the agent"), EventSource.AGENT)
        session = RecordedSession(stream, halt)
        await session.recover(option, "other")
        assert session.calls == calls


async def test_failed_switch_keeps_the_halt_and_missing_request_is_empty(
    tmp_path: Path,
) -> None:
    async with opened_stream(tmp_path) as stream:
        session = RecordedSession(stream, Halt(HaltKind.MODEL, "server"))
        with pytest.raises(ConfigurationError):
            await session.recover(HaltOption.SWITCH_MODEL, "gone")
        assert session.calls == [("model", "gone")]
        session = RecordedSession(stream, STUCK)
        await session.recover(HaltOption.RESEND)
        assert session.calls == [LoopRecoveryAction(option=2), ("said", "")]
