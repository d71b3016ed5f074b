"""PortRoutes: the ports on which the agent's programs listen, and a tunnel to each of them for the user's browser.

`GET /ports` lists them. `POST /ports/{port}/tunnel` is one connection: the request's body goes to the program and the
response's body comes from it. Only ports of processes below this server can be reached, and only on loopback.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from aiohttp import web

from core.sandbox_types import Port
from runtime.server import processes
from runtime.server.request_guard import RefusedError

CHUNK_BYTES = 64 * 1024
CONNECT_TIMEOUT_S = 5.0
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENING = "0A"
_ADDRESSES = ("127.0.0.1", "::1")


class PortRoutes:
    """The routes."""

    def __init__(self) -> None:
        self.table = [
            web.get("/ports", self._list, allow_head=False),
            web.post(r"/ports/{port:\d{1,5}}/tunnel", self._tunnel),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(port) for port in await asyncio.to_thread(listening)])

    async def _tunnel(self, request: web.Request) -> web.StreamResponse:
        port = int(request.match_info["port"])
        if port not in {each.port for each in await asyncio.to_thread(listening)}:
            raise RefusedError(404, f"nothing listens on port {port}")
        reader, writer = await _connect(port)
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        sending: asyncio.Task[None] | None = None
        try:
            await response.prepare(request)
            sending = asyncio.create_task(_send(request, writer))
            with suppress(OSError):
                while data := await reader.read(CHUNK_BYTES):
                    await response.write(data)
            await response.write_eof()
        finally:
            if sending is not None:
                sending.cancel()
                await asyncio.wait([sending])
            writer.close()
        return response


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for address in _ADDRESSES:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await asyncio.open_connection(address, port)
    raise RefusedError(502, f"port {port} does not answer")


async def _send(request: web.Request, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        async for data in request.content.iter_any():
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def listening() -> list[Port]:
    """Return the TCP ports on which the agent's programs listen, in order, each once. Blocks."""
    ports = dict[str, int]()
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING:
                    ports[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    found = dict[int, Port]()
    for job in processes.jobs():
        for inode in _sockets(job.pid):
            if (port := ports.get(inode)) is not None and port not in found:
                found[port] = Port(port, job.pid, job.command)
    return [found[port] for port in sorted(found)]


def _sockets(pid: int) -> Iterator[str]:
    """Yield the inodes of the sockets that a process has open."""
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]
