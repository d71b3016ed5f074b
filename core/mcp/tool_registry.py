"""The MCP tools of one conversation, and how their calls are carried out.

A tool call becomes an MCPAction, as in OpenHands V0, and is answered by exactly one observation: an MCPObservation with
the tool's answer, or an ErrorObservation if the server could not be asked. Two tools of Handloom read resources. The
agent may read resources that the server has listed, and resources of a scheme that it has listed, but no file outside
the workspace and no web page that the server has not listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from core.agent.tools import InvalidCall, Tool
from core.events import Action, ErrorObservation, MCPAction, MCPObservation, Observation, Status
from core.llm.host_protocol import Line
from core.mcp.mcp_host_client import ServerError
from core.mcp.supervisor import Server, ServerState, Supervisor
from core.protocols import Runtime
from core.status_messages import WAITING_FOR_SERVERS

LIST, READ = "mcp_list_resources", "mcp_read_resource"
FAILED = "MCP$FAILED"
"""Id of the error of a call that no tool has answered."""
FIRST_WAIT_S = 30.0
"""How long the first model call of a conversation waits for servers that are connecting for the first time."""
WAITING = "STATUS$WAITING_FOR_MCP"
MAX_OFFERED = 100
"""Limit for MCP tools in a model call: providers accept at most 128 tools in total."""
TOO_MANY = "STATUS$MCP_TOO_MANY"
TOO_MANY_TEXT = "MCP servers: {count} tools are left out, because models accept {limit} tools. Use fewer servers."
MISSING = {
    ServerState.CONNECTING: "The MCP server {name} is not ready yet; its tools may become available later.",
    ServerState.FAILED: "The MCP server {name} has failed, so its tools are not available. The user has been told why.",
    ServerState.CONSENT: "The MCP server {name} needs the user's approval, so its tools are not available.",
}
"""What the model is told of a server without tools, by its state."""
_SERVER = {"type": "string", "description": "The server's name."}


@dataclass(frozen=True, slots=True, kw_only=True)
class MCPTool(Tool):
    """A tool with a server's schema. The server validates the arguments."""

    whole: Mapping[str, Any] = field(default_factory=dict)
    """Its schema."""

    def schema(self) -> dict[str, Any]:
        """The definition for the model."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.whole)}
        return {"type": "function", "function": function}

    def action_of(self, arguments: Mapping[str, Any]) -> Action:
        """Convert a call to an action. Raises InvalidCall if an argument is missing."""
        for name in self.required:
            if name not in arguments:
                raise InvalidCall(f'Missing required argument "{name}" in tool call {self.name}')
        return self.to_action(dict(arguments))


class Toolbox:
    """The MCP tools of one conversation, which works in `folder`."""

    def __init__(self, supervisor: Supervisor, folder: str, conversation: str = "") -> None:
        self._supervisor = supervisor
        self._folder, self._conversation = folder, conversation
        self._has_waited = False
        self._left_out = 0
        self._tell: Callable[[Status], None] = lambda status: None
        self._start_sandbox: Callable[[], None] = lambda: None

    async def open(self, runtime: Runtime) -> None:
        """Start the servers without waiting for them; in `runtime`, if it runs servers."""
        await self._supervisor.open(self._folder, self._conversation, runtime)

    async def leave(self) -> None:
        """End the servers in the sandbox of the conversation. May be called twice."""
        await self._supervisor.leave(self._conversation)

    def watch(self, tell: Callable[[Status], None], start_sandbox: Callable[[], None] = lambda: None) -> None:
        """Report status changes of the servers from now on, and the status messages that still apply.

        `start_sandbox` starts the sandbox in the background, for servers in it.
        """
        self._tell, self._start_sandbox = tell, start_sandbox
        self._tell_all()
        self._supervisor.listeners.add(self._on_server)

    def _tell_all(self) -> None:
        for server in self._servers():
            if server.message:
                self._tell(Status("error", _status_id(server), server.message))

    def unwatch(self) -> None:
        """Stop reporting. May be called twice."""
        self._supervisor.listeners.discard(self._on_server)

    def _on_server(self, server: Server, message: str) -> None:
        if server not in self._servers():
            return
        if server.spec.conversation and server.state is ServerState.CONNECTING and not server.failures:
            self._has_waited = False  # its sandbox has ended; the next model call starts another one
        if message:
            self._tell(Status("error" if server.message else "info", _status_id(server), message))
        if not server.message:
            self._tell(Status("info", _status_id(server), ""))

    async def tools(self) -> Sequence[Tool]:
        """Return the tools that are offered now, by name. The first call waits up to FIRST_WAIT_S for servers."""
        if not self._has_waited:
            await self._wait()
            self._has_waited = True
            self._tell_all()  # whoever shows the conversation may not have been there before
        ready = self._ready()
        found = {server.tool_name(tool): _tool(server, tool) for server in ready for tool in server.tools}
        if any(server.has_resources for server in ready):
            found |= {tool.name: tool for tool in _RESOURCE_TOOLS}
        offered = [found[name] for name in sorted(found)]
        more = max(0, len(offered) - MAX_OFFERED)
        if more != self._left_out:
            self._left_out = more
            text = TOO_MANY_TEXT.format(count=more, limit=MAX_OFFERED) if more else ""
            self._tell(Status("error", TOO_MANY, text))
        return offered[:MAX_OFFERED]

    async def _wait(self) -> None:
        """Wait until each server has its tools or has failed once, and say so meanwhile."""
        servers = self._supervisor.unsettled(self._folder, self._conversation)
        if not servers:
            return
        if any(server.spec.conversation for server in servers):
            self._start_sandbox()
        names = ", ".join(server.spec.name for server in servers)
        self._tell(Status("info", WAITING, WAITING_FOR_SERVERS.format(names=names)))
        try:
            await self._supervisor.settled(self._folder, FIRST_WAIT_S, self._conversation)
        finally:
            self._tell(Status("info", WAITING, ""))

    def missing(self) -> str:
        """Return a sentence for the model about each server without tools, on lines; empty if there is none.

        It names the server and nothing that the server says, because the model trusts it.
        """
        servers = self._servers()
        return "\n".join(MISSING[one.state].format(name=one.spec.name) for one in servers if one.state in MISSING)

    def harmless(self) -> frozenset[str]:
        """Return the names of the tools that their servers declare read-only and closed-world.

        Servers that are ready were enabled by the user, with approved tools, so these declarations are trusted.
        """
        return frozenset(
            server.tool_name(tool)
            for server in self._ready()
            for tool in server.tools
            if tool.get("reads") and tool.get("closed")
        )

    async def call(self, action: MCPAction) -> Observation:
        """Carry out a call. Cancelling also cancels it in the server."""
        try:
            answer = await self._ask(action)
        except ServerError as error:
            return ErrorObservation(content=str(error), error_id=FAILED)
        return MCPObservation(
            name=action.name,
            arguments=action.arguments,
            content=answer["text"],
            image_urls=answer.get("images") or None,
            is_error=bool(answer.get("is_error")),
        )

    async def _ask(self, action: MCPAction) -> Line:
        if action.name in (LIST, READ):
            server = self._named(str(action.arguments.get("server", "")))
            listed = await self._supervisor.ask(server, {"type": "resources"})
            if action.name == LIST:
                return {"text": _listing(listed)}
            uri = str(action.arguments.get("uri", ""))
            folder = "" if server.spec.conversation else self._folder
            await asyncio.to_thread(_check_uri, uri, listed, folder)
            return await self._supervisor.ask(server, {"type": "read", "uri": uri})
        server, tool = self._tool(action.name)
        order: Line = {"type": "call", "tool": tool, "arguments": action.arguments}
        return await self._supervisor.ask(server, order)

    def _servers(self) -> list[Server]:
        return self._supervisor.at(self._folder, self._conversation)

    def _ready(self) -> list[Server]:
        return [one for one in self._servers() if one.state is ServerState.READY]

    def _named(self, name: str) -> Server:
        """Return a server with resources. Raises ServerError."""
        there = [server for server in self._ready() if server.has_resources]
        for server in there:
            if server.spec.name == name:
                return server
        names = ", ".join(server.spec.name for server in there) or "none"
        raise ServerError(f"No MCP server {name!r} with resources is ready. There are: {names}.")

    def _tool(self, name: str) -> tuple[Server, str]:
        """Return the server of a tool and the tool's original name. Raises ServerError if no server has it."""
        for server in self._servers():
            for tool in [*server.tools, *(tool for tool, _ in server.changed)]:
                if server.tool_name(tool) == name:
                    return server, str(tool["name"])
        raise ServerError(f"No MCP server here has the tool {name}. Use one of your tools.")


def _status_id(server: Server) -> str:
    return f"STATUS$MCP_{server.spec.name.upper()}"


def _tool(server: Server, tool: Line) -> MCPTool:
    name, schema = server.tool_name(tool), tool["schema"]
    return MCPTool(
        name=name,
        description=tool["about"] or f"A tool of the MCP server {server.spec.name}.",
        parameters={},
        required=tuple(schema.get("required", ())),
        actions=(MCPAction,),
        to_action=_to_action(name),
        whole=schema,
    )


def _to_action(name: str) -> Callable[[dict[str, Any]], Action]:
    return lambda arguments: MCPAction(name=name, arguments=arguments)


def _listing(listed: Line) -> str:
    lines = [f"{one['uri']}  {one['name']}  {one['about']}".rstrip() for one in listed["resources"]]
    lines += [f"{pattern}  (a pattern: fill in the parts in braces)" for pattern in listed["patterns"]]
    return "\n".join(lines) or "It has no resources."


def _check_uri(uri: str, listed: Line, folder: str) -> None:
    """Raise ServerError for a resource that the agent may not read. Blocks.

    Without a folder, files are those of the agent's own sandbox.
    """
    known = {one["uri"] for one in listed["resources"]}
    schemes = {urlsplit(text).scheme for text in [*known, *listed["patterns"]]}
    parts = urlsplit(uri)
    if not parts.scheme:
        raise ServerError(f"{uri[:200]!r} is not a URI. {LIST} lists all resources.")
    if parts.scheme == "file" and folder:
        path = Path(unquote(parts.path)).resolve()  # a link of the workspace may lead out of it
        if parts.netloc not in ("", "localhost") or not path.is_relative_to(Path(folder).resolve()):
            raise ServerError("Files outside the workspace cannot be read through MCP servers.")
    if uri not in known and (parts.scheme in ("http", "https", "data", "javascript") or parts.scheme not in schemes):
        raise ServerError(f"The server has not listed {uri[:200]!r}. {LIST} lists all resources.")


_RESOURCE_TOOLS = (
    MCPTool(
        name=LIST,
        description="List the resources of an MCP server, which mcp_read_resource reads.",
        parameters={},
        required=("server",),
        actions=(MCPAction,),
        to_action=_to_action(LIST),
        whole={"type": "object", "properties": {"server": _SERVER}, "required": ["server"]},
    ),
    MCPTool(
        name=READ,
        description="Read a resource of an MCP server, as listed by mcp_list_resources.",
        parameters={},
        required=("server", "uri"),
        actions=(MCPAction,),
        to_action=_to_action(READ),
        whole={
            "type": "object",
            "properties": {"server": _SERVER, "uri": {"type": "string", "description": "The resource's URI."}},
            "required": ["server", "uri"],
        },
    ),
)
