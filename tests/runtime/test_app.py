"""The routes over a real socket: who is let in, what is answered, and what closing a request does."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from core.events import AgentThinkAction, CmdOutputObservation, CmdRunAction, FileReadAction
from runtime.client import ActionExecutionClient
from runtime.protocol import KEY_HEADER, MAX_REQUEST_BYTES, NDJSON_TYPE, decode_line, encode_request
from runtime.server import guard as guard_module
from runtime.server.app import ActionServer
from runtime.server.bash import BashSession
from runtime.server.executor import ActionExecutor
from runtime.server.files import Files
from runtime.server.guard import Guard
from runtime.server.terminal_routes import TerminalRoutes
from tests.runtime.conftest import Watcher

KEY = "k" * 64


class Server:
    """The application in this process, on a free port of this machine."""

    def __init__(self, app: web.Application, port: int) -> None:
        self.app = app
        self.port = port
        self.url = f"http://127.0.0.1:{port}"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    bash = BashSession(str(tmp_path), no_change_timeout_s=1)
    await bash.start()
    executor = ActionExecutor([bash.table, Files(lambda: bash.cwd).table])
    guard = Guard(KEY)
    app = ActionServer(executor, guard, str(tmp_path), routes=TerminalRoutes(bash).table).app
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    assert runner.server is not None
    listening = runner.server
    accepting = await asyncio.get_running_loop().create_server(lambda: guard.watch(listening), "127.0.0.1", 0)
    yield Server(app, accepting.sockets[0].getsockname()[1])
    accepting.close()
    await bash.aclose()
    await runner.cleanup()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def client(server: Server) -> AsyncIterator[ActionExecutionClient]:
    async with ActionExecutionClient(KEY, url=server.url) as client:
        yield client


def routes(app: web.Application) -> list[tuple[str, str]]:
    """Every route that there is, and some that there are not."""
    known = [(route.method, route.resource.canonical) for route in app.router.routes() if route.resource]
    assert ("POST", "/execute_action") in known
    return [*known, ("GET", "/"), ("GET", "/docs"), ("DELETE", "/alive"), ("OPTIONS", "/execute_action")]


class TestGuard:
    @pytest.mark.parametrize("key", [None, "", "x", KEY[:-1], KEY + "k", "ключ"])
    async def test_every_route_wants_the_key(
        self, server: Server, http: aiohttp.ClientSession, key: str | None
    ) -> None:
        headers = {} if key is None else {KEY_HEADER: key}
        for method, path in routes(server.app):
            async with http.request(method, server.url + path, headers=headers) as response:
                assert (response.status, path) == (401, path)

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://localhost"},
            {"Origin": "null"},
            {"Host": "evil.example"},
            {"Host": "127.0.0.1.nip.io"},
            {"Host": "localhost.evil.example:80"},
            {"Host": "localhost:80:80"},
            {"Host": ""},
        ],
    )
    async def test_browsers_and_foreign_hosts_are_refused_with_any_key(
        self, server: Server, http: aiohttp.ClientSession, headers: dict[str, str]
    ) -> None:
        for method, path in routes(server.app):
            async with http.request(method, server.url + path, headers={KEY_HEADER: KEY, **headers}) as response:
                assert (response.status, path) == (403, path)

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:65535", "[::1]", "[::1]:80"])
    async def test_this_machine_has_several_names(self, server: Server, http: aiohttp.ClientSession, host: str) -> None:
        headers = {KEY_HEADER: KEY, "Host": host}
        async with http.get(server.url + "/alive", headers=headers) as response:
            assert await response.json() == {"status": "ok"}

    def test_a_guard_without_a_key_cannot_be_made(self) -> None:
        with pytest.raises(ValueError, match="would admit everybody"):
            Guard("")

    async def test_who_says_nothing_is_let_go_of(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard_module, "HEADER_TIMEOUT_S", 0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /alive HTTP/1.1\r\nHost: local")
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    async def test_too_many_connections_are_let_go_of(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard_module, "MAX_CONNECTIONS", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


class TestRoutes:
    HEADERS = {KEY_HEADER: KEY, "Content-Type": "application/json"}

    async def test_server_info_is_v0s_with_the_version_and_what_the_sandbox_uses(
        self, server: Server, client: ActionExecutionClient
    ) -> None:
        info = await client.server_info()
        assert sorted(info) == ["idle_time", "protocol_version", "resources", "sandbox", "uptime"]
        assert sorted(info["resources"]) == ["cpu_percent", "disk", "io", "memory"]
        assert sorted(info["resources"]["memory"]) == ["percent", "rss", "vms"]
        assert sorted(info["resources"]["disk"]) == ["free", "percent", "total", "used"]
        assert info["resources"]["memory"]["rss"] > 1_000_000

    async def test_without_streaming_the_observation_is_the_answer(
        self, server: Server, http: aiohttp.ClientSession
    ) -> None:
        body = b'{"action": {"action": "run", "args": {"command": "echo hi"}}}'
        async with http.post(server.url + "/execute_action", data=body, headers=self.HEADERS) as response:
            answer = await response.json()
        assert (answer["observation"], answer["content"], answer["success"]) == ("run", "hi", True)
        assert answer["extras"]["metadata"]["exit_code"] == 0

    async def test_with_streaming_the_observation_is_the_last_line(
        self, server: Server, http: aiohttp.ClientSession
    ) -> None:
        headers = {**self.HEADERS, "Accept": NDJSON_TYPE}
        body = encode_request(CmdRunAction(command="echo hi"), 12)
        async with http.post(server.url + "/execute_action", data=body, headers=headers) as response:
            assert response.content_type == NDJSON_TYPE
            *frames, last = (await response.read()).splitlines()
        assert [json.loads(line)["frame"] for line in frames] == ["terminal_output"] * len(frames)
        assert {json.loads(line)["cause"] for line in frames} == {12}
        assert isinstance(decode_line(last), CmdOutputObservation)

    @pytest.mark.parametrize(
        ("body", "content_type", "status"),
        [
            (b"{", "application/json", 400),
            (b'{"action": {"action": "no such"}}', "application/json", 400),
            (b'{"action": {"action": "think"}}', "text/plain", 415),
            (b" " * (MAX_REQUEST_BYTES + 1), "application/json", 413),
        ],
        ids=["no JSON", "no action", "no JSON type", "too large"],
    )
    async def test_a_bad_body_is_refused(
        self, server: Server, http: aiohttp.ClientSession, body: bytes, content_type: str, status: int
    ) -> None:
        headers = {KEY_HEADER: KEY, "Content-Type": content_type}
        async with http.post(server.url + "/execute_action", data=io.BytesIO(body), headers=headers) as response:
            assert response.status == status


class TestClosing:
    async def test_closing_the_answer_interrupts_the_command(
        self, client: ActionExecutionClient, watcher: Watcher
    ) -> None:
        sleeping = CmdRunAction(command="echo begun; sleep 100", blocking=True)
        running = asyncio.create_task(client.execute(sleeping, 1, watcher))
        await watcher.sees(b"begun\r\n")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with asyncio.timeout(2):
            observation = await client.execute(CmdRunAction(command="echo usable"), 2, watcher)
        assert observation.content == "usable"

    async def test_closing_a_request_without_streaming_interrupts_too(
        self, server: Server, client: ActionExecutionClient, watcher: Watcher
    ) -> None:
        body = encode_request(CmdRunAction(command="sleep 100", blocking=True), 1)
        head = (
            f"POST /execute_action HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(head.encode() + body)
            assert await client.alive()
        async with asyncio.timeout(2):
            observation = await client.execute(CmdRunAction(command="echo usable"), 2, watcher)
        assert observation.content == "usable"

    async def test_files_and_thoughts_do_not_wait_behind_a_command(
        self, client: ActionExecutionClient, watcher: Watcher, tmp_path: Path
    ) -> None:
        (tmp_path / "f").write_text("text")
        sleeping = CmdRunAction(command="echo begun; sleep 100", blocking=True)
        running = asyncio.create_task(client.execute(sleeping, 1, watcher))
        await watcher.sees(b"begun\r\n")
        async with asyncio.timeout(1):
            assert (await client.execute(FileReadAction(path="f"), 2, watcher)).content == "text"
            await client.execute(AgentThinkAction(), 3, watcher)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
