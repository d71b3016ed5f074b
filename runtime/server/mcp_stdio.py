"""A stdio MCP server for as long as its client is connected: what Handloom uses itself.

`POST /mcp/stdio`: the first line of the body is the server, as in `/update_mcp_server`; all that follows goes to its
standard input. The answer is NDJSON: `{"output": LINE}` for each line of its standard output, empty lines as signs of
life, and `{"ended": REASON}` last. A server that cannot be started is refused with 400, or with 404 if there is no such
program. It ends with the request, whatever ends that, and with all that it has started. Its variables are in the body,
so no command line shows them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress

from aiohttp import web

from core.environment import inherited
from runtime.protocol import NDJSON_TYPE
from runtime.server.mcp_process import StdioProcess
from runtime.server.mcp_proxy import Definition, definition
from runtime.server.request_guard import RefusedError, first_line

SIGN_OF_LIFE_S = 15.0
"""Interval of empty lines, by which either side notices that the other one is gone."""


PROGRAM_CHARS = 200
"""How much of a program's name an error has."""


class _StdioServer(StdioProcess):
    """A server whose output is the answer to a request."""

    max_line_bytes = 1024 * 1024
    """As for a server that the client starts itself."""

    def __init__(self, one: Definition, environ: Mapping[str, str], folder: str, umask: int) -> None:
        super().__init__(one.command, environ, folder, umask)
        self._response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE})
        self._is_prepared = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Relay its input and its output until it ends or is closed."""
        assert self._life is not None
        await self._response.prepare(request)
        self._is_prepared.set()
        others = [asyncio.create_task(self._feed(request)), asyncio.create_task(self._show_life())]
        try:
            await asyncio.wait([self._life])
            with suppress(ConnectionError):
                await self._write({"ended": self._reason})
                await self._response.write_eof()
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        return self._response

    async def _take(self, line: bytes) -> None:
        await self._is_prepared.wait()
        with suppress(ConnectionError):
            await self._write({"output": line.decode("utf-8", "replace").removesuffix("\n")})

    def _on_end(self) -> None:
        """`answer` notices it."""

    async def _write(self, line: Mapping[str, str]) -> None:
        await self._response.write(json.dumps(line).encode() + b"\n")

    async def _feed(self, request: web.Request) -> None:
        """Pass the rest of the body on, as fast as the server reads it; its end is that of the input."""
        assert self._to_server is not None
        with suppress(ConnectionError):
            async for data in request.content.iter_any():
                self._to_server.write(data)
                await self._to_server.drain()
        self._to_server.close()

    async def _show_life(self) -> None:
        with suppress(ConnectionError):
            while True:
                await asyncio.sleep(SIGN_OF_LIFE_S)
                await self._response.write(b"\n")


class MCPStdio:
    """The route. `environ` is what programs of the sandbox have."""

    def __init__(self, working_dir: str, environ: Mapping[str, str], umask: int = 0o022) -> None:
        self._working_dir, self._environ, self._umask = working_dir, environ, umask
        self.table = [web.post("/mcp/stdio", self._run)]

    async def _run(self, request: web.Request) -> web.StreamResponse:
        try:
            one = definition(json.loads(await first_line(request)))
        except (ValueError, RecursionError) as error:
            raise RefusedError(400, f"the first line is not JSON: {error}") from error
        environ = inherited(self._environ) | dict(one.env)
        server = _StdioServer(one, environ, self._working_dir, self._umask)
        try:
            await server.spawn()
        except FileNotFoundError as error:
            raise RefusedError(404, f"there is no program {one.command[0][:PROGRAM_CHARS]}") from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RefusedError(400, f"{one.command[0][:PROGRAM_CHARS]} cannot be run: {reason}") from error
        try:
            return await server.answer(request)
        finally:
            await server.aclose()
