"""The MCP servers of the sandbox, offered as one: what OpenHands V0 calls its MCP proxy.

`POST /update_mcp_server` has the list of stdio servers, which run in the sandbox from then on. Clients connect to
`GET /mcp/sse` with the SSE transport of MCP, and use the tools. The tools of a single server have its own names; those
of several are named `SERVER_TOOL`, as V0 does. Resources and prompts are not offered.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from core.environment import inherited
from runtime.server.mcp_process import NO_SUCH_METHOD, VERSION, MCPError, MCPProcess, Message
from runtime.server.request_guard import RefusedError, json_value

SSE_PATHS = ("/mcp/sse", "/sse")
"""V0 has both; its client uses the first."""
MESSAGES_PATH = "/mcp/messages/"
MAX_SERVERS = 32
MAX_QUEUED = 1_000
"""Answers that wait for a client that does not read; then its stream is closed."""
PING_S = 15.0
"""Interval of comments in a silent stream, so that a client that is gone is noticed."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A server as V0's client names it."""

    name: str
    command: tuple[str, ...]
    env: frozenset[tuple[str, str]]
    """Its own variables, names with values."""


@dataclass(slots=True)
class _Client:
    """A connected client: what is to be sent to it, and its requests that are being carried out."""

    outgoing: asyncio.Queue[Message | None] = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED))
    """None ends the stream."""
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """By the JSON of their ids."""


class MCPProxy:
    """The servers and their routes. `environ` is what programs of the sandbox have."""

    def __init__(self, working_dir: str, environ: Mapping[str, str], umask: int = 0o022) -> None:
        self._working_dir, self._environ, self._umask = working_dir, environ, umask
        self._servers: dict[Definition, MCPProcess] = {}
        self._clients: dict[str, _Client] = {}
        self._updating = asyncio.Lock()
        self.table = [
            web.post("/update_mcp_server", self._update),
            *(web.get(path, self._stream, allow_head=False) for path in SSE_PATHS),
            web.post(MESSAGES_PATH, self._receive),
        ]

    async def aclose(self) -> None:
        """End all servers and streams. May be called twice."""
        for client in self._clients.values():
            _end(client)
        await asyncio.gather(*(server.aclose() for server in self._servers.values()))
        self._servers.clear()

    # -- servers -------------------------------------------------------------------------------------------------------

    async def _update(self, request: web.Request) -> web.Response:
        """Run exactly these servers; one that runs already and has not changed stays."""
        wanted = _definitions(await json_value(request))
        async with self._updating:
            gone = [one for one, server in self._servers.items() if one not in wanted or not server.runs]
            await asyncio.gather(*(self._servers.pop(one).aclose() for one in gone))
            new = [one for one in wanted if one not in self._servers]
            reasons = await asyncio.gather(*map(self._start, new))
            self._servers = {one: self._servers[one] for one in wanted if one in self._servers}
        failed = [f"{one.name}: {reason}" for one, reason in zip(new, reasons, strict=True) if reason]
        return web.json_response({"detail": "MCP server updated successfully", "router_error_log": "\n".join(failed)})

    async def _start(self, one: Definition) -> str:
        """Start a server; return why that failed, or an empty string."""
        environ = inherited(self._environ) | dict(one.env)
        server = MCPProcess(one.command, environ, self._working_dir, self._umask)
        try:
            await server.start()
        except MCPError as error:
            await server.aclose()
            return str(error)
        except asyncio.CancelledError:
            await server.aclose()
            raise
        self._servers[one] = server
        return ""

    def _tools(self) -> dict[str, tuple[MCPProcess, Message]]:
        """The tools of all servers, by the names by which clients call them."""
        is_alone = len(self._servers) == 1
        return {
            tool["name"] if is_alone else f"{one.name}_{tool['name']}": (server, tool)
            for one, server in self._servers.items()
            for tool in server.tools
        }

    # -- clients -------------------------------------------------------------------------------------------------------

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Send the address for messages, and then the answers to them."""
        session, client = secrets.token_hex(16), _Client()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        self._clients[session] = client
        try:
            await response.write(f"event: endpoint\r\ndata: {MESSAGES_PATH}?session_id={session}\r\n\r\n".encode())
            while True:
                try:
                    async with asyncio.timeout(PING_S):
                        message = await client.outgoing.get()
                except TimeoutError:
                    await response.write(b": ping\r\n\r\n")
                    continue
                if message is None:
                    return response
                text = json.dumps({"jsonrpc": "2.0", **message})
                await response.write(f"event: message\r\ndata: {text}\r\n\r\n".encode())
        finally:
            del self._clients[session]
            for task in client.running.values():
                task.cancel()

    async def _receive(self, request: web.Request) -> web.Response:
        message = await json_value(request)
        client = self._clients.get(request.query.get("session_id", ""))
        if client is None:
            raise RefusedError(404, "there is no such session; connect again")
        if not isinstance(message, dict):
            raise RefusedError(400, "the body must be a message of JSON-RPC")
        method, number, params = message.get("method"), message.get("id"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "notifications/cancelled":
            if (task := client.running.get(json.dumps(params.get("requestId")))) is not None:
                task.cancel()
        elif isinstance(method, str) and number is not None:
            key, task = json.dumps(number), asyncio.create_task(self._answer(client, number, method, params))
            client.running[key] = task
            task.add_done_callback(lambda _: client.running.pop(key, None))
        return web.Response(status=202, text="Accepted")

    async def _answer(self, client: _Client, number: Any, method: str, params: Message) -> None:
        try:
            answer: Message = {"result": await self._result(method, params)}
        except MCPError as error:
            answer = {"error": error.error}
        try:
            client.outgoing.put_nowait({"id": number, **answer})
        except asyncio.QueueFull:
            _end(client)

    async def _result(self, method: str, params: Message) -> Message:
        """Carry out a request. Raises MCPError."""
        match method:
            case "initialize":
                version = params.get("protocolVersion")
                return {
                    "protocolVersion": version if isinstance(version, str) and version <= VERSION else VERSION,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "handloom-server", "version": "1"},
                }
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [{**tool, "name": name} for name, (_, tool) in self._tools().items()]}
            case "tools/call":
                name = str(params.get("name", ""))
                if name not in (tools := self._tools()):
                    return {"content": [{"type": "text", "text": f"Unknown tool: {name[:200]}"}], "isError": True}
                server, tool = tools[name]
                return await server.request("tools/call", {**params, "name": tool["name"]})
            case _:
                raise MCPError(f"Method not found: {method[:200]}", NO_SUCH_METHOD)


def _end(client: _Client) -> None:
    """End a client's stream; what it has not read is dropped."""
    while not client.outgoing.empty():
        client.outgoing.get_nowait()
    client.outgoing.put_nowait(None)


def _definitions(servers: Any) -> list[Definition]:
    """Return the servers in the body of a request. Raises RefusedError."""
    if not isinstance(servers, list):
        raise RefusedError(400, "Request must be a list of MCP tools to sync")  # V0's words
    found = [definition(server) for server in servers]
    if len(found) > MAX_SERVERS or len({one.name for one in found}) < len(found):
        raise RefusedError(400, f"there may be {MAX_SERVERS} MCP tools, each with a name of its own")
    return found


def definition(server: Any) -> Definition:
    """Return the server in a request. Raises RefusedError."""
    if not (isinstance(server, dict) and "name" in server and "command" in server):
        raise RefusedError(400, "each MCP tool is an object with 'name' and 'command'")
    args, env = server.get("args") or [], server.get("env") or {}
    texts = [server["name"], server["command"], *args] if isinstance(args, list) else [None]
    if not isinstance(env, dict) or not all(isinstance(text, str) for text in [*texts, *env.values()]):
        raise RefusedError(400, "'name' and 'command' are strings, 'args' is a list and 'env' an object of strings")
    return Definition(server["name"], (server["command"], *args), frozenset(env.items()))
