"""One server in the MCP host: connects to it, lists what it offers, carries out calls, and notices its end.

It connects once; the supervisor decides about retries. Offers are listed at most once a second, however often the
server reports changes. Sampling, elicitation and roots are refused, which is the SDK's default without handlers. All
output is cleaned and limited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import anyio
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
)

from core.llm.host_protocol import Line
from core.mcp.catalogue import MAX_PAGES, clean_line, prompt_of, prompt_text, resource_of, result_of, tools_of
from core.mcp.transports import address, program, socket

RELIST_S = 1.0
"""Minimum interval of listings, for servers that report changes all the time."""
MAX_MESSAGES = 200
"""Messages that are read from a server within FLOOD_S."""
FLOOD_S = 0.2
_CHANGES = (ToolListChangedNotification, PromptListChangedNotification, ResourceListChangedNotification)


class RequestError(Exception):
    """A request failed. The text is for users."""


class Connection:
    """One connection, made by a `connect` order. Call `run` once; it returns when the connection ends."""

    def __init__(self, order: Line, send: Callable[[Line], None]) -> None:
        self._order = order
        self._send = send
        self._client: Client | None = None
        self._reason = ""
        self._changed = asyncio.Event()
        self._ended = False
        self._has_failed = False
        self._background: set[asyncio.Future[Any]] = set()

    async def run(self) -> None:
        """Connect, report the offers, and stay until the server ends or this is cancelled."""
        try:
            mode = self._order.get("mode", "legacy")  # nearly all servers support it; the others report an error
            try:
                await self._attempt(mode)
            except (MCPError, BaseExceptionGroup) as error:
                if self._client is not None or mode == "auto" or not _asks_for_newer(error):
                    raise
                if self._order["transport"] == "socket":  # it needs a new program
                    self._report("newer")
                    return
                self._ended, self._reason = False, ""
                self._changed.clear()
                await self._attempt("auto")
        except TimeoutError:
            self._set_reason(f"It was not ready within {self._order['start_s']:g} s.")
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  # the boundary to the SDK and the server
            self._set_reason(error_text(error))
        self._fail()

    async def _attempt(self, mode: str) -> None:
        async with asyncio.timeout(self._order["start_s"]) as limit:
            client = Client(self._watched(), mode=mode, message_handler=self._note, cache=None)
            async with client:
                await self._list(client)
                limit.reschedule(None)
                self._client = client
                await self._stay(client)

    async def _stay(self, client: Client) -> None:
        """List the offers after each change, until the server is gone."""
        while not self._ended:
            await self._changed.wait()
            self._changed.clear()
            if not self._ended:
                await asyncio.sleep(RELIST_S)
                async with asyncio.timeout(self._order["start_s"]):
                    await self._list(client)

    async def _list(self, client: Client) -> None:
        """Report what the server offers."""
        has = client.server_capabilities
        found, cursor = [], None
        for _ in range(MAX_PAGES if has.tools is not None else 0):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            if (cursor := page.next_cursor) is None:
                break
        tools, left_out = await asyncio.to_thread(tools_of, found)
        offers = {"tools": tools, "left_out": left_out}
        self._report("offers", **offers, resources=has.resources is not None, prompts=has.prompts is not None)

    async def _note(self, message: Any) -> None:
        """Handle a notification: only list changes matter."""
        if isinstance(message, _CHANGES):
            self._changed.set()

    def _fail(self) -> None:
        """Report the end as soon as it is known, before the cleanup."""
        self._client = None
        if not self._has_failed:
            self._has_failed = True
            self._report("failed", reason=self._reason or "It ended.")

    def _report(self, kind: str, **facts: object) -> None:
        self._send({"type": kind, "key": self._order["key"], "attempt": self._order["attempt"], **facts})

    def _set_reason(self, reason: str) -> None:
        self._reason = self._reason or reason

    # -- the transport -------------------------------------------------------------------------------------------------

    def _transport(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        order = self._order
        if order["transport"] == "stdio":
            return program(order["command"], order["environ"], order["folder"], self._set_reason)
        if order["transport"] == "socket":
            return socket(order["socket"], self._set_reason)
        return address(order["url"], order["transport"], order["headers"])

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield the rate-limited streams to the server. Their end ends the connection."""
        async with self._transport() as (read, write):
            to_session, from_server = anyio.create_memory_object_stream[Any](0)

            async def pump() -> None:
                async with to_session:
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        count, since = 0, time.monotonic()
                        async for message in read:
                            await to_session.send(message)
                            if (count := count + 1) == MAX_MESSAGES:
                                await asyncio.sleep(max(0.0, since + FLOOD_S - time.monotonic()))
                                count, since = 0, time.monotonic()
                self._ended = True
                self._changed.set()
                if self._client is not None:
                    self._fail()

            async with anyio.create_task_group() as group:
                group.start_soon(pump)
                try:
                    yield from_server, write
                finally:
                    group.cancel_scope.cancel()

    # -- requests ------------------------------------------------------------------------------------------------------

    async def answer(self, order: Line) -> Line:
        """Carry out an order, and return the answer. Raises RequestError. Cancelling cancels it in the server."""
        client = self._client
        if client is None:
            raise RequestError(self._reason or "It is not connected.")
        try:
            match order["type"]:
                case "call":
                    params = CallToolRequestParams(name=order["tool"], arguments=order["arguments"])
                    asked = client.session.send_request(CallToolRequest(params=params), CallToolResult)
                    return await asyncio.to_thread(result_of, await self._wait(client, asked))
                case "resources":
                    resources: Line = await self._wait(client, self._resources(client))
                    return resources
                case "read":
                    read = await self._wait(client, client.read_resource(order["uri"]))
                    return await asyncio.to_thread(resource_of, read)
                case "prompts":
                    listed = await self._wait(client, client.list_prompts())
                    return {"prompts": [prompt_of(prompt) for prompt in listed.prompts[:100]]}
                case "prompt":
                    prompt = await self._wait(client, client.get_prompt(order["name"], order["arguments"]))
                    return {"text": prompt_text(prompt)}
        except RequestError:
            raise
        except (Exception, BaseExceptionGroup) as error:  # the boundary to the SDK and the server
            raise RequestError(self._reason if self._ended and self._reason else error_text(error)) from error
        raise RequestError(f"This version does not know {order['type']!r}.")

    async def _resources(self, client: Client) -> Line:
        listed = await client.list_resources()
        patterns: list[str] = []
        with suppress(MCPError):  # many servers do not support them
            found = (await client.list_resource_templates()).resource_templates
            patterns = [clean_line(template.uri_template, 500) for template in found[:100]]
        resources = []
        for one in listed.resources[:200]:
            uri, name, about = clean_line(one.uri, 500), clean_line(one.name, 100), clean_line(one.description, 200)
            resources.append({"uri": uri, "name": name, "about": about})
        return {"resources": resources, "patterns": patterns}

    async def _wait(self, client: Client, asked: Awaitable[Any]) -> Any:
        """Wait for a request as long as the server answers pings. Raises RequestError."""
        work = asyncio.ensure_future(asked)
        started, patience_s = time.monotonic(), self._order["patience_s"]
        try:
            while not (await asyncio.wait({work}, timeout=patience_s / 2))[0]:
                if time.monotonic() - started > self._order["timeout_s"]:
                    raise RequestError(f"It took longer than {self._order['timeout_s']:g} s and was cancelled.")
                ping = asyncio.ensure_future(_ping(client))
                self._keep(ping)
                await asyncio.wait({work, ping}, timeout=patience_s / 2, return_when=asyncio.FIRST_COMPLETED)
                if not work.done() and not ping.done():
                    ping.cancel()
                    raise RequestError(f"It did not answer for {patience_s:g} s, not even a ping.")
            answered: Any = work.result()
            return answered
        finally:
            if not work.done():
                work.cancel()  # also cancels it in the server, which may take time
                self._keep(work)

    def _keep(self, task: asyncio.Future[Any]) -> None:
        """Keep a background task until it ends, and retrieve its exception."""
        self._background.add(task)

        def forget(done: asyncio.Future[Any]) -> None:
            self._background.discard(done)
            if not done.cancelled():
                done.exception()

        task.add_done_callback(forget)


async def _ping(client: Client) -> None:
    """Ping the server; an error is an answer too."""
    with suppress(MCPError):
        if client.session.initialize_result is not None:
            await client.session.send_ping()
        else:
            await client.session.send_discover(client.protocol_version)


def _asks_for_newer(error: BaseException) -> bool:
    """Whether a server refused the handshake because it only supports newer protocol versions."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_asks_for_newer, error.exceptions))
    return isinstance(error, MCPError) and error.code in (-32022, -32601)


def error_text(error: BaseException) -> str:
    """Return an error's text on one line, for users; the first of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "Its connection was closed."
    if isinstance(error, MCPError):
        return f"It answered: {clean_line(error.message, 500)}"
    if isinstance(error, OSError):
        return f"It cannot be started: {clean_line(error.strerror or str(error), 300)}."
    return clean_line(f"{type(error).__name__}: {error}", 500)
