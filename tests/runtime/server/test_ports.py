"""Ports of the sandbox: which are listed, and tunnels to them."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from core.errors import RuntimeUnavailableError
from runtime.server.ports import PortRoutes
from tests.runtime.isolation.confined import isolated, own, run

ECHO = """
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
        self.request.sendall(b"end")
socketserver.ThreadingTCPServer.allow_reuse_address = True
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
SAYS_BYE = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
connection.sendall(b"bye")
connection.close()
input()
"""
SIZE = 3 * 1024**2


async def echo(port: int, data: bytes) -> bytes:
    """Send all, end the sending side, and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.create_task(send(writer, data))
    received = await reader.read(-1)
    await sending
    writer.close()
    return received


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
    writer.write_eof()


@pytest.mark.bubblewrap
async def test_port_in_the_sandbox_is_listed_and_reached_from_outside(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "echo.py").write_text(ECHO)
    own(workspace)
    with socket.create_server(("127.0.0.1", 0)) as of_the_host:
        async with isolated(workspace) as runtime:
            assert await runtime.ports() == []
            told = await run(runtime, "mkfifo p; python3 echo.py >p & read n <p; echo $n")
            inside = int(told.content.split()[0])
            (listed,) = await runtime.ports()
            assert (listed.port, listed.command) == (inside, "python3 echo.py")
            here = await runtime.forward_port(inside)
            assert await runtime.forward_port(inside) == here
            async with asyncio.timeout(30):
                answers = await asyncio.gather(*(echo(here, bytes([n]) * SIZE) for n in range(8)))
            assert answers == [bytes([n]) * SIZE + b"end" for n in range(8)]
            foreign = await runtime.forward_port(of_the_host.getsockname()[1])
            assert foreign != of_the_host.getsockname()[1], "taken here"
            assert await echo(foreign, b"x") == b""
            idle = asyncio.create_task(echo(here, b""))
            await idle
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection("127.0.0.1", here)
        with pytest.raises(RuntimeUnavailableError):
            await runtime.forward_port(inside)


@pytest.mark.bubblewrap
async def test_web_server_of_the_agent_is_opened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "index.html").write_text("<h1>built here</h1>")
    own(workspace)
    async with isolated(workspace) as runtime:
        await run(runtime, "python3 -m http.server --bind 127.0.0.1 8123 >/dev/null 2>&1 &")
        async with asyncio.timeout(20):
            while not await runtime.ports():
                await asyncio.sleep(0.05)
        here = await runtime.forward_port(8123)
        async with aiohttp.ClientSession() as http:
            for _ in range(3):
                async with http.get(f"http://127.0.0.1:{here}/") as answer:
                    assert await answer.text() == "<h1>built here</h1>"
        kept_open = await asyncio.open_connection("127.0.0.1", here)
        kept_open[1].write(b"GET / HTTP/1.1\r\n")
        async with asyncio.timeout(20):
            while not runtime._tunnels:
                await asyncio.sleep(0.01)
    assert not runtime._tunnels
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []
    assert await kept_open[0].read() == b""
    kept_open[1].close()


async def test_tunnel_ends_as_soon_as_the_program_hangs_up() -> None:
    async def unfinished() -> AsyncIterator[bytes]:
        yield b"x"
        await has_more.wait()

    has_more = asyncio.Event()
    app = web.Application()
    app.add_routes(PortRoutes().table)
    runner = web.AppRunner(app, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", SAYS_BYE, stdin=PIPE, stdout=PIPE)
    try:
        assert program.stdout is not None
        port = int(await program.stdout.readline())
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/ports/{port}/tunnel"
        async with aiohttp.ClientSession() as client, client.post(url, data=unfinished()) as answer:
            assert await answer.read() == b"bye"
            await asyncio.sleep(0)
            left = [task for task in asyncio.all_tasks() if "coroutine object _send " in repr(task.get_coro())]
            assert left == [], "nobody reads what the user goes on sending"
            has_more.set()
    finally:
        program.kill()
        await program.wait()
        await runner.cleanup()
