"""MCP servers in the agent's container: where they are, what they see and reach, and when they end."""

from __future__ import annotations

import json
import platform
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.conversations.conversation_manager import ConversationManager
from core.events import CmdOutputObservation, CmdRunAction, Frame, MCPAction, MCPObservation, Status
from core.mcp.supervisor import ServerState
from core.session.agent_session import AgentSession
from tests.containers import engine
from tests.doubles import FINISH, call, write_script
from tests.fleets import Contained
from tests.mcp.test_conversation import answers, settings, work
from tests.mcp.test_in_sandbox import WHEREABOUTS, until
from tests.runtime.conftest import Watcher
from tests.runtime.isolation.confined import own

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]
SECRET = "canary-5678"
MARK = secrets.token_hex(8)
"""Tells the servers of this process from those of others."""
SERVER: dict[str, Any] = {"command": "python3", "args": ["whereabouts.py", MARK], "env": ["TOKEN"], "start_s": 60}
FETCH = (
    "for host in two.invalid three.invalid; do python3 -c 'import sys, urllib.request\n"
    'try:\n    urllib.request.urlopen(f"https://{sys.argv[1]}/")\n'
    "except OSError as error:\n    print(error)' $host; done"
)


@asynccontextmanager
async def conversation(
    tmp_path: Path, server: dict[str, Any], *turns: dict[str, Any]
) -> AsyncIterator[tuple[ConversationManager, AgentSession, Contained, list[Frame]]]:
    """A conversation in a container whose workspace has the script of a server."""
    frames: list[Frame] = []
    (workspace := tmp_path / "workspace").mkdir()
    (workspace / "whereabouts.py").write_text(Path(WHEREABOUTS).read_text())
    own(workspace)
    manager = ConversationManager(
        tmp_path / "home",
        settings({"s": server}),
        make_runtime=lambda folder: Contained(Path(folder)),
        environ={"TOKEN": SECRET},
    )
    async with manager:
        session = await manager.create(workspace=str(workspace), model=write_script(tmp_path, turns or [FINISH]))
        session.frames.watch(frames.append)
        assert isinstance(session.runtime, Contained)
        yield manager, session, session.runtime, frames


async def where(session: AgentSession) -> dict[str, Any]:
    assert session.toolbox is not None
    answer = await session.toolbox.call(MCPAction(name="s__where", arguments={}))
    assert isinstance(answer, MCPObservation), answer
    found: dict[str, Any] = json.loads(answer.content)
    return found


async def run(runtime: Contained, command: str) -> str:
    observation = await runtime.execute(CmdRunAction(command=command, timeout=30), 99, Watcher())
    assert isinstance(observation, CmdOutputObservation), observation
    return observation.content.strip()


def command_lines() -> bytes:
    """Those of all processes of this machine, which are also those of its containers."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    return b"\n".join(lines)


async def test_a_server_is_in_the_container_and_ends_with_the_conversation(tmp_path: Path) -> None:
    turn: dict[str, Any] = {"tool_calls": [call("s__where")]}
    async with conversation(tmp_path, SERVER, turn, FINISH) as (_manager, session, runtime, _):
        ((answer,),) = answers(await work(session)).values()
        told = json.loads(answer.content)
        assert told["host"] == "sandbox" != platform.node()
        assert told["system"] == await run(runtime, "cat /etc/os-release") + "\n"
        assert str(told["user"]) == await run(runtime, "id -u")
        assert told["folder"] == session.info.workspace
        assert "whereabouts.py" in told["files"]
        assert told["environ"]["TOKEN"] == "<secret_hidden>", "as the model and the log see it"
        assert (await where(session))["environ"]["TOKEN"] == SECRET
        assert told["environ"]["HOME"] == "/home/agent"
        assert "HTTPS_PROXY" in told["environ"]
        lines = command_lines()
        assert MARK.encode() in lines
        assert SECRET.encode() not in lines
        assert await run(runtime, "echo [$TOKEN]") == "[]"
        assert await run(runtime, f"tr '\\0' ' ' < /proc/{told['pid']}/cmdline") == f"python3 whereabouts.py {MARK}"
        with engine() as client:
            assert SECRET not in json.dumps(client.api.inspect_container(runtime.container_name))
        assert session.toolbox is not None
        await session.toolbox.leave()
        place = f"/proc/{told['pid']}"
        gone = f"for n in $(seq 100); do [ -d {place} ] || break; sleep 0.1; done; ls -d {place}"
        assert "No such file" in await run(runtime, gone)
    assert MARK.encode() not in command_lines()


async def test_a_new_container_gets_a_new_server(tmp_path: Path) -> None:
    turn: dict[str, Any] = {"tool_calls": [call("s__where")]}
    async with conversation(tmp_path, SERVER, FINISH, turn, FINISH) as (manager, session, runtime, frames):
        await work(session)
        await where(session)
        first = runtime.container.id
        with engine() as client:
            client.api.remove_container(first, force=True)
        await until(manager, session, ServerState.CONNECTING)
        ((answer,),) = answers(await work(session)).values()
        assert isinstance(answer, MCPObservation), answer
        assert runtime.container.id != first
        assert [f.message for f in frames if isinstance(f, Status) and f.id == "STATUS$MCP_S" and f.message] == []


async def test_hosts_of_a_server_are_open_in_the_container_while_it_is_wanted(tmp_path: Path) -> None:
    server = {**SERVER, "allowed_hosts": ["two.invalid"]}
    async with conversation(tmp_path, server) as (_, session, runtime, _frames):
        await work(session)
        await where(session)
        two, three = (await run(runtime, FETCH)).splitlines()
        assert "two.invalid was not found" in two
        assert "403 three.invalid" in three


async def test_a_program_that_the_image_lacks_is_reported_once(tmp_path: Path) -> None:
    async with conversation(tmp_path, {"command": "npx-no-such"}) as (_, session, _runtime, frames):
        await work(session)
    (message,) = {f.message for f in frames if isinstance(f, Status) and f.id == "STATUS$MCP_S" and f.message}
    assert "In the sandbox there is no program npx-no-such. Use an image that has it: docker.image, or" in message
