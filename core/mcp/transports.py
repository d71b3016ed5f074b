"""Transports to servers: programs, sockets and HTTP as streams that the SDK reads, with size limits. Used in the host.

For programs this replaces the SDK's transport, which reads lines of any length. A line beyond the limit, or the end of
the output, ends the connection; the last lines of standard error become part of the reason. Nothing that the program
started in its session is left. A socket leads to a program in a conversation's sandbox, which the other side ends.

Over HTTP the SDK's transports are used. The SDK limits each event of an event stream; all other answers are limited
here and must not be compressed, so that a small one cannot become a large one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from core.mcp.catalogue import clean_line

MAX_LINE_BYTES = 1024 * 1024
"""Limit for one message of a server."""
KEPT_BYTES = 2_000
"""Size of the end of standard error that is kept as the reason for an end."""
END_S = 1.0
"""How long a program may take to end after its input is closed, and again after SIGTERM."""
LAUNCH = Path(__file__).with_name("launch.py")

Tell = Callable[[str], None]
"""Takes the reason why the connection ended, for users. The first one counts."""


class _Pipes:
    """The input and output of a program, and the tasks that read and write them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tell: Tell) -> None:
        self._reader, self._writer = reader, writer
        self._tell = tell

    async def read(self, messages: Any) -> None:
        """Forward the messages in its output, one a line. Other lines and an incomplete last line are ignored."""
        async with messages:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                try:
                    while (data := await self._reader.readline()).endswith(b"\n"):
                        if (message := _message_of(data)) is not None:
                            await messages.send(message)
                except ValueError:
                    self._tell(f"It sent more than {MAX_LINE_BYTES // 1024:,} KB at once and was killed.")
                    self._kill()
                    return
                except ConnectionError:
                    pass
                await self._tell_end()

    async def write(self, messages: Any) -> None:
        """Write messages to its input until that is closed."""
        with suppress(ConnectionError):
            async with messages:
                async for item in messages:
                    line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._writer.write(line.encode("utf-8", "replace") + b"\n")
                    await self._writer.drain()

    def _kill(self) -> None:
        """End it, because of what it has sent."""
        self._writer.close()

    async def _tell_end(self) -> None:
        """Report how it ended, as far as that is known."""
        self._tell("It closed its output.")

    async def end(self) -> None:
        """End it."""
        self._writer.close()

    @asynccontextmanager
    async def streams(self, *work: Coroutine[Any, Any, None]) -> AsyncIterator[tuple[Any, Any]]:
        """Yield its streams for the SDK, with more `work` meanwhile; it ends with the context."""
        to_session, from_server = anyio.create_memory_object_stream[Any](0)
        to_server, from_session = anyio.create_memory_object_stream[Any](0)
        tasks = [asyncio.create_task(one) for one in (self.read(to_session), self.write(from_session), *work)]
        try:
            yield from_server, to_server
        finally:
            with anyio.CancelScope(shield=True):
                for stream in (from_server, to_server):
                    await stream.aclose()
                await self.end()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


class _Program(_Pipes):
    """A running program."""

    def __init__(self, process: asyncio.subprocess.Process, tell: Tell) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        super().__init__(process.stdout, process.stdin, tell)
        self.process = process
        self._stderr = b""

    def _kill(self) -> None:
        kill(self.process)

    async def _tell_end(self) -> None:
        status = None
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                status = await self.process.wait()
        how = "It closed its output" if status is None else f"It ended with status {status}"
        errors = clean_line(self._stderr.decode("utf-8", "replace")[-300:], 300)
        self._tell(f"{how}; its last output: {errors}" if errors else f"{how}.")

    async def listen(self) -> None:
        """Keep the end of its standard error."""
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(4096):
            self._stderr = (self._stderr + data)[-KEPT_BYTES:]

    async def end(self) -> None:
        """End the program: close its input, then send SIGTERM, then SIGKILL."""
        self._writer.close()
        for number in (None, signal.SIGTERM):
            if number is not None:
                kill(self.process, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await self.process.wait()
                break
        kill(self.process)  # what it started and left behind as well


@asynccontextmanager
async def program(
    command: Sequence[str], environ: Mapping[str, str], folder: str, tell: Tell
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a program and yield its streams; it ends with the context. Raises OSError."""
    path = shutil.which(command[0], path=environ.get("PATH"))
    if path is None and os.sep in command[0]:
        path = str(Path(folder) / command[0])
    if path is None:
        raise FileNotFoundError(f"there is no program {command[0]}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(LAUNCH), path, *command[1:]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=dict(environ),
        limit=MAX_LINE_BYTES,
        start_new_session=True,
    )
    one = _Program(process, tell)
    async with one.streams(one.listen()) as streams:
        yield streams


@asynccontextmanager
async def socket(path: str, tell: Tell) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to a socket that is a program's input and output, and yield its streams. Raises OSError."""
    reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
    async with _Pipes(reader, writer, tell).streams() as streams:
        yield streams


def kill(process: asyncio.subprocess.Process, number: int = signal.SIGKILL) -> None:
    """Send a signal to the program and its session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _message_of(data: bytes) -> SessionMessage | None:
    """Parse the message in a line; None if it contains none, such as a log line."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except (ValueError, RecursionError):
        return None


CONNECT_S = 10.0
READ_S = 300.0
"""How long an event stream may be silent; calls have their own timeouts."""


class _Bounded(httpx2.AsyncByteStream):
    """A response body that fails beyond the size limit."""

    def __init__(self, body: Any) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_LINE_BYTES
        async for data in self._body:
            left -= len(data)
            if left < 0:
                raise httpx2.ReadError(f"its answer is larger than {MAX_LINE_BYTES // 1024:,} KB")
            yield data

    async def aclose(self) -> None:
        await self._body.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Wrap the body of a response with the size limit before it is read."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.ReadError("its answer is compressed although that was not requested")
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Bounded(response.stream)


def _client(headers: Mapping[str, str] | None = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        timeout=timeout or httpx2.Timeout(CONNECT_S, read=READ_S),
        auth=auth,
        event_hooks={"response": [_bound]},
        follow_redirects=False,
    )


@asynccontextmanager
async def address(url: str, transport: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams to a server at an address. Raises the errors of httpx2."""
    if transport == "sse":
        async with sse_client(
            url, headers=dict(headers), timeout=CONNECT_S, sse_read_timeout=READ_S, httpx_client_factory=_client
        ) as streams:
            yield streams
        return
    async with _client(headers) as client, streamable_http_client(url, http_client=client) as streams:
        yield streams
