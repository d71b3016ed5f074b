"""The MCP host: a child process that contains the SDK and connects to all servers.

`python -m core.mcp.mcp_host` reads lines from standard input and answers on standard output, as the model host does:

    to the host
    {"type": "connect", "key": ..., "transport": ..., ...}     connect a server; again, to reconnect
    {"type": "disconnect", "key": ...}                         end it; no more lines about it
    {"type": "call" | "resources" | "read" | "prompts" | "prompt", "id": 7, "key": ..., ...}
    {"type": "cancel", "id": 7}                                cancels a request, in the server too
    {"type": "ping", "id": 8}

    from the host
    {"type": "offers", "key": ..., "tools": [...], ...}        it is ready, or its offers have changed
    {"type": "failed", "key": ..., "reason": ...}              it could not be connected, or has ended
    {"type": "newer", "key": ...}                              connect again, with "mode": "auto"
    {"type": "done", "id": 7, ...} | {"type": "error", "id": 7, "message": ...} | {"type": "pong", "id": 8}

It ends with its input and then ends all servers. Its memory is limited. It only knows API keys that a `connect`
contains, and writes no log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
from typing import BinaryIO

from core.llm.host_protocol import Line, decode, encode

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Limit for a line between Handloom and the host: several times the limit for a server's message."""
MAX_MEMORY_BYTES = 1024 * 1024 * 1024
"""Memory limit of the host itself; servers are not limited by it."""
END_S = 3.0
"""How long servers may take to end when the host ends."""


def main() -> None:
    """Serve until standard input ends."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # standard output only carries lines, whatever a library prints
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(_Host(output).serve())
    finally:
        os._exit(0)


class _Host:
    """The host: one task for each server, and one for each request."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        from core.mcp.connection import Connection  # the SDK, which takes a second to load

        self._make = Connection
        self._connections: dict[str, tuple[Connection, asyncio.Task[None]]] = {}
        self._asked: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Handle lines until the input ends, then end all servers."""
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while data := await reader.readline():
            self._take(decode(data))
        for key in list(self._connections):
            self._disconnect(key)
        if self._ending:
            await asyncio.wait(self._ending, timeout=END_S)

    def _take(self, line: Line) -> None:
        number, key = line.get("id", 0), line.get("key", "")
        match line.get("type"):
            case "connect":
                self._disconnect(key)
                connection = self._make(line, lambda line: self._send_of(connection, line))
                self._connections[key] = (connection, asyncio.create_task(connection.run()))
            case "disconnect":
                self._disconnect(key)
            case "cancel" if number in self._asked:
                self._asked[number].cancel()
            case "ping":
                self._send({"type": "pong", "id": number})
            case "call" | "resources" | "read" | "prompts" | "prompt":
                self._asked[number] = task = asyncio.create_task(self._answer(line))
                task.add_done_callback(lambda _: self._asked.pop(number, None))

    def _disconnect(self, key: str) -> None:
        if key in self._connections:
            _, task = self._connections.pop(key)
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _answer(self, order: Line) -> None:
        """Carry out a request and answer it. Does not answer a cancelled one."""
        number, key = order["id"], order.get("key", "")
        try:
            if key not in self._connections:
                self._send({"type": "error", "id": number, "message": "It is not connected."})
                return
            answer = await self._connections[key][0].answer(order)
            self._send({"type": "done", "id": number, **answer})
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001  # boundary to servers: every exception becomes a line
            self._send({"type": "error", "id": number, "message": str(error)})

    def _send_of(self, connection: object, line: Line) -> None:
        """Send a line about a server, unless this connection was replaced."""
        if self._connections.get(line["key"], (None, None))[0] is connection:
            self._send(line)

    def _send(self, line: Line) -> None:
        data = encode(line)
        if len(data) > MAX_LINE_BYTES:
            data = encode({"type": "error", "id": line.get("id", 0), "message": "The answer is too large."})
        self._output.write(data)
        self._output.flush()


if __name__ == "__main__":
    main()
