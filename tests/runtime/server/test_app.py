"""The routes over a real socket: authentication, answers, and the effect of closing a request."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from core.events import CmdOutputObservation, CmdRunAction
from runtime.client import ActionExecutionClient
from runtime.protocol import KEY_HEADER, MAX_REQUEST_BYTES, NDJSON_TYPE, decode_line, encode_request
from runtime.server import request_guard as guard_module
from runtime.server import transfers
from runtime.server.app import server_usage
from tests.runtime.action_server import KEY, Server
from tests.runtime.conftest import Watcher


def routes(app: web.Application) -> list[tuple[str, str]]:
    """Every route that there is, and some that there are not."""
    known = [(route.method, route.resource.canonical) for route in app.router.routes() if route.resource]
    assert ("POST", "/execute_action") in known
    return [*known, ("GET", "/"), ("GET", "/docs"), ("DELETE", "/alive"), ("OPTIONS", "/execute_action")]


class TestGuard:
    @pytest.mark.parametrize("key", [None, "", "x", KEY[:-1], KEY + "k", "ключ"])
    async def test_every_route_requires_the_key(
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
    async def test_loopback_host_names_are_accepted(
        self, server: Server, http: aiohttp.ClientSession, host: str
    ) -> None:
        headers = {KEY_HEADER: KEY, "Host": host}
        async with http.get(server.url + "/alive", headers=headers) as response:
            assert await response.json() == {"status": "ok"}

    async def test_silent_connection_is_closed(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard_module, "HEADER_TIMEOUT_S", 0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /alive HTTP/1.1\r\nHost: local")
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    async def test_connections_beyond_the_limit_are_closed(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(guard_module, "MAX_CONNECTIONS", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


class TestRoutes:
    HEADERS = {KEY_HEADER: KEY, "Content-Type": "application/json"}

    async def test_server_info_has_v0s_fields_version_and_sandbox_usage(
        self, server: Server, client: ActionExecutionClient
    ) -> None:
        info = await client.server_info()
        assert sorted(info) == ["idle_time", "protocol_version", "resources", "sandbox", "uptime", "working_dir"]
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
    async def test_invalid_body_is_refused(
        self, server: Server, http: aiohttp.ClientSession, body: bytes, content_type: str, status: int
    ) -> None:
        headers = {KEY_HEADER: KEY, "Content-Type": content_type}
        async with http.post(server.url + "/execute_action", data=io.BytesIO(body), headers=headers) as response:
            assert response.status == status


class TestBodies:
    """Bodies that are slow, too large or cut off, on every route that takes one."""

    JSON = (
        *("/execute_action", "/list_files", "/update_mcp_server", "/environment"),
        *("/terminal/input", "/terminal/resize", "/mcp/messages/"),
    )
    TAKING = (*JSON, "/upload_file")
    FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="name"\r\n\r\n'

    def head(self, path: str, length: int = 1000) -> bytes:
        content_type = "multipart/form-data; boundary=b" if "upload" in path else "application/json"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {KEY}\r\nContent-Type: {content_type}\r\n"
        return f"{head}Content-Length: {length}\r\n\r\n".encode()

    def test_list_of_routes_with_a_body_is_complete(self, server: Server) -> None:
        posted = {path for method, path in routes(server.app) if method == "POST"}
        assert posted - {"/terminal/give_back", "/mcp/stdio"} == set(self.TAKING)

    @pytest.mark.parametrize("path", TAKING)
    @pytest.mark.parametrize("begun", [b"", b"{", FORM + b"content"])
    async def test_slow_body_is_refused(
        self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, begun: bytes
    ) -> None:
        monkeypatch.setattr(guard_module, "BODY_TIMEOUT_S", 0.1)
        monkeypatch.setattr(transfers, "UPLOAD_TIMEOUT_S", 0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(self.head(f"{path}?destination={tmp_path}/new") + begun)
        assert b" 408 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("path", JSON)
    async def test_json_body_over_8_mib_is_refused(
        self, server: Server, http: aiohttp.ClientSession, path: str
    ) -> None:
        for length in (MAX_REQUEST_BYTES + 1, MAX_REQUEST_BYTES * 4):
            body = io.BytesIO(b" " * length)
            async with http.post(server.url + path, data=body, headers=TestRoutes.HEADERS) as response:
                assert response.status == 413

    @pytest.mark.parametrize("is_announced", [True, False], ids=["announced", "in chunks"])
    async def test_uploads_have_a_separate_limit(
        self,
        server: Server,
        http: aiohttp.ClientSession,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        is_announced: bool,
    ) -> None:
        limit = 2 * MAX_REQUEST_BYTES
        monkeypatch.setattr(transfers, "MAX_UPLOAD_BYTES", limit)
        headers = {KEY_HEADER: KEY, "Content-Type": "multipart/form-data; boundary=b"}
        for over, status in ((0, 200), (1 if not is_announced else transfers.FORM_BYTES, 413)):
            body = self.FORM + b"x" * (limit + over) + b"\r\n--b--\r\n"

            async def pieces(body: bytes = body) -> AsyncIterator[bytes]:
                yield body

            data = io.BytesIO(body) if is_announced else pieces()
            url = f"{server.url}/upload_file?destination={tmp_path}/{status}"
            async with http.post(url, data=data, headers=headers) as response:
                assert response.status == status
        assert [path.name for path in tmp_path.iterdir()] == ["200"]

    @pytest.mark.filterwarnings("ignore::aiohttp.BadContentDispositionHeader")
    @pytest.mark.filterwarnings("ignore::aiohttp.BadContentDispositionParam")
    async def test_randomly_damaged_form_is_accepted_or_refused(
        self, server: Server, http: aiohttp.ClientSession, tmp_path: Path, seed: int
    ) -> None:
        chance = random.Random(seed)
        headers = {KEY_HEADER: KEY, "Content-Type": "multipart/form-data; boundary=b"}
        whole = self.FORM.replace(b'="file"', b'="other"') + b"x\r\n" + self.FORM + b"content\r\n--b--\r\n"
        for _ in range(500):
            damaged = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                start = chance.randrange(len(damaged))
                damaged[start : start + chance.randint(0, 10)] = chance.randbytes(chance.randint(0, 2))
            url = f"{server.url}/upload_file?destination={tmp_path}/new"
            async with http.post(url, data=bytes(damaged), headers=headers) as response:
                assert response.status in (200, 400), damaged
        assert not list(tmp_path.rglob(".handloom-*"))

    async def test_aborted_upload_leaves_no_files(
        self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun, closed = threading.Event(), threading.Event()

        class Watched(transfers.Upload):
            def write(self, data: bytes) -> None:
                super().write(data)
                begun.set()

            def close(self) -> None:
                super().close()
                closed.set()

        monkeypatch.setattr(transfers, "Upload", Watched)
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(self.head(f"/upload_file?destination={tmp_path}/new", 10**6) + self.FORM + b"x" * 600_000)
        assert await asyncio.to_thread(begun.wait, 5)
        assert (tmp_path / "new").exists()
        writer.transport.abort()
        assert await asyncio.to_thread(closed.wait, 60)
        assert list(tmp_path.iterdir()) == []

    async def test_aborted_download_closes_its_files(
        self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed = threading.Event()

        class Watched(transfers.Download):
            def close(self) -> None:
                super().close()
                closed.set()

        monkeypatch.setattr(transfers, "Download", Watched)
        (tmp_path / "large").write_bytes(os.urandom(1 << 20) * 64)
        before = set(os.listdir("/dev/fd"))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = f"GET /download_files?path={tmp_path} HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {KEY}\r\n\r\n"
        writer.write(head.encode())
        assert b" 200 " in await reader.readline()
        writer.transport.abort()
        assert await asyncio.to_thread(closed.wait, 60)
        assert set(os.listdir("/dev/fd")) <= before


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
        async with asyncio.timeout(60):  # the command takes longer
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
        async with asyncio.timeout(60):  # the command takes longer
            observation = await client.execute(CmdRunAction(command="echo usable"), 2, watcher)
        assert observation.content == "usable"


def test_usage_matches_the_kernel(tmp_path: Path) -> None:
    before = time.process_time()
    found = server_usage(str(tmp_path), 50.0)
    assert 2 * before - 0.1 <= found["cpu_percent"] <= 2 * time.process_time() + 0.1
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = found["memory"]
    for name, told in (("rss", "VmRSS"), ("vms", "VmSize")):
        said = int(status[told].split()[0]) * 1024
        assert abs(memory[name] - said) < said / 4
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert abs(memory["percent"] - 100 * memory["rss"] / total) < 0.01
    disk = shutil.disk_usage(tmp_path)
    assert found["disk"]["total"] == disk.total
    assert abs(found["disk"]["free"] - disk.free) < 2**30
    assert abs(found["disk"]["used"] - disk.used) < 2**30
    assert abs(found["disk"]["percent"] - 100 * disk.used / disk.total) < 1
    counted = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    assert found["io"].keys() == {"read_bytes", "write_bytes"}
    assert found["io"]["read_bytes"] <= int(counted["read_bytes"])
    assert found["io"]["write_bytes"] <= int(counted["write_bytes"])


def test_new_server_has_a_cpu_percentage(tmp_path: Path) -> None:
    assert server_usage(str(tmp_path), 0.0)["cpu_percent"] >= 0


CHILDREN = """
import os, subprocess
from runtime.server.app import sandbox_usage

alone = sandbox_usage()
with subprocess.Popen(["sleep", "60"]) as child:
    both = sandbox_usage()
    child.kill()
assert both["processes"] == alone["processes"] + 1
assert both["memory"] > alone["memory"]
times = os.times()
spent = times.user + times.system + times.children_user + times.children_system
assert alone["cpu_seconds"] - 0.05 <= spent <= sandbox_usage()["cpu_seconds"] + 0.5
assert alone["oom_kills"] >= 0
"""


def test_usage_includes_child_processes() -> None:
    """In a process of its own, because children of other tests may still be running here."""
    done = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
