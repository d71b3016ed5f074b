"""A client of `handloom acp`: the official library drives the program as a child process.

It records updates, answers questions as the test says, and lets tests wait for a state. `Raw` sends JSON without the
library, for messages that the library would not send.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import acp
from acp.client.connection import ClientSideConnection
from acp.schema import RequestPermissionResponse

from tests.program import HANDLOOM, Handloom

WAIT_S = 60.0
LINE_BYTES = 64 * 1024 * 1024
Update = dict[str, Any]
Choose = Callable[[Update], str | None]
"""The option that a question is answered with; None never answers."""


class Editor:
    """What an editor knows of its sessions."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.updates: list[tuple[str, Update]] = []
        self.asked: list[Update] = []
        self.connection: ClientSideConnection
        self.process: asyncio.subprocess.Process
        self._changed = asyncio.Condition()

    # -- called by the library -----------------------------------------------------------------------------------------

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, _plain(update)))
        await self._tell()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append({**_plain(tool_call), "options": [_plain(option) for option in options]})
        await self._tell()
        chosen = self.choose(self.asked[-1])
        if chosen is None:
            await asyncio.Event().wait()
        if chosen == "cancelled":
            return RequestPermissionResponse.model_validate({"outcome": {"outcome": "cancelled"}})
        return RequestPermissionResponse.model_validate({"outcome": {"outcome": "selected", "optionId": chosen}})

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # -- what tests ask ------------------------------------------------------------------------------------------------

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until `is_so` holds for the recorded updates."""
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(is_so)

    async def open(self, handloom: Handloom) -> str:
        """A session in the workspace; its id."""
        return (await self.connection.new_session(cwd=str(handloom.workspace), mcp_servers=[])).session_id

    async def prompt(self, session: str, *blocks: Any) -> str:
        """Send a prompt and return its stop reason. Texts may be given as strings."""
        content = [acp.text_block(block) if isinstance(block, str) else block for block in blocks]
        async with asyncio.timeout(WAIT_S):
            return (await self.connection.prompt(session_id=session, prompt=content)).stop_reason

    async def close(self, session: str) -> None:
        """Close a session; the library has this method behind a flag."""
        await self.connection._conn.send_request("session/close", {"sessionId": session})

    def of(self, kind: str, session: str = "") -> list[Update]:
        """The updates of one kind."""
        return [u for id, u in self.updates if u["sessionUpdate"] == kind and session in ("", id)]

    def said(self, kind: str = "agent_message_chunk", session: str = "") -> str:
        """The text of all message chunks."""
        return "".join(update["content"].get("text", "") for update in self.of(kind, session))

    def calls(self, session: str = "") -> dict[str, Update]:
        """The tool calls, each with all of its updates merged."""
        found: dict[str, Update] = {}
        for id, update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update") and session in ("", id):
                found.setdefault(update["toolCallId"], {}).update(update)
        return found


def text_of(call: Update) -> str:
    """The text of a tool call."""
    return "\n".join(c["content"]["text"] for c in call.get("content", []) if c["type"] == "content")


@asynccontextmanager
async def editing(handloom: Handloom, model: str, choose: Choose = lambda asked: "allow") -> AsyncIterator[Editor]:
    """An editor that has started `handloom acp`; leaving it closes the pipes, as an editor does at its end."""
    editor = Editor(choose)
    environ = dict(handloom.environ)
    arguments = [*HANDLOOM[1:], "acp", *(["--model", model] if model else [])]
    options = {"stderr": asyncio.subprocess.DEVNULL, "limit": LINE_BYTES, "shutdown_timeout": WAIT_S}
    async with acp.spawn_agent_process(
        cast(Any, editor), HANDLOOM[0], *arguments, env=environ, cwd=handloom.workspace, transport_kwargs=options
    ) as (connection, process):
        editor.connection, editor.process = connection, process
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        yield editor


class Raw:
    """`handloom acp` with its pipes in the hand."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._ids = iter(range(1000, 10**6))

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    async def read(self) -> dict[str, Any]:
        """The next line of its output, which has to be a message."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            message = json.loads(await self.process.stdout.readline())
        assert isinstance(message, dict)
        assert message["jsonrpc"] == "2.0"
        return message

    async def answer_to(self, data: bytes) -> dict[str, Any]:
        """The first message that is no notification, after these bytes."""
        self.write(data)
        while "method" in (message := await self.read()):
            pass
        return message

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        answer = await self.answer_to(json.dumps(message).encode() + b"\n")
        assert answer["id"] == id
        return answer


@asynccontextmanager
async def raw(handloom: Handloom, model: str = "") -> AsyncIterator[Raw]:
    """A running `handloom acp`; its input is closed at the end, and it must exit."""
    pipe = asyncio.subprocess.PIPE
    arguments = [*HANDLOOM, "acp", *(["--model", model] if model else [])]
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
        env=handloom.environ,
        cwd=handloom.workspace,
        limit=LINE_BYTES,
    )
    try:
        yield Raw(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(WAIT_S):
            await process.communicate()


def _plain(model: Any) -> Update:
    found: Update = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found
