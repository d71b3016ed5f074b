"""Tunnel: a socket on this machine that leads to a socket in a container of a remote engine.

Each connection runs one program in the container that forwards bytes, and ends when either end closes, so that clients
notice a broken link.

The SDK uses blocking connections in threads. Connections that last as long as a conversation are made here, on the
event loop, with the same addresses. After `open_connection` the connection is closed and its ssh process has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from runtime.docker.engine import ssh_command

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEAD_BYTES = 8
"""Size of the header of each chunk of a program's output, with stream and length."""
STDOUT = 1
MAX_ANSWER_BYTES = 64 * 1024
PORT, TLS_PORT = 2375, 2376
CONNECT_S = 10.0


@asynccontextmanager
async def open_connection(url: str) -> AsyncIterator[Streams]:
    """Connect to the engine at an address as in DOCKER_HOST. Raises OSError."""
    parts = urlsplit(url)
    if parts.scheme == "ssh":
        async with _over_ssh(url) as streams:
            yield streams
        return
    if parts.scheme == "unix":
        streams = await asyncio.open_unix_connection(url.removeprefix("unix://"))
    else:
        tls = await asyncio.to_thread(_tls, parts.scheme)
        port = parts.port or (TLS_PORT if tls else PORT)
        async with asyncio.timeout(CONNECT_S):
            streams = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    try:
        yield streams
    finally:
        streams[1].transport.abort()


@asynccontextmanager
async def _over_ssh(url: str) -> AsyncIterator[Streams]:
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *ssh_command(url),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    try:
        streams = await asyncio.open_connection(sock=ours)
        try:
            yield streams
        finally:
            streams[1].transport.abort()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _tls(scheme: str) -> ssl.SSLContext | None:
    """Read DOCKER_TLS_VERIFY and DOCKER_CERT_PATH like other clients of the engine. Raises OSError."""
    verify = os.environ.get("DOCKER_TLS_VERIFY", "")
    folder = Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
    if scheme != "https" and not verify:
        return None
    if not verify:
        return ssl.create_default_context()
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


async def start_program(streams: Streams, version: str, container: str, command: Sequence[str]) -> None:
    """Start a program in a container. The connection becomes its input and, in chunks, its output. Raises OSError."""
    exec_config = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": False, "Tty": False, "Cmd": list(command)}
    status, content = await _post(streams, f"/v{version}/containers/{container}/exec", exec_config)
    if status != 201:
        raise OSError(f"the engine answers with status {status}: {content[:200]!r}")
    id = json.loads(content)["Id"]
    status, content = await _post(
        streams, f"/v{version}/exec/{id}/start", {"Detach": False, "Tty": False}, upgrade=True
    )
    if status not in (101, 200):
        raise OSError(f"the engine answers with status {status}: {content[:200]!r}")


async def _post(streams: Streams, path: str, body: object, *, upgrade: bool = False) -> tuple[int, bytes]:
    """Send a request and return the status and content of its answer. After an upgrade, the stream is the content."""
    reader, writer = streams
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: docker", "Content-Type: application/json", f"Content-Length: {len(data)}"]
    if upgrade:
        lines += ["Connection: Upgrade", "Upgrade: tcp"]
    writer.write("\r\n".join([*lines, "", ""]).encode() + data)
    await writer.drain()
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if upgrade and status in (101, 200):
            return status, b""
        content = await reader.readexactly(min(int(fields.get("content-length", "0")), MAX_ANSWER_BYTES))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError) as error:
        raise OSError("the engine's answer is incomplete") from error
    return status, content


async def output(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the program's output without the headers of the chunks. Raises OSError."""
    while True:
        try:
            head = await reader.readexactly(HEAD_BYTES)
        except asyncio.IncompleteReadError:
            return
        left = int.from_bytes(head[4:], "big")
        while left and (chunk := await reader.read(min(left, MAX_ANSWER_BYTES))):
            left -= len(chunk)
            if head[0] == STDOUT:
                yield chunk
        if left:
            return


CHUNK_BYTES = 64 * 1024
START_S = 20.0
"""Timeout for starting the program on a link that silently drops packets; until then no end of a client is noticed."""


class Tunnel:
    """Forwards connections to the new socket `socket` to `command` in the container, from `open` to `aclose`.

    `url` is the engine's address, `version` the version of its API, `container` the container's id.
    """

    def __init__(self, url: str, version: str, container: str, command: Sequence[str], socket: str) -> None:
        self._url = url
        self._version = version
        self._container = container
        self._command = command
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen for connections. Raises OSError."""
        self._server = await asyncio.start_unix_server(self._serve, self._socket)

    async def aclose(self) -> None:
        """End all connections. May be called twice."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            async with open_connection(self._url) as engine:
                async with asyncio.timeout(START_S):
                    await start_program(engine, self._version, self._container, self._command)
                await _relay((reader, writer), engine)
        except (OSError, asyncio.CancelledError):
            pass  # the client sees the end of its connection; only `aclose` cancels
        finally:
            self._connections.discard(task)
            writer.close()


async def _relay(client: Streams, engine: Streams) -> None:
    """Forward bytes in both directions until one side ends."""
    tasks = {asyncio.create_task(_send(client[0], engine[1])), asyncio.create_task(_receive(engine[0], client[1]))}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()


async def _receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        async for data in output(reader):
            writer.write(data)
            await writer.drain()
