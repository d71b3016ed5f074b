"""MCP servers that run in the sandbox: their processes, and requests to them by their standard input and output.

`StdioProcess` is a program whose lines of output somebody takes. It ends with all that it has started. `MCPProcess`
speaks to it: messages are JSON-RPC, one a line. Lines that are no message are ignored. Requests of the server are
refused, except pings.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from runtime.server import processes

Message = dict[str, Any]

START_S = 30.0
"""How long a server may take until its tools are listed; V0's client waits 60 s for all of them."""
END_S = 1.0
"""How long a server may take to end after its input is closed."""
MAX_PAGES = 20
"""Page limit of a listing, for servers whose pages never end."""
KEPT_BYTES = 2_000
"""Size of the end of standard error that is kept as the reason for an end."""
VERSION = "2025-06-18"
"""The version of MCP that is asked for."""
NO_SUCH_METHOD, INTERNAL_ERROR = -32601, -32603


class MCPError(Exception):
    """An error of JSON-RPC: a request that a server has refused or could not answer."""

    def __init__(self, message: str, code: int = INTERNAL_ERROR, data: Any = None) -> None:
        super().__init__(message)
        self.error: Message = {"code": code, "message": message} | ({} if data is None else {"data": data})


class StdioProcess(ABC):
    """A program. `spawn` it once, and `aclose` it in the end."""

    max_line_bytes = 8 * 1024 * 1024
    """A program with a longer line is killed."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], folder: str, umask: int) -> None:
        self._command, self._environ, self._folder, self._umask = command, environ, folder, umask
        self._process: subprocess.Popen[bytes] | None = None
        self._to_server: asyncio.StreamWriter | None = None
        self._life: asyncio.Task[None] | None = None
        self._errors = b""
        self._reason = ""

    @property
    def runs(self) -> bool:
        """Whether it has started and not ended."""
        return self._life is not None and not self._life.done() and not self._reason

    @abstractmethod
    async def _take(self, line: bytes) -> None:
        """Take one line of its output; the next one is read afterwards."""

    @abstractmethod
    def _on_end(self) -> None:
        """It has ended, for `_reason`."""

    async def spawn(self) -> None:
        """Start the process, and read what it says. Raises OSError, ValueError."""
        process = self._process = self._popen()
        processes.own_processes.add(self._members)
        ended = asyncio.create_task(processes.wait_for_exit(process))  # at once, or the reaper takes the exit status
        loop = asyncio.get_running_loop()
        assert process.stdin is not None
        self._life = asyncio.create_task(self._live(process, ended))
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
        )
        self._to_server = asyncio.StreamWriter(transport, protocol, None, loop)

    async def aclose(self) -> None:
        """End it, and what it has started. May be called twice."""
        if self._process is None or self._life is None:
            return
        if self._to_server is not None:
            self._to_server.close()
        await asyncio.wait([self._life], timeout=END_S)
        await asyncio.to_thread(lambda: processes.kill_all(self._members()))
        await asyncio.wait([self._life])

    def _popen(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env=dict(self._environ),
            start_new_session=True,
            umask=self._umask,
        )

    async def _live(self, process: subprocess.Popen[bytes], ended: asyncio.Task[int]) -> None:
        """Read its messages until it ends, then end what it has left behind."""
        assert process.stdout is not None
        assert process.stderr is not None
        loop = asyncio.get_running_loop()
        output, errors = asyncio.StreamReader(limit=self.max_line_bytes), asyncio.StreamReader()
        pipes = [
            (await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(output), process.stdout))[0],
            (await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), process.stderr))[0],
        ]
        reading, listening = asyncio.create_task(self._read(output)), asyncio.create_task(self._listen(errors))
        try:
            await asyncio.wait([reading, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await asyncio.wait([ended], timeout=END_S)
            await asyncio.to_thread(lambda: processes.kill_all(self._members()))
            status = await ended
            await asyncio.wait(
                [reading, listening], timeout=END_S
            )  # a process that left its session may keep them open
            self._reason = self._reason or self._end_text(status)
            for task in (reading, listening):
                task.cancel()
            for pipe in pipes:
                pipe.close()
            if self._to_server is not None:
                self._to_server.close()
            processes.own_processes.discard(self._members)
            self._on_end()

    async def _read(self, output: asyncio.StreamReader) -> None:
        try:
            while line := await output.readline():
                await self._take(line)
        except ValueError:
            self._reason = f"It sent more than {self.max_line_bytes // 1024:,} KB at once and was killed."

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(4096):
            self._errors = (self._errors + data)[-KEPT_BYTES:]

    def _end_text(self, status: int) -> str:
        last = " ".join(self._errors.decode("utf-8", "replace")[-300:].split())
        return f"It ended with status {status}; its last output: {last}" if last else f"It ended with status {status}."

    def _members(self) -> set[int]:
        """The processes of the server: its session, and all below it."""
        if self._process is None:
            return set()
        return processes.session_members(self._process.pid) | processes.descendants(self._process.pid)


class MCPProcess(StdioProcess):
    """A server whose tools are listed and called here. `start` it once, and `aclose` it in the end."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], folder: str, umask: int) -> None:
        super().__init__(command, environ, folder, umask)
        self.tools: list[Message] = []
        """As the server lists them."""
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._numbers = itertools.count(1)

    async def start(self) -> None:
        """Start it and list its tools. Raises MCPError."""
        try:
            async with asyncio.timeout(START_S):
                await self._spawn()
                client = {"name": "handloom-server", "version": "1"}
                hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
                offers = (await self.request("initialize", hello)).get("capabilities")
                self._send({"method": "notifications/initialized"})
                if isinstance(offers, dict) and "tools" in offers:
                    self.tools = await self._list()
        except TimeoutError:
            raise MCPError(f"It was not ready within {START_S:g} s.") from None

    async def request(self, method: str, params: Message) -> Message:
        """Send a request and return its result. Raises MCPError. Cancelling cancels it in the server."""
        if not self.runs:
            raise MCPError(self._reason or "It does not run.")
        number = next(self._numbers)
        self._answers[number] = answer = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, "params": params})
            message = await answer
        except asyncio.CancelledError:
            self._send({"method": "notifications/cancelled", "params": {"requestId": number}})
            raise
        finally:
            del self._answers[number]
        return _result_of(message)

    async def _list(self) -> list[Message]:
        tools: list[Message] = []
        params: Message = {}
        for _ in range(MAX_PAGES):
            page = await self.request("tools/list", params)
            found = page.get("tools")
            if not isinstance(found, list):
                raise MCPError("Its list of tools is invalid.")
            tools += [tool for tool in found if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
            if not isinstance(cursor := page.get("nextCursor"), str):
                break
            params = {"cursor": cursor}
        return tools

    async def _spawn(self) -> None:
        try:
            await self.spawn()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise MCPError(f"It cannot be started: {reason}.") from error

    def _on_end(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(MCPError(self._reason))

    async def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        number = message.get("id")
        if "method" in message:
            if number is not None:
                refusal = {"error": {"code": NO_SUCH_METHOD, "message": "The client does not support this."}}
                self._send({"id": number, **({"result": {}} if message["method"] == "ping" else refusal)})
        elif type(number) is int and (answer := self._answers.get(number)) is not None and not answer.done():
            answer.set_result(message)

    def _send(self, message: Message) -> None:
        if self._to_server is not None and not self._to_server.is_closing():
            with suppress(RuntimeError):
                self._to_server.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _result_of(message: Message) -> Message:
    """Return the result in an answer. Raises MCPError."""
    if isinstance(error := message.get("error"), dict):
        code = error.get("code")
        text = str(error.get("message", ""))
        raise MCPError(text, code if type(code) is int else INTERNAL_ERROR, error.get("data"))
    if not isinstance(result := message.get("result"), dict):
        raise MCPError("Its answer is invalid.")
    return result
