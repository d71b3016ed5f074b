"""Tools of MCP servers in whole conversations: real store, shell and servers; the model is scripted."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.agent.tool_agent import ToolAgent
from core.conversations.conversation_manager import ConversationManager
from core.events import (
    ActionConfirmationStatus,
    AgentState,
    Envelope,
    ErrorObservation,
    Frame,
    MCPAction,
    MCPObservation,
    Status,
    event_to_dict,
)
from core.mcp.server_definitions import FILE
from core.mcp.supervisor import CONSENT, ServerState
from core.mcp.tool_registry import WAITING
from core.session.agent_session import AgentSession
from core.settings.config import Settings
from core.store.blobs import BlobRef
from tests.doubles import FINISH, bash, call, write_script
from tests.mcp.killing import killed_at_work, pid_of, until_ready
from tests.mcp.supervised import GOOD, START_S, faulty, good
from tests.stopped_clock import stopped_clock
from tests.warm_servers import WarmRuntime


def settings(servers: dict[str, Any], confirm: str = "never") -> Settings:
    """Without taint, which asks about what follows on a server's answer (tests/security/test_mcp_marks.py)."""
    return Settings.model_validate(
        {"agent": {"confirm": confirm}, "mcp": {"servers": servers}, "security": {"taint": False}}
    )


@asynccontextmanager
async def conversation(
    tmp_path: Path, turns: Sequence[dict[str, Any]], chosen: Settings
) -> AsyncIterator[tuple[ConversationManager, AgentSession]]:
    """A new conversation whose servers have settled."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    async with ConversationManager(tmp_path / "home", chosen, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(workspace), model=write_script(tmp_path, turns))
        await manager.mcp.settled(str(workspace), START_S)
        yield manager, session


async def work(session: AgentSession) -> list[Envelope]:
    async with asyncio.timeout(START_S):
        await session.send("go")
        await session.settled()
    return list(await session.stream.read(limit=500))


def answers(events: Sequence[Envelope]) -> dict[str, list[Any]]:
    """Of each call of a server's tool all observations that answer it."""
    calls = [envelope for envelope in events if isinstance(envelope.event, MCPAction)]
    return {
        f"{index} {envelope.event.name}": [
            e.event for e in events if e.cause == envelope.id and isinstance(e.event, MCPObservation | ErrorObservation)
        ]
        for index, envelope in enumerate(calls)
        if isinstance(envelope.event, MCPAction)
    }


async def test_agent_uses_servers_and_the_sandbox_side_by_side(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [
        {"tool_calls": [call("s__add", a=1, b=2), bash("echo in the sandbox"), call("s__fail")]},
        {"tool_calls": [call("s__picture")], "expect": "Error executing tool fail"},
        {"tool_calls": [call("s__add", a=1)]},
        {"tool_calls": [call("no__such")], "expect": 'Missing required argument "b" in tool call s__add'},
        {**FINISH, "expect": "is not registered"},
    ]
    async with conversation(tmp_path, turns, settings({"s": good()})) as (_, session):
        events = await work(session)
    assert session.state.agent_state is AgentState.FINISHED, session.state.reason
    told = answers(events)
    assert [len(observations) for observations in told.values()] == [1, 1, 1], "one observation for each call"
    (added,), (failed,), (picture,) = told.values()
    assert (added.content, added.is_error, added.success) == ("3", False, None)
    assert (failed.is_error, failed.success) == (True, False)
    assert isinstance(picture, MCPObservation)
    assert picture.image_urls is not None
    assert BlobRef.parse(picture.image_urls[0]) is not None, "its bytes are kept beside the log"
    assert event_to_dict(added)["extras"] == {"name": "s__add", "arguments": {"a": 1, "b": 2}}, "as V0 has it"


def slow(seconds: float) -> dict[str, Any]:
    """A server that takes this long before it says anything."""
    one = faulty("fine")
    return {**one, "command": "sh", "args": ["-c", 'sleep "$1"; shift; exec "$@"', "sh", str(seconds), one["command"],
                                            *one["args"]]}  # fmt: skip


@asynccontextmanager
async def at_once(
    tmp_path: Path, turns: Sequence[dict[str, Any]], chosen: Settings
) -> AsyncIterator[tuple[AgentSession, list[Frame]]]:
    """A new conversation whose servers have only begun to start, and its frames."""
    frames: list[Frame] = []
    (tmp_path / "workspace").mkdir()
    async with ConversationManager(tmp_path / "home", chosen, make_runtime=WarmRuntime, environ={}) as manager:
        session = await manager.create(workspace=str(tmp_path / "workspace"), model=write_script(tmp_path, turns))
        session.frames.watch(frames.append)
        yield session, frames


def waits(frames: Sequence[Frame]) -> list[str]:
    return [frame.message for frame in frames if isinstance(frame, Status) and frame.id == WAITING]


async def test_the_first_model_call_waits_for_a_slow_server(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [{"tool_calls": [call("s__echo")]}, {**FINISH, "expect": "^said again"}]
    async with at_once(tmp_path, turns, settings({"s": slow(4.0)})) as (session, frames):
        events = await work(session)
        assert session.state.agent_state is AgentState.FINISHED, session.state.reason
    ((answer,),) = answers(events).values()
    assert isinstance(answer, MCPObservation)
    assert waits(frames) == ["Waiting for MCP servers: s", ""]


async def test_an_interrupt_ends_the_wait_for_a_server(tmp_path: Path) -> None:
    async with at_once(tmp_path, [FINISH], settings({"s": faulty("hang_at_start")})) as (session, frames):
        await session.send("go")
        async with asyncio.timeout(START_S):
            while not waits(frames):
                await asyncio.sleep(0.01)
        with stopped_clock():
            await session.interrupt()
            await session.settled()
        assert session.state.agent_state is not AgentState.FINISHED
    assert waits(frames) == ["Waiting for MCP servers: s", ""]


async def test_the_model_is_told_that_a_server_has_failed(tmp_path: Path) -> None:
    async with at_once(tmp_path, [FINISH], settings({"s": faulty("crash_at_start")})) as (session, frames):
        await work(session)
        agent = session.active_model.make_agent()
        assert isinstance(agent, ToolAgent)
        assert agent.missing_tools().startswith("The MCP server s ")
    told = [frame.message for frame in frames if isinstance(frame, Status) and frame.id == "STATUS$MCP_S"]
    assert told[0].startswith("MCP server s: It ended with status 1; its last output: no such configuration")


async def test_call_waits_for_approval_like_a_command(tmp_path: Path) -> None:
    turns = [{"tool_calls": [call("s__echo")]}, FINISH]
    async with conversation(tmp_path, turns, settings({"s": faulty("fine")}, "risky")) as (_, session):
        await session.send("go")
        async with asyncio.timeout(START_S):
            while session.state.agent_state is not AgentState.AWAITING_USER_CONFIRMATION:
                await session.changed()
        (asked,) = [e for e in await session.stream.read(limit=100) if isinstance(e.event, MCPAction)]
        assert isinstance(asked.event, MCPAction)
        assert asked.event.confirmation_state is ActionConfirmationStatus.AWAITING_CONFIRMATION
        await session.approval.confirm()
        async with asyncio.timeout(START_S):
            await session.settled()
        (told,) = answers(list(await session.stream.read(limit=100))).values()
    assert [observation.content for observation in told] == ["said again"]


async def test_server_killed_during_a_call_is_reported_and_restarted(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [
        {"tool_calls": [call("s__die")]},
        {"tool_calls": [call("other__echo")], "expect": "The MCP server s failed. It ended with status 3"},
        {"tool_calls": [bash("true")]},
        FINISH,
        {"tool_calls": [call("s__add", a=2, b=2)]},
        {**FINISH, "expect": "^4"},
    ]
    frames: list[Frame] = []
    servers = {"s": good(), "other": faulty("fine")}
    async with conversation(tmp_path, turns, settings(servers)) as (manager, session):
        session.frames.watch(frames.append)
        events = await work(session)
        async with asyncio.timeout(START_S):
            while manager.mcp.at(session.info.workspace)[1].state is not ServerState.READY:
                await asyncio.sleep(0.05)
        events = await work(session)
    assert session.state.agent_state is AgentState.FINISHED, session.state.reason
    (died,), (other,), (added,) = answers(events).values()
    assert isinstance(died, ErrorObservation)
    assert (other.content, added.content) == ("said again", "4")
    told = [frame.message for frame in frames if isinstance(frame, Status) and frame.id == "STATUS$MCP_S"]
    assert "It is retried in" in told[0]
    assert told[-2:] == ["MCP server s: is back", ""], "and the notice goes"


async def test_server_killed_while_the_agent_waits_is_reported_and_restarted(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [
        {"tool_calls": [call("s__add", a=1, b=2)]},
        {"tool_calls": [call("s__linger")], "expect": "^3"},
        {"tool_calls": [call("other__echo")], "expect": "The MCP server s failed. It ended with status -9"},
        {**FINISH, "expect": "said again"},
        {"tool_calls": [call("s__add", a=2, b=2)]},
        {**FINISH, "expect": "^4"},
    ]
    async with conversation(tmp_path, turns, settings({"s": good(), "other": faulty("fine")})) as (manager, session):
        pid = pid_of(manager.mcp._host.pid, GOOD)
        await session.send("go")
        await killed_at_work(session, "s__linger", pid)
        await session.settled()
        await until_ready(manager, session.info.workspace, "s")
        events = await work(session)
        assert pid_of(manager.mcp._host.pid, GOOD) != pid
    assert session.state.agent_state is AgentState.FINISHED, session.state.reason
    assert [len(observations) for observations in answers(events).values()] == [1, 1, 1, 1]


async def test_interrupt_ends_a_call_at_once(tmp_path: Path) -> None:
    async with conversation(tmp_path, [{"tool_calls": [call("s__echo")]}], settings({"s": faulty("hang_at_call")})) as (
        _,
        session,
    ):
        await session.send("go")
        async with asyncio.timeout(START_S):
            while not any(isinstance(e.event, MCPAction) for e in await session.stream.read(limit=100)):
                await session.changed()
        with stopped_clock():
            await session.interrupt()
            await session.settled()
        (told,) = answers(list(await session.stream.read(limit=100))).values()
    assert [observation.error_id for observation in told] == ["AGENT_ERROR$INTERRUPTED"]


async def test_conversation_reports_a_project_that_needs_consent(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    entry = {"command": sys.executable, "args": faulty("fine")["args"]}
    (tmp_path / "workspace" / FILE).write_text(json.dumps({"mcpServers": {"p": entry}}))
    turns = [{"tool_calls": [call("p__echo")]}, {**FINISH, "expect": "is not registered"}]
    frames: list[Frame] = []
    async with conversation(tmp_path, turns, settings({})) as (manager, session):
        session.frames.watch(frames.append)
        await work(session)
        assert session.state.agent_state is AgentState.FINISHED, session.state.reason
        assert manager.mcp._host.pid is None
        (server,) = manager.mcp.at(session.info.workspace)
        told = [frame for frame in frames if isinstance(frame, Status) and frame.id == "STATUS$MCP_P"]
        assert told == [Status("error", "STATUS$MCP_P", f"MCP server p: {CONSENT}")]
        assert server.state is ServerState.CONSENT


async def test_key_of_a_server_is_redacted_under_any_variable_name(tmp_path: Path) -> None:
    key, script = "canary-0123456789-value", write_script(tmp_path, [FINISH])
    chosen = settings({"s": {"url": "https://tickets.example/mcp", "key_env": "ODDLY_NAMED", "enabled": False}})
    environ = {"ODDLY_NAMED": key}
    async with ConversationManager(tmp_path / "home", chosen, make_runtime=WarmRuntime, environ=environ) as manager:
        session = await manager.create(workspace=str(tmp_path), model=script)
        said = await session.send(f"the key is {key}")
        await session.settled()
    assert key not in str(said.event)


async def test_nothing_is_started_without_servers(tmp_path: Path) -> None:
    async with conversation(tmp_path, [FINISH], settings({})) as (manager, session):
        await work(session)
        assert manager.mcp._host.pid is None
