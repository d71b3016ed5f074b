"""Servers in the sandbox of a conversation: a runtime with an action server runs them, here without isolation."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.conversations.conversation_manager import ConversationManager
from core.errors import RuntimeUnavailableError
from core.events import AgentState, ErrorObservation, Frame, MCPAction, MCPObservation, Status
from core.mcp.supervisor import Server, ServerState
from core.mcp.tool_registry import WAITING
from core.sandbox_types import Say
from core.session.agent_session import AgentSession
from tests.contract.remote_here import RemoteHere
from tests.doubles import FINISH, bash, call, write_script
from tests.mcp.supervised import FAULTY, START_S
from tests.mcp.test_conversation import answers, settings, work
from tests.runtime.conftest import has_ended
from tests.stopped_clock import stopped_clock
from tests.warm_servers import WarmRuntime

WHEREABOUTS = str(Path(__file__).with_name("whereabouts.py"))
SUSPENDED = Status("info", "STATUS$TEST", "suspended")


def whereabouts(**more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", WHEREABOUTS], "start_s": START_S, **more}


def faulty(mode: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", FAULTY, mode]}


class Inside(WarmRuntime):
    """Runs servers inside, as containers and remote machines do."""

    runs_servers = True


class Broken(Inside):
    async def _open(self, say: Say) -> Any:
        raise RuntimeUnavailableError("There is no engine.")


@asynccontextmanager
async def conversation(
    tmp_path: Path, turns: Sequence[dict[str, Any]], servers: dict[str, Any], make_runtime: Any = Inside, **environ: str
) -> AsyncIterator[tuple[ConversationManager, AgentSession, list[Frame]]]:
    frames: list[Frame] = []
    (tmp_path / "workspace").mkdir(exist_ok=True)
    manager = ConversationManager(tmp_path / "home", settings(servers), make_runtime=make_runtime, environ=environ)
    async with manager:
        session = await manager.create(workspace=str(tmp_path / "workspace"), model=write_script(tmp_path, turns))
        session.frames.watch(frames.append)
        yield manager, session, frames


def server_of(manager: ConversationManager, session: AgentSession, name: str = "s") -> Server:
    return next(one for one in manager.mcp.at(session.info.workspace, session.id) if one.spec.name == name)


async def until(manager: ConversationManager, session: AgentSession, state: ServerState, name: str = "s") -> None:
    async with asyncio.timeout(START_S), manager.mcp._changed:
        await manager.mcp._changed.wait_for(lambda: server_of(manager, session, name).state is state)


async def ask(session: AgentSession, tool: str = "s__where") -> dict[str, Any]:
    """Call a tool as the agent would."""
    assert session.toolbox is not None
    answer = await session.toolbox.call(MCPAction(name=tool, arguments={}))
    assert isinstance(answer, MCPObservation), answer
    found: dict[str, Any] = json.loads(answer.content)
    return found


def messages(frames: Sequence[Frame]) -> list[str]:
    return [f.message for f in frames if isinstance(f, Status) and f.id == "STATUS$MCP_S" and f.message]


async def test_a_server_runs_in_the_sandbox_and_ends_with_the_conversation(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [{"tool_calls": [call("s__where"), bash("echo $PPID")]}, FINISH]
    server = whereabouts(env=["TOKEN"])
    async with conversation(tmp_path, turns, {"s": server}, TOKEN="canary", HOME="/host") as (manager, session, frames):
        assert server_of(manager, session).state is ServerState.CONNECTING, "there is no sandbox yet"
        events = await work(session)
        assert session.state.agent_state is AgentState.FINISHED, session.state.reason
        ((answer,),) = answers(events).values()
        told = json.loads(answer.content)
        assert isinstance(session.runtime, Inside)
        assert told["parent"] == session.runtime.server_pid
        assert told["folder"] == session.info.workspace
        assert told["environ"]["TOKEN"] == "canary"
        assert told["environ"]["HOME"] == os.environ["HOME"], "that of the sandbox"
        assert messages(frames) == []
        assert [f.message for f in frames if isinstance(f, Status) and f.id == WAITING] == [
            "Waiting for MCP servers: s",
            "",
        ]
        await manager.close(session.id)
        assert has_ended(told["pid"])
        assert manager.mcp.everywhere(session.info.workspace) == []


async def test_a_server_runs_on_the_remote_machine(tmp_path: Path) -> None:
    """A broken link ends it; the next message gets another one, because the machine is there."""
    turns: list[dict[str, Any]] = [FINISH, {"tool_calls": [call("s__where")]}, FINISH]

    def make_runtime(folder: str) -> RemoteHere:
        return RemoteHere(Path(folder))

    try:
        async with conversation(tmp_path, turns, {"s": whereabouts()}, make_runtime) as (manager, session, _):
            await work(session)
            first = await ask(session)
            assert isinstance(session.runtime, RemoteHere)
            assert first["parent"] == session.runtime.server_pid
            client = session.runtime._client
            assert client is not None
            for response in tuple(client._responses):
                response.close()
            await until(manager, session, ServerState.CONNECTING)
            assert await asyncio.to_thread(has_ended, first["pid"])
            ((answer,),) = answers(await work(session)).values()
            again = json.loads(answer.content)
            assert (again["parent"], again["pid"] != first["pid"]) == (first["parent"], True)
        assert await asyncio.to_thread(has_ended, again["pid"])
    finally:
        RemoteHere.end_servers()


async def test_another_sandbox_gets_another_server_before_the_next_model_call(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [FINISH, {"tool_calls": [call("s__where")]}, FINISH]
    async with conversation(tmp_path, turns, {"s": whereabouts()}) as (manager, session, frames):
        await work(session)
        first = (await ask(session))["pid"]
        assert isinstance(session.runtime, Inside)
        assert session.runtime.server_pid is not None
        os.kill(session.runtime.server_pid, signal.SIGKILL)
        await until(manager, session, ServerState.CONNECTING)
        ((answer,),) = answers(await work(session)).values()
        assert json.loads(answer.content)["pid"] != first
        assert messages(frames) == []


async def test_a_suspended_conversation_has_no_server(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [FINISH, {"tool_calls": [call("s__where")]}, FINISH]
    async with conversation(tmp_path, turns, {"s": whereabouts()}) as (manager, session, frames):
        await work(session)
        first = (await ask(session))["pid"]
        assert await session.suspend(SUSPENDED)
        assert has_ended(first)
        assert server_of(manager, session).state is ServerState.CONNECTING
        ((answer,),) = answers(await work(session)).values()
        assert json.loads(answer.content)["pid"] != first
        assert messages(frames) == []


async def test_a_sandbox_that_cannot_start_does_not_hold_up_the_model(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], {"s": whereabouts()}, Broken) as (manager, session, _):
        with stopped_clock(after_s=2.0):
            await work(session)
        assert session.state.agent_state is AgentState.FINISHED
        assert server_of(manager, session).state is ServerState.CONNECTING


async def test_a_missing_program_is_reported_once_with_what_to_do(tmp_path: Path) -> None:
    server = {"command": "npx-no-such", "args": ["-y", "x"]}
    async with conversation(tmp_path, [FINISH], {"s": server}) as (manager, session, frames):
        await work(session)
        assert server_of(manager, session).retry is None
    (message,) = set(messages(frames))
    assert message == (
        "MCP server s: cannot be started: In the sandbox there is no program npx-no-such. Install it where the sandbox "
        "runs. Or run the server on this machine as you: name it under [mcp.servers] of your own config.toml, with "
        "sandbox = false."
    )


async def test_a_server_that_crashes_is_retried_with_its_own_reason(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], {"s": faulty("crash_at_start")}) as (_, session, frames):
        await work(session)
    assert messages(frames)[0].startswith(
        "MCP server s: It ended with status 1; its last output: no such configuration"
    ), messages(frames)
    assert "It is retried in" in messages(frames)[0]


async def test_a_server_of_the_newest_protocol_alone_works(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [{"tool_calls": [call("s__echo")]}, FINISH]
    async with conversation(tmp_path, turns, {"s": faulty("modern")}) as (_, session, _frames):
        ((answer,),) = answers(await work(session)).values()
        assert isinstance(answer, MCPObservation), answer


async def test_a_flood_without_an_end_of_line_ends_the_server(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [{"tool_calls": [call("s__echo")]}, FINISH]
    async with conversation(tmp_path, turns, {"s": faulty("gigabyte_line")}) as (_, session, frames):
        ((answer,),) = answers(await work(session)).values()
        assert isinstance(answer, ErrorObservation)
    assert "It sent more than 1,024 KB at once and was killed." in messages(frames)[0]


async def test_it_comes_back_after_the_host_was_killed(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], {"s": whereabouts()}) as (manager, session, _):
        await work(session)
        first = (await ask(session))["pid"]
        assert manager.mcp._host.pid is not None
        os.kill(manager.mcp._host.pid, signal.SIGKILL)
        await until(manager, session, ServerState.FAILED)
        assert await asyncio.to_thread(has_ended, first)
        await until(manager, session, ServerState.READY)
        assert (await ask(session))["pid"] != first


async def test_each_conversation_has_its_own_except_those_of_this_machine(tmp_path: Path) -> None:
    servers = {"s": whereabouts(), "here": whereabouts(sandbox=False)}
    async with conversation(tmp_path, [FINISH], servers) as (manager, session, _):
        other = await manager.create(workspace=session.info.workspace, model=write_script(tmp_path, [FINISH], "b.yaml"))
        for one in (session, other):
            await work(one)
        pids = {one.id: (await ask(one))["pid"] for one in (session, other)}
        assert pids[session.id] != pids[other.id]
        assert (await ask(session, "here__where"))["pid"] == (await ask(other, "here__where"))["pid"]
        await manager.close(other.id)
        assert has_ended(pids[other.id])
        assert (await ask(session))["pid"] == pids[session.id]


async def test_one_approval_starts_the_server_of_a_project_in_every_sandbox(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": faulty("fine")}}))
    async with conversation(tmp_path, [FINISH], {}) as (manager, session, _):
        other = await manager.create(workspace=session.info.workspace, model=write_script(tmp_path, [FINISH], "b.yaml"))
        for one in (session, other):
            assert server_of(manager, one).state is ServerState.CONSENT
        waiting = server_of(manager, session)
        await manager.mcp.allow(waiting.key, waiting.spec.fingerprint)
        for one in (session, other):
            await work(one)
            await until(manager, one, ServerState.READY)
