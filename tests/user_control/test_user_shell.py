"""The user's commands in the agent's shell, and the context of a message; with a real shell."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.errors import RuntimeUnavailableError, UsageError
from core.events import (
    AgentState,
    CmdOutputObservation,
    Envelope,
    ErrorObservation,
    EventSource,
    MessageAction,
)
from core.memory.conversation_memory import build_messages
from core.session.agent_session import AgentSession
from core.store.writer import Draft
from tests.doubles import FINISH, ScriptedRuntime, bash, gone, write_script
from tests.session.test_session import FREE, conversation, of_type, send_and_settle
from tests.store.test_blobs import png, url


async def answer_to(session: AgentSession, action: Envelope) -> Envelope:
    """The observation of an action, once it is stored."""
    async with asyncio.timeout(20):
        while True:
            for envelope in await session.stream.read(after=action.id):
                if envelope.cause == action.id:
                    return envelope
            await session.changed()


async def test_user_command_runs_in_the_agents_shell_and_is_read_by_the_model(tmp_path: Path) -> None:
    turns = [{"tool_calls": [bash("pwd")]}, FINISH]
    async with conversation(tmp_path, turns) as session:
        action = await session.user_control.run_command("mkdir sub && cd sub && echo made")
        observation = await answer_to(session, action)
        assert (action.source, observation.source) == (EventSource.USER, EventSource.USER)
        assert isinstance(observation.event, CmdOutputObservation)
        assert (observation.event.content, observation.event.exit_code) == ("made", 0)
        assert session.state.agent_state is AgentState.AWAITING_USER_INPUT
        events = await send_and_settle(session)
        assert of_type(events, CmdOutputObservation)[-1].content.endswith("/sub"), "the agent is where the user went"
        (message,) = [m["content"] for m in build_messages(events) if m["role"] == "user"]
        assert "User executed the command:\nmkdir sub" in message
        assert "Observed result of command executed by user:\nmade" in message


async def test_sandbox_is_started_before_the_first_message(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        with pytest.raises(RuntimeUnavailableError):
            await session.runtime.forward_port(1)
        await session.user_control.prepare()
        await session.user_control.prepare()
        assert await session.runtime.forward_port(1)
        assert await session.runtime.ports() == []


async def test_interrupted_user_command_keeps_its_output(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(answer=lambda action: None)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        action = await session.user_control.run_command("sleep 600")
        await runtime.started.wait()
        assert session.user_control.commands.is_busy
        assert not session.rests, "it is not put to sleep under the command"
        with pytest.raises(UsageError, match="still running"):
            await session.user_control.run_command("ls")
        await session.interrupt()
        observation = (await answer_to(session, action)).event
        assert isinstance(observation, CmdOutputObservation)
        assert (observation.content, observation.exit_code) == ("partly", 130)
        assert runtime.cancelled == 1


async def test_user_command_is_refused_while_the_agent_works(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(answer=lambda action: None)
    async with conversation(tmp_path, [{"tool_calls": [bash("make")]}], make_runtime=lambda _: runtime) as session:
        await session.send("go")
        await runtime.started.wait()
        with pytest.raises(UsageError, match="is using this shell"):
            await session.user_control.run_command("ls")
        await session.interrupt()


async def test_lost_sandbox_is_the_result_of_a_user_command(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(answer=lambda action: gone())
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        observation = (await answer_to(session, await session.user_control.run_command("ls"))).event
        assert isinstance(observation, ErrorObservation)
        assert "The sandbox has ended" in observation.content


async def test_closing_stops_the_user_command_and_logs_its_end(tmp_path: Path) -> None:
    runtime = ScriptedRuntime(answer=lambda action: None)
    async with conversation(tmp_path, [FINISH], make_runtime=lambda _: runtime) as session:
        await session.user_control.run_command("sleep 600")
        await runtime.started.wait()
        id = session.id
    manager = ConversationManager(tmp_path / "home", FREE, make_runtime=lambda _: runtime, environ={})
    async with manager:
        events = await manager.store.read(id)
        assert [o.exit_code for o in of_type(events, CmdOutputObservation)] == [130]


@pytest.mark.parametrize("queued", [False, True])
async def test_messages_keep_pictures_and_context_when_queued(tmp_path: Path, queued: bool) -> None:
    async with conversation(tmp_path, [FINISH]) as session:
        say = session.queue if queued else session.send
        await say("look at #3", [url(png(3, 2))], "Event #3 (run): ls")
        async with asyncio.timeout(20):
            while session.state.agent_state is not AgentState.FINISHED:
                await session.changed()
        events = await session.stream.read()
        said = [m for m in of_type(events, MessageAction) if not m.queued and m.content == "look at #3"]
        assert [(m.content, m.context) for m in said] == [("look at #3", "Event #3 (run): ls")]
        (picture,) = said[0].image_urls
        assert picture.startswith("blob:image/png;3x2;")
        (message,) = [m for m in build_messages(events) if m["role"] == "user"]
        assert message["content"][0]["text"] == "look at #3\n\nEvent #3 (run): ls"
        assert message["content"][1]["image_url"]["url"] == picture


async def test_prompt_history_lists_this_workspace_first_without_delegates(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    runtime = ScriptedRuntime()
    async with ConversationManager(tmp_path / "home", FREE, make_runtime=lambda _: runtime, environ={}) as manager:
        model = write_script(tmp_path, [FINISH, FINISH, FINISH])
        for folder, text in ((here, "old, here"), (there, "there"), (here, "new, here")):
            session = await manager.create(workspace=str(folder), model=model)
            await send_and_settle(session, text)
        await answer_to(session, await session.user_control.run_command("make"))
        assert list(await manager.store.user_inputs(workspace=str(here), limit=9)) == [
            "!make",
            "new, here",
            "old, here",
            "there",
        ]
        assert list(await manager.store.user_inputs(workspace=str(there), limit=2)) == ["there", "!make"]
        child = await manager.store.create_conversation("c", title="", workspace=str(here), model="x", parent="p")
        await manager.store.append(child, [Draft(MessageAction(content="a task"), EventSource.USER, None)])
        assert "a task" not in await manager.store.user_inputs(workspace=str(here), limit=9)
