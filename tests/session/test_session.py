"""A conversation from its first message to its last, on real parts: store, shell, files; the model is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.actions.output import INTERRUPTED
from core.controller.controller import STORE_STATUS
from core.controller.exit_reasons import Halt, HaltKind, HaltOption
from core.conversations.conversation_manager import ConversationManager
from core.errors import ConfigurationError, StoreError, UsageError
from core.events import (
    AgentFinishAction,
    AgentState,
    AgentStateChangedObservation,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    Frame,
    MessageAction,
    Observation,
    RecallAction,
    RecallObservation,
    Status,
    TerminalOutput,
    TokenDelta,
    UserRejectObservation,
)
from core.protocols import Runtime
from core.security.confirmation import ConfirmMode
from core.session.agent_session import AgentSession
from core.settings.config import Settings, load
from tests.doubles import FINISH, ScriptedRuntime, bash, call, gone, write_script
from tests.stopped_clock import stopped_clock
from tests.warm_servers import WarmRuntime

FREE = Settings.model_validate({"agent": {"confirm": "never"}})


@asynccontextmanager
async def conversation(
    tmp_path: Path,
    turns: Sequence[dict[str, Any]],
    *,
    settings: Settings = FREE,
    make_runtime: Callable[[str], Runtime] = WarmRuntime,
) -> AsyncIterator[AgentSession]:
    """A new conversation in a folder of its own, with a scripted model."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    async with ConversationManager(tmp_path / "home", settings, make_runtime=make_runtime, environ={}) as manager:
        yield await manager.create(workspace=str(workspace), model=write_script(tmp_path, turns))


async def send_and_settle(session: AgentSession, text: str = "go") -> list[Envelope]:
    await session.send(text)
    async with asyncio.timeout(20):
        await session.settled()
    return await session.stream.read()


def of_type(events: Sequence[Envelope], *types: type) -> list[Any]:
    return [e.event for e in events if isinstance(e.event, types)]


async def test_one_message_end_to_end(tmp_path: Path) -> None:
    """The walk that the README describes, step by step."""
    turns = [{"text": "I look.", "tool_calls": [bash("echo hello from bash")]}, {"expect": "hello", **FINISH}]
    async with conversation(tmp_path, turns) as session:
        frames: list[Frame] = []
        session.frames.watch(frames.append)
        events = await send_and_settle(session, "say hello")
        assert [type(e.event).__name__ for e in events] == [
            "SystemMessageAction",
            "AgentStateChangedObservation",
            "MessageAction",
            "RecallAction",
            *(
                ["AgentStateChangedObservation", "RecallObservation"]
                if events[4].event.kind != "recall"
                else ["RecallObservation", "AgentStateChangedObservation"]
            ),
            "CmdRunAction",
            "CmdOutputObservation",
            "AgentFinishAction",
            "AgentStateChangedObservation",
        ]
        assert [e.id for e in events] == list(range(len(events)))
        message, recall = events[2], events[3]
        recalled = next(e for e in events if isinstance(e.event, RecallObservation))
        run, output, finish = events[6], events[7], events[8]
        assert isinstance(recall.event, RecallAction)
        assert (recall.cause, recalled.cause) == (message.id, recall.id)
        assert (run.cause, output.cause, finish.cause) == (max(recalled.id, 0), run.id, output.id)
        assert isinstance(output.event, CmdOutputObservation)
        assert (output.event.content, output.event.exit_code) == ("hello from bash", 0)
        assert isinstance(finish.event, AgentFinishAction)
        assert "".join(f.text for f in frames if isinstance(f, TokenDelta) and f.cause == run.cause) == "I look."
        assert b"hello from bash" in b"".join(
            f.data for f in frames if isinstance(f, TerminalOutput) and f.cause == run.id
        )
        assert session.state.agent_state is AgentState.FINISHED
        assert session.info.title == "say hello"


async def test_several_tool_calls_in_one_answer_run_in_order(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("echo 1 > f"), bash("echo 2 >> f"), bash("cat f")]}, FINISH]
    async with conversation(tmp_path, turns) as session:
        events = await send_and_settle(session)
        assert [o.content for o in of_type(events, CmdOutputObservation)] == ["", "", "1\n2"]


async def test_files_are_edited_for_real(tmp_path: Path) -> None:
    path = tmp_path / "workspace" / "a.txt"
    create = call("str_replace_editor", command="create", path=str(path), file_text="one\n", security_risk="LOW")
    replace = call(
        "str_replace_editor", command="str_replace", path=str(path), old_str="one", new_str="two", security_risk="LOW"
    )
    async with conversation(tmp_path, [{"tool_calls": [create]}, {"tool_calls": [replace]}, FINISH]) as session:
        await send_and_settle(session)
        assert path.read_text() == "two\n"


async def test_reopened_conversation_has_the_same_state(tmp_path: Path) -> None:
    turns = [FINISH, {"text": "Again.", "tool_calls": [bash("echo second")]}, FINISH]
    async with conversation(tmp_path, turns) as session:
        first, id = await send_and_settle(session), session.info.id
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        again = await manager.open(id)
        assert (await again.stream.read())[: len(first)] == first
        assert again.state.agent_state is AgentState.FINISHED
        assert again.info.title == "go"
        events = await send_and_settle(again, "and more")
        assert of_type(events, CmdOutputObservation)[0].content == "second"
        assert await manager.open(id) is again


# -- interrupt -----------------------------------------------------------------------------------------------------


async def interrupted_once(ready: asyncio.Event, session: AgentSession) -> None:
    """Interrupt once `ready` is set, and see the conversation come to rest although no timer fires."""
    await session.send("go")
    async with asyncio.timeout(20):
        await ready.wait()
    with stopped_clock():
        await session.interrupt()
        await session.settled()


def on_frame(session: AgentSession, wanted: Callable[[Frame], bool]) -> asyncio.Event:
    seen = asyncio.Event()
    session.frames.watch(lambda frame: seen.set() if wanted(frame) else None)
    return seen


async def test_interrupt_ends_a_model_call_at_once(tmp_path: Path) -> None:
    turns = [{"text": "word " * 5000, "tokens_per_s": 20}, FINISH]
    async with conversation(tmp_path, turns) as session:
        ready = on_frame(session, lambda frame: isinstance(frame, TokenDelta))
        await interrupted_once(ready, session)
        assert session.state.agent_state is AgentState.STOPPED
        assert not of_type(await session.stream.read(), AgentFinishAction)


def has_begun(frame: Frame) -> bool:
    """Whether a command has printed `begun`; its echo does not count."""
    return isinstance(frame, TerminalOutput) and not frame.is_echo and b"begun" in frame.data


async def test_interrupted_command_keeps_its_output(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("echo begun; sleep 600"), bash("echo never")]}, FINISH]
    async with conversation(tmp_path, turns) as session:
        ready = on_frame(session, has_begun)
        await interrupted_once(ready, session)
        events = await session.stream.read()
        (output,) = of_type(events, CmdOutputObservation)
        assert (output.content, output.exit_code) == ("begun", 130)
        assert output.metadata.suffix == INTERRUPTED
        (refused,) = of_type(events, ErrorObservation)
        assert refused.content == "Stop button pressed. The action has not been executed."
        events = await send_and_settle(session, "go on")
        assert of_type(events, AgentFinishAction)


async def test_action_interrupted_before_its_start_is_answered(tmp_path: Path) -> None:
    asks = Settings.model_validate({"agent": {"confirm": "always"}})
    for calls in ([bash("echo x")], [call("delegate", task="x")]):
        async with conversation(tmp_path, [{"tool_calls": calls}, FINISH], settings=asks) as session:
            await send_and_settle(session)
            await asyncio.gather(session.approval.confirm(), session.interrupt())
            async with asyncio.timeout(10):
                await session.settled()
            assert session.state.queue == ()
            assert session.state.agent_state is AgentState.STOPPED


async def test_closing_during_a_command_leaves_nothing_open(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("echo begun; sleep 600")]}, FINISH]
    async with conversation(tmp_path, turns) as session:
        ready, id = on_frame(session, has_begun), session.info.id
        await session.send("go")
        async with asyncio.timeout(20):
            await ready.wait()
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        again = await manager.open(id)
        events = await again.stream.read()
        (action,) = [e for e in events if isinstance(e.event, CmdRunAction)]
        assert len([e for e in events if isinstance(e.event, Observation) and e.cause == action.id]) == 1
        assert again.state.agent_state is AgentState.STOPPED


# -- confirmation --------------------------------------------------------------------------------------------------


async def test_actions_wait_for_approval(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("touch made")]}, FINISH]
    async with conversation(tmp_path, turns, settings=Settings()) as session:
        await send_and_settle(session)
        assert session.state.agent_state is AgentState.AWAITING_USER_CONFIRMATION
        assert not (tmp_path / "workspace" / "made").exists()
        await session.approval.confirm()
        await session.settled()
        assert (tmp_path / "workspace" / "made").exists()
        assert len(of_type(await session.stream.read(), CmdRunAction)) == 1


async def test_waiting_approval_survives_a_restart(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("touch made")]}, FINISH]
    async with conversation(tmp_path, turns, settings=Settings()) as session:
        await send_and_settle(session)
        id = session.info.id
    async with ConversationManager(tmp_path / "home", Settings(), make_runtime=WarmRuntime, environ={}) as manager:
        again = await manager.open(id)
        assert again.state.awaiting is not None
        await again.approval.confirm()
        await again.settled()
        assert (tmp_path / "workspace" / "made").exists()


async def test_denied_action_is_not_run(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("touch made")]}, {"expect": "too risky", **FINISH}]
    async with conversation(tmp_path, turns, settings=Settings()) as session:
        await send_and_settle(session)
        await session.approval.reject("too risky")
        await session.settled()
        assert not (tmp_path / "workspace" / "made").exists()
        assert len(of_type(await session.stream.read(), UserRejectObservation)) == 1
        assert session.state.agent_state is AgentState.FINISHED


async def test_risky_mode_asks_only_for_high_or_unknown_risk(tmp_path: Path) -> None:
    risky = call("execute_bash", command="echo risky", security_risk="HIGH")
    async with conversation(
        tmp_path, [{"tool_calls": [bash("echo safe")]}, {"tool_calls": [risky]}, FINISH]
    ) as session:
        session.approval.set_mode(ConfirmMode.RISKY)
        events = await send_and_settle(session)
        assert [o.content for o in of_type(events, CmdOutputObservation)] == ["safe"]
        assert session.state.awaiting is not None


# -- limits --------------------------------------------------------------------------------------------------------


async def test_extending_a_limit_resumes_the_work(tmp_path: Path) -> None:
    settings = Settings.model_validate({"agent": {"confirm": "never", "max_iterations": 1}})
    turns = [{"tool_calls": [bash("echo one")]}, FINISH]
    async with conversation(tmp_path, turns, settings=settings) as session:
        events = await send_and_settle(session)
        assert (session.state.agent_state, session.state.halt) == (
            AgentState.PAUSED,
            Halt(HaltKind.LIMIT, "iterations"),
        )
        changed = of_type(events, AgentStateChangedObservation)[-1]
        assert changed.reason == "Agent reached maximum iteration. Current iteration: 1, max iteration: 1"
        await session.recover(HaltOption.EXTEND)
        await session.settled()
        assert session.state.agent_state is AgentState.FINISHED


# -- failures ------------------------------------------------------------------------------------------------------


async def test_failed_model_is_reported_and_asked_again_on_resume(tmp_path: Path) -> None:
    turns = [{"text": "x", "fault": "server_error"}, FINISH]
    async with conversation(tmp_path, turns) as session:
        await send_and_settle(session)
        assert session.state.agent_state is AgentState.ERROR
        await session.resume()
        await session.settled()
        assert session.state.reason == ""


async def test_runtime_exception_is_always_an_observation(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(lambda action: ValueError("boom"))
    turns = [{"tool_calls": [bash("x")]}, FINISH]
    async with conversation(tmp_path, turns, make_runtime=lambda workspace: runtime) as session:
        events = await send_and_settle(session)
        (error,) = of_type(events, ErrorObservation)
        assert (error.content, error.error_id) == ("ValueError: boom", "RUNTIME$FAILED")
        assert session.state.agent_state is AgentState.FINISHED


async def test_lost_sandbox_stops_the_agent_with_a_reason(tmp_path: Path) -> None:
    answers: list[Any] = [gone(), CmdOutputObservation(command="x", content="back")]
    runtime = ScriptedRuntime(lambda action: answers.pop(0))
    turns = [{"tool_calls": [bash("x")]}, {"tool_calls": [bash("x")]}, FINISH]
    async with conversation(tmp_path, turns, make_runtime=lambda workspace: runtime) as session:
        await send_and_settle(session)
        failed = session.state
        assert failed.agent_state is AgentState.ERROR
        assert "Send a message" in failed.reason
        await send_and_settle(session, "try again")
        assert session.state.agent_state is AgentState.FINISHED


async def test_invalid_model_answer_is_reported_to_the_model(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [
        {"tool_calls": [call("no_such_tool", a=1)]},
        {"expect": "not registered", "tool_calls": [bash("x")], "fault": "malformed_arguments"},
        FINISH,
    ]
    async with conversation(tmp_path, turns) as session:
        await send_and_settle(session)
        assert session.state.agent_state is AgentState.FINISHED


async def test_full_disk_pauses_the_work_until_there_is_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.controller.controller.STORE_RETRY_S", 0.01)
    async with conversation(tmp_path, [{"tool_calls": [bash("echo kept")]}, FINISH]) as session:
        notices: list[str] = []
        session.frames.watch(
            lambda f: notices.append(f.message) if isinstance(f, Status) and f.id == STORE_STATUS else None
        )
        real, failures = session._store._writer._insert, [3]

        async def insert(batch: list[Any]) -> None:
            if failures[0] and any(row[5] == "observation:run" for request in batch for row in request.rows):
                failures[0] -= 1
                from core.store.database import sqlite3

                raise sqlite3.OperationalError("database or disk is full")
            await real(batch)

        monkeypatch.setattr(session._store._writer, "_insert", insert)
        events = await send_and_settle(session)
        assert of_type(events, CmdOutputObservation)[0].content == "kept"
        assert len([n for n in notices if "disk is full" in n]) == 3
        assert notices[-1] == ""
        assert [e.id for e in events] == list(range(len(events)))


async def test_closing_does_not_wait_for_disk_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with conversation(tmp_path, [{"tool_calls": [bash("echo lost")]}, FINISH]) as session:
        full = asyncio.Event()
        session.frames.watch(lambda f: full.set() if isinstance(f, Status) and f.id == STORE_STATUS else None)
        real, id = session._store._writer._insert, session.info.id

        async def insert(batch: list[Any]) -> None:
            if any(row[5] == "observation:run" for request in batch for row in request.rows):
                from core.store.database import sqlite3

                raise sqlite3.OperationalError("database or disk is full")
            await real(batch)

        monkeypatch.setattr(session._store._writer, "_insert", insert)
        await session.send("go")
        async with asyncio.timeout(20):
            await full.wait()
            await session.aclose()
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        again = await manager.open(id)
        await again.settled()
        events = await again.stream.read()
        (action,) = [e for e in events if isinstance(e.event, CmdRunAction)]
        assert len([e for e in events if isinstance(e.event, Observation) and e.cause == action.id]) == 1


async def test_message_that_cannot_be_stored_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        await session.stream.settle()
        before = await session.stream.read()

        async def insert(batch: object) -> None:
            from core.store.database import sqlite3

            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(session._store._writer, "_insert", insert)
            with pytest.raises(StoreError, match="free some space"):
                await session.send("lost?")
        assert await session.stream.read() == before


# -- the manager ---------------------------------------------------------------------------------------------------


async def test_unusable_workspace_or_model_is_refused_before_creation(tmp_path: Path) -> None:
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        with pytest.raises(UsageError, match="is not a folder"):
            await manager.create(workspace=str(tmp_path / "nope"), model="demo:x")
        with pytest.raises(ConfigurationError):
            await manager.create(workspace=str(tmp_path), model="no-such-model")
        with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
            await manager.create(workspace=str(tmp_path), model="anthropic/claude-x")
        assert await manager.list() == []


async def test_conversations_are_independent(tmp_path: Path) -> None:
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=WarmRuntime, environ={}) as manager:
        sessions = []
        for n in range(4):
            turns = [{"tool_calls": [bash(f"echo number {n}")]}, FINISH]
            model = write_script(tmp_path, turns, f"{n}.yaml")
            sessions.append(await manager.create(workspace=str(tmp_path), model=model))
        results = await asyncio.gather(*(send_and_settle(session) for session in sessions))
        for n, events in enumerate(results):
            assert of_type(events, CmdOutputObservation)[0].content == f"number {n}"
            assert {e.conversation_id for e in events} == {sessions[n].info.id}


async def test_user_and_agent_messages_have_different_sources(tmp_path: Path) -> None:
    async with conversation(tmp_path, [{"text": "What do you mean?"}]) as session:
        events = await send_and_settle(session, "hm")
        assert [(e.source, e.event.content) for e in events if isinstance(e.event, MessageAction)] == [
            (EventSource.USER, "hm"),
            (EventSource.AGENT, "What do you mean?"),
        ]
        assert session.state.agent_state is AgentState.AWAITING_USER_INPUT


async def test_chosen_model_is_remembered_except_the_demo(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text("# mine\n[agent]\nmax_iterations = 7\n")
    async with ConversationManager(home, FREE, make_runtime=WarmRuntime, environ={}) as manager:
        await manager.choose_model("demo")
        assert load(home, {}).model == ""
        with pytest.raises(ConfigurationError):
            await manager.choose_model("nonsense")
        await manager.choose_model("openai/qwen", "http://localhost:1234/v1")
    settings = load(home, {})
    assert (settings.model, settings.llm.api_base) == ("openai/qwen", "http://localhost:1234/v1")
    assert settings.agent.max_iterations == 7
    assert "# mine" in (home / "config.toml").read_text()
