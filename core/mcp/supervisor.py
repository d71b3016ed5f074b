"""The supervisor: starts MCP servers, keeps their state and tools, and retries. All conversations share it.

Servers are connected in the background when a conversation is opened to which they belong, all at once, and stay. A
server that ends or cannot be connected is retried with growing delays, and this is announced; after several failures in
a row it waits for the user. With a runtime that runs servers, programs run in the conversation's own sandbox: they are
started once it runs, end with it, and wait for the next one. A tool whose hash was not approved is blocked until the
user approves it. Servers of a project are only started after the user's approval. No call waits longer for a slow
server than its timeout.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError, HandloomError, RuntimeUnavailableError
from core.llm.host_protocol import Line
from core.mcp.approvals import Approvals
from core.mcp.catalogue import clean_line, tool_name
from core.mcp.mcp_host_client import MCPHost, ServerError
from core.mcp.sandbox_link import open_link
from core.mcp.server_definitions import ServerSpec, of_project, of_user
from core.protocols import Runtime
from core.sandbox_types import Streams
from core.settings.sections import MCPSettings

CONSENT = "needs your approval before it starts (/mcp)"
CONSENT_AGAIN = "; its command, or a file that it names, has changed"
"""Status messages of a project's server that needs the user's approval."""


class ServerState(StrEnum):
    """The state of a server."""

    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    CONSENT = "consent"
    """It is defined in a project's file, and the user has not approved its command."""
    OFF = "off"
    """It is disabled in the settings."""


@dataclass
class Server:
    """One server and its state, which only the supervisor changes."""

    spec: ServerSpec
    state: ServerState = ServerState.CONNECTING
    reason: str = ""
    """Why it failed; for a server that waits for consent, that its approved command has changed."""
    tools: list[Line] = field(default_factory=list)
    """The approved tools that are offered, by name."""
    changed: list[tuple[Line, str]] = field(default_factory=list)
    """Blocked tools, each with the description that was approved before; empty for a new tool."""
    left_out: list[str] = field(default_factory=list)
    has_resources: bool = False
    has_prompts: bool = False
    failures: int = 0
    message: str = ""
    """The last status message, as long as it applies."""
    attempt: int = 0
    """Number of the current connection, so that late lines of an earlier one are ignored."""
    since: float = 0.0
    """When it last became ready, by the event loop's clock."""
    retry: asyncio.TimerHandle | None = None
    mode: str = "legacy"
    """The protocol version that is tried first, for a server in a sandbox."""
    running: asyncio.Task[None] | None = None
    """Runs it in the sandbox of its conversation."""

    @property
    def key(self) -> str:
        """Unique key of the server."""
        return self.spec.key

    def tool_name(self, tool: Line) -> str:
        """Return the name of a tool for models."""
        return tool_name(self.spec.name, str(tool["name"]))


Listener = Callable[[Server, str], None]
"""Takes a changed server and a status message, which may be empty."""


BACK_OFF_S = (0.5, 2.0, 5.0, 15.0, 30.0, 60.0)
"""Delays before retries; after the last one a server waits for the user."""
STEADY_S = 60.0
"""After this time in the ready state, earlier failures are forgotten."""


BeforeServer = Callable[[str, Sequence[str]], Sequence[str]]
"""Returns the command prefix that isolates a server in a workspace; the second argument are hosts that it may access
besides those of the settings. Blocks; raises HandloomError."""


class Supervisor:
    """The servers of one process. `settings` returns the current ones; `aclose` ends all.

    `before` isolates the programs of projects, and of the user unless the settings of one say otherwise; without it all
    run unsandboxed.
    """

    def __init__(
        self,
        home: Path,
        settings: Callable[[], MCPSettings],
        environ: Mapping[str, str],
        before: BeforeServer = lambda folder, hosts: (),
    ) -> None:
        self._settings, self._environ, self._before = settings, environ, before
        self._approvals = Approvals(home)
        self._host = MCPHost(self._on_line, self._on_end, environ)
        self._servers: dict[str, Server] = {}
        self._runtimes: dict[str, Runtime] = {}
        """The runtimes in which servers run, by conversation."""
        self.problems: dict[str, list[str]] = {}
        """Problems of the files, by workspace."""
        self.listeners: set[Listener] = set()
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self._attempts = itertools.count(1)
        self._is_closing = False

    # -- servers -------------------------------------------------------------------------------------------------------

    async def open(self, folder: str, conversation: str = "", runtime: Runtime | None = None) -> None:
        """Start the permitted servers of a workspace without waiting for them.

        If `runtime`, that of the conversation, runs servers, programs run in it; `leave` ends them.
        """
        if runtime is not None and runtime.runs_servers:
            self._runtimes[conversation] = runtime
        async with self._opening:
            settings = self._settings()
            found, problems = await asyncio.to_thread(of_project, folder)
            mine = of_user(settings, folder, self._environ)
            names = {spec.name for spec in mine}
            problems += [f"{spec.name}: one of your own servers has this name" for spec in found if spec.name in names]
            self.problems[folder] = problems
            inside = conversation if conversation in self._runtimes else ""
            specs = [
                replace(spec, conversation=inside) if spec.is_isolated else spec
                for spec in [*mine, *(spec for spec in found if spec.name not in names)]
            ]
            await self._drop_all_but({spec.key for spec in specs}, folder, conversation)
            for spec in specs:
                known = self._servers.get(spec.key)
                if known is not None and known.spec.fingerprint == spec.fingerprint:
                    continue
                if known is not None:
                    await self._stop(known)
                self._servers[spec.key] = server = Server(spec)
                await self._begin(server)

    async def leave(self, conversation: str) -> None:
        """End the servers in the sandbox of a conversation. May be called twice."""
        async with self._opening:
            if self._runtimes.pop(conversation, None) is not None:
                for server in [one for one in self._servers.values() if one.spec.conversation == conversation]:
                    del self._servers[server.key]
                    await self._stop(server)

    def at(self, folder: str, conversation: str = "") -> list[Server]:
        """Return the servers of a workspace by name, as a conversation has them."""
        inside = conversation if conversation in self._runtimes else ""
        return [one for one in self.everywhere(folder) if not one.spec.is_isolated or one.spec.conversation == inside]

    def everywhere(self, folder: str) -> list[Server]:
        """Return the servers of a workspace by name, with those in the sandboxes of all conversations."""
        here = [server for server in self._servers.values() if server.spec.workspace in ("", folder)]
        return sorted(here, key=lambda server: server.spec.name)

    def unsettled(self, folder: str, conversation: str = "") -> list[Server]:
        """Return the servers of a workspace that are connecting and have not failed before, by name."""
        here = self.at(folder, conversation)
        return [one for one in here if one.state is ServerState.CONNECTING and not one.failures]

    async def settled(self, folder: str, wait_s: float, conversation: str = "") -> None:
        """Wait until each server of a workspace has its tools or has failed once, or the time is over."""

        try:
            async with asyncio.timeout(wait_s), self._changed:
                await self._changed.wait_for(lambda: not self.unsettled(folder, conversation))
        except TimeoutError:
            return

    async def _drop_all_but(self, keys: set[str], folder: str, conversation: str) -> None:
        for server in self.at(folder, conversation):
            if server.key not in keys:
                del self._servers[server.key]
                await self._stop(server)

    # -- start and end -------------------------------------------------------------------------------------------------

    async def _begin(self, server: Server) -> None:
        """Connect a server, unless it needs the user's consent."""
        if server.spec.folder and self._settings().project_servers == "never":
            self._set(server, ServerState.OFF)
            return
        try:
            if not await asyncio.to_thread(self._approvals.is_approved, server.spec):
                again = await asyncio.to_thread(self._approvals.was_approved, server.spec)
                message = CONSENT + (CONSENT_AGAIN if again else "")
                self._set(server, ServerState.CONSENT, "changed" if again else "", message=message)
                return
        except ConfigurationError as error:
            self._set(server, ServerState.FAILED, str(error), message=str(error))
            return
        await self._connect(server)

    async def _connect(self, server: Server) -> None:
        self._cancel_timer(server)
        self._set(server, ServerState.CONNECTING)
        server.attempt = next(self._attempts)
        attempt, spec = server.attempt, server.spec
        if spec.conversation:
            server.running = self._spawn(self._run_inside(server, attempt))
            return
        try:
            isolated = spec.is_isolated
            before = await asyncio.to_thread(self._before, spec.workspace, spec.allowed_hosts) if isolated else ()
            if server.attempt != attempt:
                return  # it was ended meanwhile
            order = spec.order(self._environ)
            await self._host.tell({**order, "command": [*before, *spec.command], "attempt": attempt})
        except (ServerError, ValueError, HandloomError) as error:
            self._set(server, ServerState.FAILED, str(error), message=f"cannot be started: {error}")

    async def _run_inside(self, server: Server, attempt: int) -> None:
        """Run a server in the sandbox of its conversation, from when that runs until either ends."""
        spec, links = server.spec, list[Streams]()

        async def connect() -> Streams:
            order = {**spec.order(self._environ), "transport": "socket", "mode": server.mode, "attempt": attempt}
            order |= {"command": [], "environ": {}}  # the host does not need them
            links.append(await open_link(lambda path: self._host.tell({**order, "socket": path})))
            return links[0]

        try:
            runtime, variables = self._runtimes[spec.conversation], spec.variables(self._environ)
            reason = await runtime.run_server(spec.command, variables, spec.allowed_hosts, connect)
            if server.attempt == attempt:
                server.running = None
                self._failed(server, clean_line(reason, 500))
        except RuntimeUnavailableError:
            if server.attempt == attempt:  # a model call only waits for it if it worked before
                server.failures = 0 if server.state is ServerState.READY else max(server.failures, 1)
                await self._connect(server)
        except (ServerError, ValueError, HandloomError) as error:
            if server.attempt == attempt:
                reason = clean_line(str(error), 500)  # a sandbox may have written it
                self._set(server, ServerState.FAILED, reason, message=f"cannot be started: {reason}")
        finally:
            for _, writer in links:  # only now, so that the host does not report the end first
                writer.close()

    async def _retry(self, server: Server) -> None:
        """Connect a server; one of a project only if its definition and the scripts that it names were approved."""
        if server.spec.folder:
            found, _ = await asyncio.to_thread(of_project, server.spec.folder)
            if server.spec.fingerprint not in {spec.fingerprint for spec in found}:
                self._cancel_timer(server)
                await self.open(server.spec.folder, server.spec.conversation)
                return
        await self._connect(server)

    async def _stop(self, server: Server) -> None:
        self._cancel_timer(server)
        server.attempt = 0
        if server.running is not None:
            server.running.cancel()
            await asyncio.wait([server.running])
        if self._host.pid is not None:
            await self._host.tell({"type": "disconnect", "key": server.key})

    async def restart(self, key: str) -> None:
        """End a server and connect it again, also if its definition has changed."""
        if (server := self._servers.get(key)) is None:
            return
        server.failures = 0
        await self._stop(server)
        if not server.spec.folder:
            await self._begin(server)
            return
        del self._servers[key]
        await self.open(server.spec.folder, server.spec.conversation)

    async def aclose(self) -> None:
        """End all servers and the host. May be called twice."""
        self._is_closing = True
        for server in self._servers.values():
            self._cancel_timer(server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._host.aclose()

    # -- approvals -----------------------------------------------------------------------------------------------------

    async def allow(self, key: str, fingerprint: str) -> None:
        """Approve the command with this fingerprint, which was shown. Raises ConfigurationError."""
        server = self._servers.get(key)
        if server is None or server.state is not ServerState.CONSENT or server.spec.fingerprint != fingerprint:
            return
        await asyncio.to_thread(self._approvals.approve, server.spec)
        for one in self.everywhere(server.spec.folder):  # the same server, in the sandboxes of other conversations
            if one.state is ServerState.CONSENT and one.spec.approval_key == server.spec.approval_key:
                await self._retry(one)

    async def approve(self, key: str, hashes: Sequence[str]) -> None:
        """Approve the changed tools with these hashes, which were shown. Raises ConfigurationError."""
        if (server := self._servers.get(key)) is None:
            return
        seen = [tool for tool, _ in server.changed if tool["hash"] in hashes]
        await asyncio.to_thread(self._approvals.approve_tools, server.spec, [*server.tools, *seen])
        server.tools = sorted([*server.tools, *seen], key=lambda tool: str(tool["name"]))
        server.changed = [(tool, before) for tool, before in server.changed if tool not in seen]
        self._set(server, server.state)

    # -- lines of the host ---------------------------------------------------------------------------------------------

    def _on_line(self, line: Line) -> None:
        server = self._servers.get(line.get("key", ""))
        if server is None or server.attempt != line.get("attempt"):
            return
        if line["type"] == "offers":
            self._spawn(self._take_offers(server, line))
        elif line["type"] == "newer":
            server.mode = "auto"
            self._spawn(self._again(server))
        else:
            self._failed(server, str(line.get("reason", "")))

    async def _again(self, server: Server) -> None:
        await self._stop(server)
        await self._connect(server)

    def _on_end(self) -> None:
        for server in self._servers.values():
            if server.state in (ServerState.CONNECTING, ServerState.READY):
                self._failed(server, "The MCP host ended.")

    async def _take_offers(self, server: Server, line: Line) -> None:
        """Compare the server's tools with the approved ones, and offer those that are equal."""
        tools: list[Line] = sorted(line["tools"], key=lambda tool: str(tool["name"]))
        try:
            approved = await asyncio.to_thread(self._approvals.approved_tools, server.spec)
            if approved is None:
                await asyncio.to_thread(self._approvals.approve_tools, server.spec, tools)
        except ConfigurationError as error:
            self._set(server, ServerState.FAILED, str(error), message=str(error))
            return
        if server.attempt != line["attempt"]:
            return  # it ended meanwhile
        if approved is None:
            approved = {tool["name"]: tool for tool in tools}
        same = {tool["name"] for tool in tools if approved.get(tool["name"], {}).get("hash") == tool["hash"]}
        blocked = [tool for tool in tools if tool["name"] not in same]
        fresh = [tool for tool in blocked if tool not in [known for known, _ in server.changed]]
        server.tools = [tool for tool in tools if tool["name"] in same]
        server.changed = [(tool, str(approved.get(tool["name"], {}).get("about", ""))) for tool in blocked]
        server.left_out, server.has_resources, server.has_prompts = line["left_out"], line["resources"], line["prompts"]
        came_back = server.failures > 0 and server.state is not ServerState.READY
        server.since = time.monotonic() if server.state is not ServerState.READY else server.since
        message = "is back" if came_back else ""
        if fresh or (server.changed and came_back):
            message = f"has changed {len(blocked)} of its tools; they are blocked until you approve them (/mcp)"
        self._set(server, ServerState.READY, message=message)

    def _failed(self, server: Server, reason: str) -> None:
        """Retry later, unless the server has failed too often."""
        if server.state is ServerState.READY and time.monotonic() - server.since > STEADY_S:
            server.failures = 0
        number, server.failures = server.failures, server.failures + 1
        if self._is_closing:
            return
        if number >= len(BACK_OFF_S):
            self._set(server, ServerState.FAILED, reason, message=f"failed too often: {reason} It is not retried.")
            return
        delay_s = BACK_OFF_S[number]
        loop = asyncio.get_running_loop()
        server.retry = loop.call_later(delay_s, lambda: self._spawn(self._retry(server)))
        server.attempt = 0
        if server.running is not None:
            server.running.cancel()
        self._set(server, ServerState.FAILED, reason, message=f"{reason} It is retried in {delay_s:g} s.")

    # -- requests ------------------------------------------------------------------------------------------------------

    async def ask(self, server: Server, order: Line) -> Line:
        """Send an order to a server and return the answer. Raises ServerError. Cancelling cancels it in the server.

        Waits for a server that is reconnecting, but not longer than its timeout.
        """
        if server.state is not ServerState.READY:
            await self._back(server)
        if order["type"] == "call" and any(tool["name"] == order["tool"] for tool, _ in server.changed):
            raise ServerError("This tool has changed and is blocked until the user approves it. Continue without it.")
        if server.state is not ServerState.READY:
            state = f"is not connected: {server.reason}" if server.reason else f"is not ready ({server.state})"
            raise ServerError(f"The MCP server {server.spec.name} {state}".rstrip(".") + ". Continue without it.")
        try:
            return await self._host.ask({**order, "key": server.key})
        except ServerError as error:
            raise ServerError(f"The MCP server {server.spec.name} failed. {error}") from error

    async def _back(self, server: Server) -> None:
        comes = server.state is ServerState.CONNECTING or server.retry is not None

        def is_settled() -> bool:
            return server.state is ServerState.READY or (server.retry is None and server.state is ServerState.FAILED)

        try:
            async with asyncio.timeout(server.spec.patience_s if comes else 0), self._changed:
                await self._changed.wait_for(is_settled)
        except TimeoutError:
            return

    async def prompts(self, key: str) -> list[Line]:
        """Return the prompts of a server. Raises ServerError."""
        server = self._servers.get(key)
        if server is None or not server.has_prompts:
            return []
        return list((await self.ask(server, {"type": "prompts"}))["prompts"])

    async def prompt(self, key: str, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt. Raises ServerError."""
        server = self._servers[key]
        order: Line = {"type": "prompt", "name": name, "arguments": dict(arguments)}
        return str((await self.ask(server, order))["text"])

    # -- state ---------------------------------------------------------------------------------------------------------

    def _set(self, server: Server, state: ServerState, reason: str = "", *, message: str = "") -> None:
        server.state, server.reason = state, reason
        status = f"MCP server {server.spec.name}: {message}" if message else ""
        if state is not ServerState.CONNECTING:
            server.message = status if state is not ServerState.READY or server.changed else ""
        for listener in tuple(self.listeners):
            listener(server, status)
        self._spawn(self._wake())

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _cancel_timer(self, server: Server) -> None:
        if server.retry is not None:
            server.retry.cancel()
            server.retry = None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
