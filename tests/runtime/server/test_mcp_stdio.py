"""An MCP server that runs in the sandbox as long as its client is connected."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from core.errors import RuntimeUnavailableError, UsageError
from core.sandbox_types import Streams
from runtime.client import ActionExecutionClient
from runtime.local.local_runtime import LocalRuntime
from runtime.protocol import KEY_HEADER
from runtime.server import request_guard
from tests.runtime.action_server import KEY, Process, Server
from tests.runtime.conftest import WITHIN_S, has_ended

ECHO = "import os, sys; print(os.getpid(), flush=True)\nfor line in sys.stdin: print('said', line, end='', flush=True)"


def python(script: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script]


class Link:
    """What the client's program would be connected with: this side writes and reads lines."""

    def __init__(self) -> None:
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self._writers: list[asyncio.StreamWriter] = []
        self.is_connected = asyncio.Event()

    async def connect(self) -> Streams:
        ours, theirs = socket.socketpair()
        self.reader, self.writer = await asyncio.open_connection(sock=ours)
        reader, writer = await asyncio.open_connection(sock=theirs)
        self._writers = [self.writer, writer]
        self.is_connected.set()
        return reader, writer

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    async def line(self) -> str:
        async with asyncio.timeout(WITHIN_S):
            return (await self.reader.readline()).decode().removesuffix("\n")

    def say(self, line: str) -> None:
        self.writer.write(line.encode() + b"\n")


@asynccontextmanager
async def running(
    client: ActionExecutionClient, script: str = ECHO, **environ: str
) -> AsyncIterator[tuple[Link, asyncio.Task[str]]]:
    """A server by this script, connected."""
    link = Link()
    task = asyncio.create_task(client.run_server(python(script), environ, link.connect))
    connected = asyncio.create_task(link.is_connected.wait())
    await asyncio.wait({task, connected}, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
    connected.cancel()
    try:
        yield link, task
    finally:
        task.cancel()
        await asyncio.wait([task])
        link.close()


async def test_input_and_output_are_relayed_and_its_end_is_told(client: ActionExecutionClient) -> None:
    async with running(client, f"{ECHO}\nprint('no such thing', file=sys.stderr); sys.exit(3)") as (link, task):
        pid = int(await link.line())
        link.say("one")
        link.say("two ü")
        assert [await link.line(), await link.line()] == ["said one", "said two ü"]
        link.writer.write_eof()
        assert await task == "It ended with status 3; its last output: no such thing"
        assert has_ended(pid)


async def test_it_has_its_own_variables_and_they_are_on_no_command_line(client: ActionExecutionClient) -> None:
    script = "import os; print(sorted(os.environ)); print(os.environ['TOKEN']); input()"
    async with running(client, script, TOKEN="canary-1234") as (link, _):
        names = await link.line()
        assert await link.line() == "canary-1234"
        assert "TOKEN" in names
        assert "PATH" in names
        assert "PYTEST_CURRENT_TEST" not in names
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _is_readable(path)]
        assert not any(b"canary-1234" in command for command in commands)


def _is_readable(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


async def test_it_ends_with_its_client_and_with_what_it_has_started(client: ActionExecutionClient) -> None:
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '3600'], start_new_session=True)\n"
        "print(child.pid, flush=True)\nsys.stdin.read()\nsys.stdin.close()\nimport time; time.sleep(3600)"
    )
    async with running(client, script) as (link, _):
        child = int(await link.line())
    assert await asyncio.to_thread(has_ended, child)


async def test_it_ends_if_it_cannot_be_connected(client: ActionExecutionClient, tmp_path: Path) -> None:
    """Cancelled, or failed, while its streams are being opened."""
    script = f"import os, pathlib; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid())); input()"
    begun = asyncio.Event()

    async def never() -> Streams:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def fails() -> Streams:
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        raise ValueError("no streams")

    async with asyncio.timeout(WITHIN_S):
        waiting = asyncio.create_task(client.run_server(python(script), {}, never))
        await begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        (tmp_path / "pid").unlink(missing_ok=True)
        with pytest.raises(ValueError, match="no streams"):
            await client.run_server(python(script), {}, fails)
    assert await asyncio.to_thread(has_ended, int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("length", [1024 * 1024 - 100, 3 * 1024 * 1024])
async def test_long_lines_are_bounded(client: ActionExecutionClient, length: int) -> None:
    async with running(client, f"print('x' * {length}, flush=True); input()") as (link, task):
        link.reader._limit = 2**22  # type: ignore[attr-defined]  # the reader of this test
        if length < 1024 * 1024:
            assert len(await link.line()) == length
            assert not task.done()
        else:
            assert await task == "It sent more than 1,024 KB at once and was killed."


async def test_a_server_that_is_not_read_waits(client: ActionExecutionClient, tmp_path: Path) -> None:
    """Its output is bounded by the buffers between it and its reader."""
    script = (
        "import itertools, pathlib\n"
        "for number in itertools.count():\n"
        "    print('x' * 100_000, flush=True)\n"
        f"    pathlib.Path({str(tmp_path / 'count')!r}).write_text(str(number))"
    )
    async with running(client, script) as (_, task):
        before, now = "", "0"
        while before != now:
            await asyncio.sleep(1.0)  # nothing tells that a program waits
            before, now = now, (tmp_path / "count").read_text()
        assert int(now) < 200
        assert not task.done()


async def test_a_missing_program_is_named(client: ActionExecutionClient) -> None:
    with pytest.raises(LookupError, match=r"^there is no program npx-no-such$"):
        await client.run_server(["npx-no-such", "-y"], {}, Link().connect)


async def test_a_program_that_cannot_be_run_is_reported(client: ActionExecutionClient, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    with pytest.raises(UsageError, match="text cannot be run: Permission denied"):
        await client.run_server([str(tmp_path / "text")], {}, Link().connect)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]\n", 400), (b'{"name": "a"}\n', 400), (b"x" * 600_000, 413), (b"[" * 100_000 + b"\n", 400)],
    ids=["cut off", "no object", "no command", "too long", "too deep"],
)
async def test_an_invalid_first_line_is_refused(
    server: Server, http: aiohttp.ClientSession, body: bytes, status: int
) -> None:
    async with http.post(f"{server.url}/mcp/stdio", data=body, headers={KEY_HEADER: KEY}) as response:
        assert response.status == status


async def test_a_first_line_that_does_not_come_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_guard, "BODY_TIMEOUT_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"POST /mcp/stdio HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {KEY}\r\n".encode())
    writer.write(b"Content-Length: 1000\r\n\r\n{")
    assert b" 408 " in await reader.readline()
    writer.close()


async def test_it_ends_when_its_client_is_killed(process: Process) -> None:
    """The client is a process that dies without a word; the action server goes on."""
    process.start()
    await asyncio.to_thread(process.ready)
    order = {
        "name": "s",
        "command": sys.executable,
        "args": ["-c", "import os; print(os.getpid(), flush=True); input()"],
    }
    reader, writer = await asyncio.open_unix_connection(str(process.socket))
    line = json.dumps(order).encode() + b"\n"
    writer.write(f"POST /mcp/stdio HTTP/1.1\r\nHost: localhost\r\n{KEY_HEADER}: {KEY}\r\n".encode())
    writer.write(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(line), line))
    await reader.readuntil(b'{"output": "')
    pid = int((await reader.readuntil(b'"'))[:-1])
    writer.transport.abort()
    assert await asyncio.to_thread(has_ended, pid)
    assert await process.run("echo goes on") == "goes on"


class TestRuntime:
    """`run_server` of a runtime: it waits for the sandbox, and for the next one."""

    async def test_it_waits_for_the_sandbox_and_for_the_next_one(self, local: LocalRuntime) -> None:
        link = Link()
        first = asyncio.create_task(local.run_server(python(ECHO), {}, (), link.connect))
        pid = int(await _first_line(link))
        await local.aclose()
        with pytest.raises(RuntimeUnavailableError):
            await first
        assert has_ended(pid)
        link.close()
        link = Link()
        second = asyncio.create_task(local.run_server(python(ECHO), {}, (), link.connect))
        await local.start()
        assert int(await _first_line(link)) != pid
        second.cancel()
        await asyncio.wait([second])
        link.close()

    async def test_a_sandbox_that_cannot_start_is_reported(self, tmp_path: Path) -> None:
        runtime = LocalRuntime(tmp_path / "missing")
        waiting = asyncio.create_task(runtime.run_server(python(ECHO), {}, (), Link().connect))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeUnavailableError, match="not a folder"):
            await runtime.start()
        with pytest.raises(RuntimeUnavailableError, match="could not be started"):
            await waiting

    async def test_a_missing_program_is_reported_with_what_to_do(self, local: LocalRuntime) -> None:
        with pytest.raises(UsageError, match=r"^In the sandbox there is no program npx-no-such\. .*sandbox = false"):
            await local.run_server(["npx-no-such"], {}, (), Link().connect)


async def _first_line(link: Link) -> str:
    async with asyncio.timeout(WITHIN_S):
        await link.is_connected.wait()
    return await link.line()
