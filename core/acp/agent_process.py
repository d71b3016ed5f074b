"""AgentProcess: the program of an external agent and its session, as a queue of its output.

The user chooses the program in the settings. It runs as the user, outside the sandbox, and Handloom cannot prevent what
it does itself. Its requests to the client (a permission, reading or writing a file) wait here for an answer. One prompt
runs at a time.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import signal
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    ReadTextFileRequest,
    RequestPermissionRequest,
    SessionNotification,
    WriteTextFileRequest,
)
from pydantic import BaseModel, ValidationError

from core.acp.json_rpc import MAX_LINE_BYTES, JsonRpcStream
from core.errors import ConfigurationError, ModelError, ModelErrorKind

log = logging.getLogger(__name__)

START_S = 60.0
"""Timeout for the handshake and a new session; some programs install themselves first."""
CANCEL_S = 10.0
"""Timeout for the end of a cancelled prompt, after which the program is ended."""
END_S = 2.0
"""Timeout for the end of a program before the next signal is sent."""
STDERR_BYTES = 2000
MAX_QUEUED = 10_000
"""Limit of queued updates while a question waits for the user; further ones are dropped."""
NOT_FOUND, INVALID_PARAMS, AUTH_REQUIRED = -32601, -32602, -32000

RequestParams = RequestPermissionRequest | ReadTextFileRequest | WriteTextFileRequest
_REQUESTS: dict[str, type[RequestParams]] = {
    "session/request_permission": RequestPermissionRequest,
    "fs/read_text_file": ReadTextFileRequest,
    "fs/write_text_file": WriteTextFileRequest,
}


@dataclass(slots=True)
class ClientRequest:
    """A request of the external agent that waits for an answer."""

    id: str
    """Our id, which the request's action has as its tool call id."""
    method: str
    params: RequestParams
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class PromptEnded:
    """The end of a prompt: the reason, or the error."""

    stop_reason: str = ""
    error: BaseException | None = None


AgentOutput = BaseModel | ClientRequest | PromptEnded
"""An update of the session, a request, or the end of a prompt."""


class AgentProcess:
    """The program of one conversation. Starts with the first prompt, and again after it died. Close it."""

    def __init__(self, command: str, folder: str, environ: Mapping[str, str]) -> None:
        """`environ` is the whole environment of the program."""
        self.command = command
        self._environ = environ
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._connection: Connection | None = None
        self._session = ""
        self._output: asyncio.Queue[AgentOutput] = asyncio.Queue()
        self._prompt: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._errors: asyncio.Task[None] | None = None
        self._stderr = b""
        self._starting = asyncio.Lock()

    @property
    def has_session(self) -> bool:
        """Whether the program runs and has the earlier prompts."""
        return self._connection is not None and self._process is not None and self._process.returncode is None

    @property
    def is_prompting(self) -> bool:
        """Whether a prompt runs."""
        return self._prompt is not None

    # -- a prompt ------------------------------------------------------------------------------------------------------

    async def prompt(self, text: str, pictures: list[str]) -> None:
        """Begin a prompt, whose output `next_output` returns. Raises ModelError, ConfigurationError."""
        await self.wait_stopped()
        connection = await self._started()
        self._output = asyncio.Queue()
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
        for url in pictures:
            kind, _comma, data = url.removeprefix("data:").partition(";base64,")
            blocks.append({"type": "image", "mimeType": kind, "data": data})
        self._prompt = asyncio.create_task(self._run(connection, blocks, self._output), name="agent prompt")

    async def next_output(self) -> AgentOutput:
        """Wait for its next output. After `PromptEnded` there is none until the next prompt."""
        output = await self._output.get()
        if isinstance(output, PromptEnded):
            self._prompt = None
        return output

    def interrupt(self) -> None:
        """Begin to cancel the prompt; the next prompt waits for its end."""
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.create_task(self._cancel(), name="agent cancel")

    async def cancel(self) -> None:
        """Cancel the prompt, and return when it has ended."""
        self.interrupt()
        await self.wait_stopped()

    async def wait_stopped(self) -> None:
        """Return when no prompt is being cancelled."""
        if self._stopping is not None:
            await asyncio.shield(self._stopping)

    async def _cancel(self) -> None:
        if self._prompt is None or self._connection is None:
            return
        with suppress(ConnectionError):
            await self._connection.send_notification("session/cancel", {"sessionId": self._session})
        try:
            async with asyncio.timeout(CANCEL_S):
                while not isinstance(output := await self.next_output(), PromptEnded):
                    if isinstance(output, ClientRequest):
                        output.answer.set_exception(RequestError(INVALID_PARAMS, "The prompt was cancelled."))
        except TimeoutError:
            log.warning("an external agent did not end its cancelled prompt and is ended")
            await self.aclose()

    async def _run(
        self, connection: Connection, blocks: list[dict[str, Any]], output: asyncio.Queue[AgentOutput]
    ) -> None:
        try:
            result = await connection.send_request("session/prompt", {"sessionId": self._session, "prompt": blocks})
            reason = result.get("stopReason") if isinstance(result, dict) else None
            output.put_nowait(PromptEnded(stop_reason=str(reason)[:40]))
        except (RequestError, OSError) as error:
            output.put_nowait(PromptEnded(error=self._failed(error)))

    # -- requests and updates ------------------------------------------------------------------------------------------

    async def _answer(self, method: str, params: Any, is_notification: bool) -> Any:
        """Handle a message of the external agent. Raises RequestError."""
        try:
            if is_notification:
                if method == "session/update" and self._output.qsize() < MAX_QUEUED:
                    self._output.put_nowait(SessionNotification.model_validate(params).update)
                return None
            if method not in _REQUESTS:
                raise RequestError(NOT_FOUND, f"This client has no method {method[:60]!a}.")
            params = _REQUESTS[method].model_validate(params)
        except ValidationError as error:
            if is_notification:
                log.warning("invalid update of an external agent: %s", error.errors(include_input=False)[0]["msg"])
                return None
            raise RequestError(INVALID_PARAMS, f"{method}: {error.errors(include_input=False)[0]['msg']}") from error
        request = ClientRequest(f"acp-{uuid.uuid4().hex[:12]}", method, params)
        self._output.put_nowait(request)
        return await request.answer

    # -- the program ---------------------------------------------------------------------------------------------------

    async def _started(self) -> Connection:
        async with self._starting:
            if self._connection is not None and self.has_session:
                return self._connection
            await self.aclose()
            try:
                async with asyncio.timeout(START_S):
                    return await self._start()
            except BaseException as error:
                await self.aclose()
                if isinstance(error, TimeoutError | RequestError | OSError):
                    raise self._failed(error) from error
                raise

    async def _start(self) -> Connection:
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ConfigurationError(
                f"agent.acp_command cannot be read: {error}. Correct it in config.toml."
            ) from error
        if not words:
            raise ConfigurationError("ACPAgent needs the command of an agent. Set agent.acp_command in config.toml.")
        pipe = asyncio.subprocess.PIPE
        self._process = process = await asyncio.create_subprocess_exec(
            *words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=self._folder,
            env=dict(self._environ),
            limit=MAX_LINE_BYTES,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._errors = asyncio.create_task(self._keep_errors(process))
        self._connection = connection = Connection(self._answer, JsonRpcStream(process.stdout, process.stdin))
        files = {"readTextFile": True, "writeTextFile": True}
        hello = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": {"fs": files, "terminal": False}}
        await connection.send_request("initialize", hello)
        made = await connection.send_request("session/new", {"cwd": self._folder, "mcpServers": []})
        self._session = str(made.get("sessionId", "")) if isinstance(made, dict) else ""
        return connection

    async def _keep_errors(self, process: asyncio.subprocess.Process) -> None:
        """Keep the end of its standard error for error messages."""
        assert process.stderr is not None
        while data := await process.stderr.read(STDERR_BYTES):
            self._stderr = (self._stderr + data)[-STDERR_BYTES:]

    def _failed(self, error: BaseException) -> ModelError:
        name = self.command[:80]
        if isinstance(error, RequestError):
            if error.code == AUTH_REQUIRED:
                text = f"The external agent needs a login: run {name!a} in a terminal once, then send a message."
                return ModelError(ModelErrorKind.AUTHENTICATION, text)
            return ModelError(ModelErrorKind.BAD_RESPONSE, f"The external agent failed: {str(error)[:1000]}")
        why = self._stderr.decode("utf-8", "replace").strip() or str(error) or "it does not answer"
        text = f"The external agent ({name!a}) failed: {why} Correct agent.acp_command, or send a message to retry."
        return ModelError(ModelErrorKind.HOST, text)

    async def aclose(self) -> None:
        """End the program. May be called twice; the next prompt starts it again."""
        connection, process, errors = self._connection, self._process, self._errors
        self._connection = self._process = self._errors = None
        if connection is not None:
            with suppress(Exception):  # whatever its requests raise while they are cancelled
                await connection.close()
        if process is not None:
            await _end(process)
        if errors is not None:
            await errors
        if self._prompt is not None:
            await asyncio.wait([self._prompt])
            self._prompt = None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a program whose input is closed; then send SIGTERM, then SIGKILL."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            if number is not None:
                process.send_signal(number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_S)
            return
