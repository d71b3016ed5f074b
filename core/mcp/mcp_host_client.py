"""MCPHost: the MCP host's process, started when a server is needed and restarted after it has died.

Unrequested lines about servers go to `on_line`; answers go to the caller of `ask`. When the host dies, all pending
requests fail and `on_end` is called. The SDK is never imported here.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from core.environment import inherited
from core.interpreter import start_command
from core.llm.host_protocol import Line, decode, encode

MAX_LINE_BYTES = 8 * 1024 * 1024
"""The same limit as in the host."""
PING_S = 2.0
"""Interval of pings while a request is pending."""
HUNG_S = 5.0
"""A host that is silent for this time hangs, even on a busy machine."""
END_S = 4.0
"""How long the host may take to end with its servers."""


class ServerError(Exception):
    """A request to a server failed; the text says why, for users and models."""


class MCPHost:
    """A connection to the host's process. Close it with `aclose`."""

    def __init__(self, on_line: Callable[[Line], None], on_end: Callable[[], None], environ: Mapping[str, str]) -> None:
        self._on_line, self._on_end = on_line, on_end
        self._environ = inherited(environ)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asked: dict[int, asyncio.Future[Line]] = {}
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()
        self._is_closing = False

    @property
    def pid(self) -> int | None:
        """The process id while the host runs."""
        running = self._process is not None and self._reading is not None and not self._reading.done()
        return self._process.pid if running and self._process else None

    async def tell(self, order: Line) -> None:
        """Send an order without an answer. Raises ServerError if there is no host."""
        process = await self._running()
        assert process.stdin is not None
        process.stdin.write(encode(order))
        with suppress(ConnectionError):  # its end is noticed where it is read
            await process.stdin.drain()

    async def ask(self, order: Line) -> Line:
        """Send an order and return its answer. The host enforces timeouts. Raises ServerError.

        Cancelling returns immediately, and cancels the order in the host and in the server.
        """
        number = next(self._numbers)
        answer: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            await self.tell({**order, "id": number})
            is_ping = order["type"] == "ping"
            while not (await asyncio.wait({answer}, timeout=HUNG_S if is_ping else PING_S))[0]:
                if is_ping:
                    self._kill()
                    raise ServerError("The MCP host stopped responding and is restarting.")
                await self.ask({"type": "ping"})
            line = answer.result()
        except asyncio.CancelledError:
            if self.pid is not None and self._process and self._process.stdin:
                self._process.stdin.write(encode({"type": "cancel", "id": number}))
            raise
        finally:
            del self._asked[number]
        if line.get("type") == "error":
            raise ServerError(str(line.get("message", "")))
        return line

    async def aclose(self) -> None:
        """End the host with all its servers. May be called twice."""
        self._is_closing = True
        async with self._starting:
            process, reading = self._process, self._reading
            if process is None or reading is None:
                return
            assert process.stdin is not None
            process.stdin.close()
            try:
                async with asyncio.timeout(END_S):
                    await process.wait()
            except TimeoutError:
                self._kill()
                await process.wait()
            await reading
            with suppress(ConnectionError):
                await process.stdin.wait_closed()
            self._process = self._reading = None

    async def _running(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._is_closing:
                raise ServerError("Handloom is shutting down.")
            if self.pid is None:
                if self._process is not None:
                    await self._process.wait()
                self._process = await self._start()
                self._reading = asyncio.create_task(self._read(self._process), name="MCP host")
            assert self._process is not None
            return self._process

    async def _start(self) -> asyncio.subprocess.Process:
        """Start the process like the model host: from this installation, in a new session, without any API keys."""
        try:
            return await asyncio.create_subprocess_exec(
                *start_command("core.mcp.mcp_host"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=Path(__file__).parents[2],
                env=self._environ,
                limit=MAX_LINE_BYTES + 1,
                start_new_session=True,
            )
        except OSError as error:
            raise ServerError(
                f"The MCP host cannot be started: {error}. Close other programs, and try again."
            ) from error

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while data := await process.stdout.readline():
                self._take(decode(data))
        except ValueError:  # a line beyond the limit: the host is not to be trusted any more
            self._kill()
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(ServerError("The MCP host exited and is restarting."))
            if not self._is_closing:
                self._on_end()

    def _take(self, line: Line) -> None:
        if line.get("type") in ("offers", "failed", "newer"):
            self._on_line(line)
        elif (answer := self._asked.get(line.get("id", 0))) is not None and not answer.done():
            answer.set_result(line)

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
