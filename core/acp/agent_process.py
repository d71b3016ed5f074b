"""The program of another agent and the session with it, as a queue of its messages and requests.

The user chooses the program in the settings. It runs as the user, outside the sandbox: Handloom is told what it does by
its own means, and cannot prevent it. Its requests to the client (a permission, reading or writing a file) wait here for
an answer. One prompt runs at a time.
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

from core.acp.json_rpc import MAX_LINE_BYTES, Wire
from core.errors import ConfigurationError, ModelError, ModelErrorKind

log = logging.getLogger(__name__)

START_S = 60.0
"""For the program to say hello and open a session; some of them install themselves first."""
CANCEL_S = 10.0
"""For a cancelled prompt to end; then the program is ended."""
END_S = 2.0
"""For a program to end before it is told harder."""
STDERR_BYTES = 2000
MAX_UNHEARD = 10_000
"""Updates that wait to be heard, while a question waits for the user; what is beyond is not told."""
NOT_FOUND, INVALID_PARAMS, AUTH_REQUIRED = -32601, -32602, -32000

Wanted = RequestPermissionRequest | ReadTextFileRequest | WriteTextFileRequest
_REQUESTS: dict[str, type[Wanted]] = {
    "session/request_permission": RequestPermissionRequest,
    "fs/read_text_file": ReadTextFileRequest,
    "fs/write_text_file": WriteTextFileRequest,
}


@dataclass(slots=True)
class Want:
    """Something that the other agent asks for and waits for."""

    id: str
    """Ours; names the action that stands for it."""
    method: str
    wanted: Wanted
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class Ended:
    """The prompt is over: why it stopped, or what went wrong."""

    stop_reason: str = ""
    error: BaseException | None = None


Heard = BaseModel | Want | Ended
"""An update of the session, a request, or the end of the prompt."""


class AgentProcess:
    """Of one conversation. Starts with the first prompt, and again after it died; `aclose` it."""

    def __init__(self, command: str, folder: str, environ: Mapping[str, str]) -> None:
        """`environ` is all that the program gets of ours."""
        self.command = command
        self._environ = environ
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._connection: Connection | None = None
        self._session = ""
        self._heard: asyncio.Queue[Heard] = asyncio.Queue()
        self._prompt: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._errors: asyncio.Task[None] | None = None
        self._stderr = b""
        self._starting = asyncio.Lock()

    @property
    def has_session(self) -> bool:
        """Whether the program runs and knows what it was prompted with so far."""
        return self._connection is not None and self._process is not None and self._process.returncode is None

    @property
    def is_prompting(self) -> bool:
        """Whether a prompt runs whose end was not heard yet."""
        return self._prompt is not None

    # -- a prompt ------------------------------------------------------------------------------------------------------

    async def prompt(self, text: str, pictures: list[str]) -> None:
        """Begin a prompt; what comes of it is heard. Raises ModelError, ConfigurationError."""
        await self.stopped()
        connection = await self._started()
        self._heard = asyncio.Queue()
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
        for url in pictures:
            kind, _comma, data = url.removeprefix("data:").partition(";base64,")
            blocks.append({"type": "image", "mimeType": kind, "data": data})
        self._prompt = asyncio.create_task(self._run(connection, blocks, self._heard), name="prompt of another agent")

    async def hear(self) -> Heard:
        """The next thing that it says or wants. After `Ended` there is nothing until the next prompt."""
        heard = await self._heard.get()
        if isinstance(heard, Ended):
            self._prompt = None
        return heard

    def interrupt(self) -> None:
        """Begin to stop the prompt that runs; what comes next waits until it is over."""
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.create_task(self._cancel(), name="cancel of another agent")

    async def cancel(self) -> None:
        """Stop the prompt that runs, and return when it is over."""
        self.interrupt()
        await self.stopped()

    async def stopped(self) -> None:
        """Return when no prompt is being stopped."""
        if self._stopping is not None:
            await asyncio.shield(self._stopping)

    async def _cancel(self) -> None:
        if self._prompt is None or self._connection is None:
            return
        with suppress(ConnectionError):
            await self._connection.send_notification("session/cancel", {"sessionId": self._session})
        try:
            async with asyncio.timeout(CANCEL_S):
                while not isinstance(heard := await self.hear(), Ended):
                    if isinstance(heard, Want):
                        heard.answer.set_exception(RequestError(INVALID_PARAMS, "The prompt was cancelled."))
        except TimeoutError:
            log.warning("another agent did not end its cancelled prompt and is ended")
            await self.aclose()

    async def _run(self, connection: Connection, blocks: list[dict[str, Any]], heard: asyncio.Queue[Heard]) -> None:
        try:
            result = await connection.send_request("session/prompt", {"sessionId": self._session, "prompt": blocks})
            reason = result.get("stopReason") if isinstance(result, dict) else None
            heard.put_nowait(Ended(stop_reason=str(reason)[:40]))
        except (RequestError, OSError) as error:
            heard.put_nowait(Ended(error=self._failed(error)))

    # -- what it calls -------------------------------------------------------------------------------------------------

    async def _answer(self, method: str, params: Any, is_notification: bool) -> Any:
        """One message of the other agent's. Raises RequestError."""
        try:
            if is_notification:
                if method == "session/update" and self._heard.qsize() < MAX_UNHEARD:
                    self._heard.put_nowait(SessionNotification.model_validate(params).update)
                return None
            if method not in _REQUESTS:
                raise RequestError(NOT_FOUND, f"This client has no method {method[:60]!a}.")
            wanted = _REQUESTS[method].model_validate(params)
        except ValidationError as error:
            if is_notification:
                log.warning("another agent's update was none: %s", error.errors(include_input=False)[0]["msg"])
                return None
            raise RequestError(INVALID_PARAMS, f"{method}: {error.errors(include_input=False)[0]['msg']}") from error
        want = Want(f"acp-{uuid.uuid4().hex[:12]}", method, wanted)
        self._heard.put_nowait(want)
        return await want.answer

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
            raise ConfigurationError(
                "ACPAgent needs the command of another agent. Set agent.acp_command in config.toml."
            )
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
        self._connection = connection = Connection(self._answer, Wire(process.stdout, process.stdin))
        files = {"readTextFile": True, "writeTextFile": True}
        hello = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": {"fs": files, "terminal": False}}
        await connection.send_request("initialize", hello)
        made = await connection.send_request("session/new", {"cwd": self._folder, "mcpServers": []})
        self._session = str(made.get("sessionId", "")) if isinstance(made, dict) else ""
        return connection

    async def _keep_errors(self, process: asyncio.subprocess.Process) -> None:
        """The end of what it writes to standard error, for the message that tells of its failure."""
        assert process.stderr is not None
        while data := await process.stderr.read(STDERR_BYTES):
            self._stderr = (self._stderr + data)[-STDERR_BYTES:]

    def _failed(self, error: BaseException) -> ModelError:
        name = self.command[:80]
        if isinstance(error, RequestError):
            if error.code == AUTH_REQUIRED:
                text = f"The other agent wants you to log in: run {name!a} in a terminal once, then send a message."
                return ModelError(ModelErrorKind.AUTHENTICATION, text)
            return ModelError(ModelErrorKind.BAD_RESPONSE, f"The other agent failed: {str(error)[:1000]}")
        why = self._stderr.decode("utf-8", "replace").strip() or str(error) or "it does not answer"
        text = (
            f"The other agent ({name!a}) cannot be used: {why} Correct agent.acp_command, or send a message to retry."
        )
        return ModelError(ModelErrorKind.HOST, text)

    async def aclose(self) -> None:
        """End the program. May be called twice; the next prompt starts it anew."""
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
    """End a program: its input is closed by now; then it is told, then it is killed."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            if number is not None:
                process.send_signal(number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_S)
            return
