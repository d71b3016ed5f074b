"""MCP servers that a client names run in the sandbox, and the official SDK's client uses their tools."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from core.events import CmdRunAction
from runtime.client import ActionExecutionClient
from runtime.protocol import KEY_HEADER
from runtime.server import mcp_process, mcp_proxy, processes
from tests.mcp.supervised import FAULTY, GOOD
from tests.runtime.action_server import KEY, Process, Server
from tests.runtime.conftest import WITHIN_S, has_ended

pytestmark = pytest.mark.timeout(180)


def good(name: str = "good", **env: str) -> dict[str, Any]:
    """The whole server, as V0's client names it."""
    return {"name": name, "command": sys.executable, "args": [GOOD, "stdio"], "env": env}


def faulty(mode: str) -> dict[str, Any]:
    return {"name": mode, "command": sys.executable, "args": ["-I", "-S", FAULTY, mode], "env": {}}


async def update(http: aiohttp.ClientSession, server: Server, *servers: dict[str, Any]) -> str:
    """Have these servers; the answer is why some of them failed."""
    url = server.url + "/update_mcp_server"
    async with http.post(url, json=list(servers), headers={KEY_HEADER: KEY}) as response:
        assert response.status == 200, await response.text()
        answer = await response.json()
    assert answer["detail"] == "MCP server updated successfully"
    return str(answer["router_error_log"])


@asynccontextmanager
async def connected(server: Server, path: str = "/mcp/sse") -> AsyncIterator[Client]:
    async with Client(sse_client(server.url + path, headers={KEY_HEADER: KEY}), mode="legacy") as client:
        yield client


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def call(client: Client, tool: str, **arguments: Any) -> str:
    (content,) = (await client.call_tool(tool, arguments)).content
    assert isinstance(content, TextContent)
    return content.text


def pids() -> set[int]:
    """The processes of servers below this one."""
    return set().union(*(find() for find in processes.own_processes))


@pytest.mark.parametrize("path", ["/mcp/sse", "/sse"])
async def test_a_server_runs_and_its_tools_are_used(server: Server, http: aiohttp.ClientSession, path: str) -> None:
    assert await update(http, server, good(WORD="passed on")) == ""
    async with connected(server, path) as client:
        assert {"add", "fail", "environment"} <= await names(client)
        assert await call(client, "add", a=1, b=2) == "3"
        assert "WORD" in (await call(client, "environment")).split()
        failed = await client.call_tool("fail", {})
        assert failed.is_error
        assert (await client.call_tool("no_such", {})).is_error


async def test_tools_of_several_servers_have_their_names_before_them(
    server: Server, http: aiohttp.ClientSession
) -> None:
    assert await update(http, server, good("a"), good("b"), faulty("fine")) == ""
    async with connected(server) as client:
        assert {"a_add", "b_add", "fine_echo"} <= await names(client)
        assert await call(client, "b_add", a=2, b=2) == "4"
        assert await call(client, "fine_echo") == "said again"


async def test_the_reply_says_which_server_failed_and_why(
    server: Server, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {"name": "missing", "command": "/no/such/program", "args": [], "env": {}}
    told = await update(http, server, faulty("crash_at_start"), faulty("initialize_error"), missing, good())
    crashed, refused, absent = told.splitlines()
    assert crashed.startswith("crash_at_start: It ended with status 1; its last output: no such configuration")
    assert refused.startswith("initialize_error: not today")
    assert absent == "missing: It cannot be started: No such file or directory."
    async with connected(server) as client:
        assert await call(client, "add", a=1, b=1) == "2"
    monkeypatch.setattr(mcp_process, "START_S", 0.5)
    assert await update(http, server, faulty("hang_at_start")) == "hang_at_start: It was not ready within 0.5 s."
    assert pids() == set()


async def test_a_server_that_stays_is_not_started_again_and_one_that_goes_is_ended(
    server: Server, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    await update(http, server, good("a", MARK=str(first)), good("b", MARK=str(second)))
    pid, other = int(first.read_text()), int(second.read_text())
    first.unlink()
    await update(http, server, good("a", MARK=str(first)))
    assert not first.exists(), "it was not started again"
    assert has_ended(other)
    assert not await asyncio.to_thread(has_ended, pid, 0)
    await update(http, server)
    assert has_ended(pid)


async def test_a_server_that_ends_is_told_and_started_again_with_the_next_list(
    server: Server, http: aiohttp.ClientSession
) -> None:
    await update(http, server, good())
    async with connected(server) as client:
        with pytest.raises(MCPError, match="It ended with status 3"):
            await client.call_tool("die", {})
        with pytest.raises(MCPError, match="It ended with status 3"):
            await client.call_tool("add", {"a": 1, "b": 1})
        assert await update(http, server, good()) == ""
        assert await call(client, "add", a=1, b=1) == "2"


async def test_a_client_that_goes_cancels_its_calls(
    server: Server, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    await update(http, server, good(MARK=str(mark)))

    async def until(text: str) -> None:
        async with asyncio.timeout(WITHIN_S):
            while mark.read_text() != text:
                await asyncio.sleep(0.02)

    async with connected(server) as client:
        lingering = asyncio.create_task(client.call_tool("linger", {}))
        await until("begun")
        lingering.cancel()
        await until("cancelled")


@pytest.mark.parametrize(
    "mode", ["banner", "binary", "stderr_flood", "asks_sampling", "child_keeps_pipes", "deep_json"]
)
async def test_noise_of_a_server_does_no_harm(server: Server, http: aiohttp.ClientSession, mode: str) -> None:
    assert await update(http, server, faulty(mode)) == ""
    async with connected(server) as client:
        assert await call(client, "echo") in ("said again", "refused: True")
    await update(http, server)
    assert pids() == set()


@pytest.mark.parametrize(
    "body",
    [
        {},
        [{"name": "a"}],
        [{"name": "a", "command": 1}],
        [{"name": "a", "command": "x", "args": "x"}],
        [{"name": "a", "command": "x", "env": {"A": 1}}],
        [good(), good()],
    ],
)
async def test_a_bad_list_is_refused(server: Server, http: aiohttp.ClientSession, body: Any) -> None:
    url = server.url + "/update_mcp_server"
    async with http.post(url, json=body, headers={KEY_HEADER: KEY}) as response:
        assert response.status == 400


async def test_a_message_of_no_session_is_refused(server: Server, http: aiohttp.ClientSession) -> None:
    url = server.url + "/mcp/messages/?session_id=none"
    async with http.post(url, json={"id": 1, "method": "ping"}, headers={KEY_HEADER: KEY}) as response:
        assert response.status == 404


async def test_the_servers_end_with_the_program_and_are_no_jobs(process: Process, tmp_path: Path) -> None:
    """In the program as it is started in a sandbox, where a reaper takes the status of processes without a parent."""
    mark = tmp_path / "mark"
    process.start()
    await asyncio.to_thread(process.ready)
    connector = aiohttp.UnixConnector(str(process.socket))
    async with aiohttp.ClientSession(connector=connector, headers={KEY_HEADER: KEY}) as http:
        body = [good(MARK=str(mark)), faulty("crash_at_start")]
        async with http.post("http://localhost/update_mcp_server", json=body) as response:
            told = (await response.json())["router_error_log"]
        assert told.startswith("crash_at_start: It ended with status 1; its last output: no such configuration")
        async with http.get("http://localhost/jobs") as response:
            assert await response.json() == []
    async with ActionExecutionClient(KEY, uds=str(process.socket)) as client:
        await client.execute(CmdRunAction(command="true"), 1, lambda frame: None)
    pid = int(mark.read_text())
    assert Path(f"/proc/{pid}").exists(), "the end of a command does not end it"
    assert process.child is not None
    process.child.terminate()
    assert await asyncio.to_thread(has_ended, pid)
    assert os.environ.get("MARK") is None


async def test_stream_of_a_client_that_reads_nothing_is_ended() -> None:
    proxy, client = mcp_proxy.MCPProxy("/", {}), mcp_proxy._Client()
    for number in range(mcp_proxy.MAX_QUEUED):
        await proxy._answer(client, number, "ping", {})
    assert client.outgoing.qsize() == mcp_proxy.MAX_QUEUED
    await proxy._answer(client, mcp_proxy.MAX_QUEUED, "ping", {})
    assert (client.outgoing.get_nowait(), client.outgoing.empty()) == (None, True)
