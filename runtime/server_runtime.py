"""ServerRuntime: the base class of every runtime that has an action server.

It has at most one server at a time, and a client once the server answers. Subclasses say how a server is started
(`_open`) and ended (`_shut`). Everything else is here, so that the same action gets the same answer in every sandbox.
Invariant: while `_client` is set, `_open` has succeeded and `_shut` has not begun.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from core.errors import RuntimeUnavailableError, UsageError
from core.events import Action, Frame, Observation, PageShown, Refusal
from core.sandbox_types import Connect, Job, Port, SandboxUsage, Say, check_variables, silently
from runtime.cancellation import run_to_completion
from runtime.sandbox_facts import ELSEWHERE, NETWORK, SANDBOX, UNKNOWN_NETWORK, ordered
from runtime.shortage_messages import with_note

if TYPE_CHECKING:
    from runtime.client import ActionExecutionClient
    from runtime.isolation.git_forwarder import GitProcess
    from runtime.isolation.workspace_guard import WorkspaceGuard


LOOPBACK = "127.0.0.1"


class ServerRuntime(ABC):
    """Carries out actions through an action server. Implements core.protocols.Runtime except for isolation."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the workspace is a copy and not the folder on this machine; see core.protocols.Runtime."""
        return False

    @property
    @abstractmethod
    def isolation(self) -> str:
        """The kind of isolation; see core.protocols.Runtime."""

    runs_servers = False
    _missing_program_advice = "Install it where the sandbox runs"
    """What makes a program available in the sandbox."""
    workspace_host = ""
    web_hosts: Mapping[str, int] = MappingProxyType({})

    def __init__(self) -> None:
        self._limits: tuple[str, ...] = ()
        """The resource limits of the sandbox, as text for the user."""
        self._guard: WorkspaceGuard | None = None
        """The guard of the workspace, if the sandbox mounts a folder of this machine."""
        self._client: ActionExecutionClient | None = None
        self._variables: dict[str, str | None] = {}
        """The user's variables for the agent's programs; None for one that was removed."""
        self._forwards: dict[int, asyncio.Server] = {}
        """The servers on this machine's loopback that forward to ports of the sandbox."""
        self._tunnels: set[asyncio.Task[None]] = set()
        """Their connections."""
        self._git: GitProcess | None = None
        """Git's forwarder, while the server runs; set by `_open`."""
        self._starting = asyncio.Lock()
        self._started = asyncio.Condition()
        self._failed_starts = 0
        self._lost: ActionExecutionClient | None = None
        """The client whose connection broke while a server ran; `start` finds out whether it still answers."""

    # -- implemented by launchers ------------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self, say: Say) -> ActionExecutionClient:
        """Start a server and return a client for it. Raises RuntimeUnavailableError; then `_shut` is called."""

    @abstractmethod
    async def _shut(self) -> None:
        """Undo what `_open` did, however far it got. The client is already closed."""

    async def _revive(self) -> bool:
        """Try to bring back a server that did not answer; return whether that worked."""
        return False

    async def _execute(
        self, client: ActionExecutionClient, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        return await client.execute(action, action_id, on_frame)

    async def _notes(self) -> list[str]:
        """Return notes to append to the output of the command that just ended; empty strings are ignored."""
        return []

    def _refusals(self, observation: Observation) -> list[Refusal]:
        """Return what the isolation refused since the last call; empty for a sandbox that does not know it."""
        return []

    def _boundary(self) -> dict[str, str]:
        """Return what is known without a look inside: what separates the sandbox from this machine, and its network."""
        return {SANDBOX: ELSEWHERE, NETWORK: UNKNOWN_NETWORK}

    # -- start and end -----------------------------------------------------------------------------------------------

    async def start(self, say: Say = silently) -> None:
        """Start the server unless it runs. Raises RuntimeUnavailableError; may then be called again."""
        async with self._starting:
            if self._client is not None and (
                await self._client.alive() or (await self._revive() and await self._client.alive())
            ):
                async with self._started:
                    self._lost = None
                    self._started.notify_all()
                return
            await run_to_completion(self._end())
            try:
                client = await self._open(say)
                if variables := {**await self._git_variables(client), **self._variables}:
                    await client.set_environment(variables)
                async with self._started:
                    self._client = client
                    self._started.notify_all()
            except BaseException:
                await run_to_completion(self._end())
                async with self._started:
                    self._failed_starts += 1
                    self._started.notify_all()
                raise

    async def _git_variables(self, client: ActionExecutionClient) -> dict[str, str]:
        """Return the variables with which git uses the forwarder. Raises RuntimeUnavailableError."""
        if self._git is None:
            return {}
        port, ssh = await client.git_entry()
        return self._git.variables(port, ssh if self.isolation != "none" else "", os.environ)

    async def aclose(self) -> None:
        """End the server and everything that it started. May be called twice."""
        async with self._starting:
            await run_to_completion(self._end())

    async def rest(self) -> None:
        """Suspend the sandbox. Ends it, unless the subclass can keep it."""
        await self.aclose()

    async def _end(self) -> None:
        client, self._client, self._git = self._client, None, None
        for forward in self._forwards.values():
            forward.close()
        self._forwards.clear()
        for tunnel in (tunnels := tuple(self._tunnels)):
            tunnel.cancel()
        await asyncio.gather(*tunnels, return_exceptions=True)
        if client is not None:
            await client.aclose()
        await self._shut()

    # -- requests ----------------------------------------------------------------------------------------------------

    async def execute(self, action: Action, action_id: int, on_frame: Callable[[Frame], None]) -> Observation:
        """Carry out one action. Raises RuntimeUnavailableError if the server is not running; see `start`."""
        if self._client is None:
            raise RuntimeUnavailableError("The runtime is not running. Start it first.")
        guard = self._guard
        if guard is not None and (broken := await asyncio.to_thread(guard.broken_protection)):
            await self.aclose()
            raise RuntimeUnavailableError(f"{broken}. The sandbox was ended; the next action starts a new one.")
        try:
            observation = await self._execute(self._client, action, action_id, on_frame)
        finally:
            moved = await asyncio.to_thread(guard.move_aside) if guard is not None else []
        refusals = self._refusals(observation)
        if refusals or observation.refusals:  # those in an answer of the sandbox do not count
            observation = observation.model_copy(update={"refusals": tuple(refusals)})
        for line in (*moved, *await self._notes(), *(refusal.text for refusal in refusals)):
            observation = with_note(observation, line)
        return observation

    async def open_hosts(self, hosts: Sequence[str]) -> None:  # noqa: B027  # most launchers have no proxy
        """Do nothing: this sandbox has no proxy; see core.protocols.Runtime."""

    async def facts(self) -> Mapping[str, str]:
        """Return what the agent is told about the sandbox; see core.protocols.Runtime."""
        found = {}
        if self._client is not None:
            with suppress(RuntimeUnavailableError):  # the next action reports it
                found = await self._client.facts()
        return ordered({**found, **self._boundary()})

    async def set_environment(self, variables: Mapping[str, str | None]) -> None:
        """Set variables for the agent's programs; see core.protocols.Runtime."""
        try:
            check_variables(variables)
        except ValueError as error:
            raise UsageError(f"{error}.") from error
        if self._client is not None:
            await self._client.set_environment(variables)
        self._variables |= variables

    async def usage(self) -> SandboxUsage | None:
        """Return the resource usage of the sandbox, or None before the start. Raises RuntimeUnavailableError."""
        if self._client is None:
            return None
        return await self._client.usage(self._limits)

    async def came_back(self) -> list[str]:
        """Return an empty list: the workspace is not copied back."""
        return []

    async def left_behind(self) -> list[str]:
        """Return a line for each new file in the workspace that the user's programs would execute."""
        return await asyncio.to_thread(self._guard.left_behind) if self._guard is not None else []

    async def put_back(self, name: str) -> str:
        """Restore the name of a file that was moved aside; see core.protocols.Runtime."""
        if self._guard is None:
            raise UsageError("No file was moved aside in this sandbox.")
        return await asyncio.to_thread(self._guard.put_back, name)

    async def list_folder(self, path: str) -> list[str]:
        """Return the names in a folder of the sandbox; see core.protocols.Runtime."""
        return await self._running.list_folder(path)

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """Return the content of a file of the sandbox; see core.protocols.Runtime."""
        return await self._running.read_file(path, max_bytes)

    @property
    def _running(self) -> ActionExecutionClient:
        if self._client is None:
            raise RuntimeUnavailableError("The runtime is not running. Start it first.")
        return self._client

    async def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """Yield the page in the browser whenever it changes; see core.protocols.Runtime."""
        client: ActionExecutionClient | None = None
        while True:
            client = await self._client_after(client)
            with suppress(RuntimeUnavailableError):  # the server ended; the next action reports it
                async with aclosing(client.watch_page()) as pages:
                    async for page in pages:
                        yield page

    async def _client_after(self, known: ActionExecutionClient | None) -> ActionExecutionClient:
        """Wait until another server than that of `known` runs, and return its client."""
        async with self._started:
            await self._started.wait_for(lambda: self._client not in (None, known))
            assert self._client is not None
            return self._client

    async def run_server(
        self, command: Sequence[str], environ: Mapping[str, str], hosts: Sequence[str], connect: Connect
    ) -> str:
        """Run an MCP server inside; see core.protocols.Runtime."""
        failed_starts = self._failed_starts
        async with self._started:
            await self._started.wait_for(
                lambda: self._client not in (None, self._lost) or self._failed_starts > failed_starts
            )
            client = self._client
        if client is None or client is self._lost:
            raise RuntimeUnavailableError("The sandbox could not be started.")
        try:
            return await client.run_server(command, environ, connect)
        except RuntimeUnavailableError:
            self._lost = client
            raise
        except LookupError as error:
            raise UsageError(
                f"In the sandbox {error}. {self._missing_program_advice}. Or run the server on this machine as you: "
                "name it under [mcp.servers] of your own config.toml, with sandbox = false."
            ) from error

    async def jobs(self) -> list[Job]:
        """Return the processes that commands left running; none before the start. Raises RuntimeUnavailableError."""
        return [] if self._client is None else await self._client.jobs()

    async def end_job(self, pid: int) -> None:
        """End a job and its child processes. Raises UsageError if it is gone, RuntimeUnavailableError."""
        if self._client is not None:
            await self._client.end_job(pid)

    async def ports(self) -> list[Port]:
        """Return the ports on which the agent's programs listen; none before the start."""
        return [] if self._client is None else await self._client.ports()

    async def editor(self) -> str:
        """Start the editor of the sandbox; see core.protocols.Runtime."""
        return await self._running.editor()

    async def forward_port(self, port: int) -> int:
        """Make a port of the sandbox reachable on this machine; see core.protocols.Runtime."""
        client = self._running
        if self.isolation == "none":
            return port
        if port not in self._forwards:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._tunnels.add(task)
                try:
                    # The program or the sandbox has ended, or `aclose` cancels: asyncio would log that as an error.
                    with suppress(RuntimeUnavailableError, asyncio.CancelledError):
                        await client.tunnel(port, reader, writer)
                finally:
                    self._tunnels.discard(task)
                    writer.close()

            try:
                self._forwards[port] = await asyncio.start_server(serve, LOOPBACK, port)
            except OSError:  # it is in use here
                self._forwards[port] = await asyncio.start_server(serve, LOOPBACK, 0)
        return int(self._forwards[port].sockets[0].getsockname()[1])

    async def type_keys(self, keys: bytes) -> None:
        """Send keys to the terminal. Raises UsageError if no program takes them, RuntimeUnavailableError."""
        await self._running.send_to_terminal("input", keys)

    async def resize_terminal(self, rows: int, columns: int) -> None:
        """Set the size of the terminal. Raises RuntimeUnavailableError."""
        await self._running.send_to_terminal("resize", {"rows": rows, "columns": columns})

    async def give_terminal_back(self) -> None:
        """End the action with which the user took over the terminal. Raises RuntimeUnavailableError."""
        await self._running.send_to_terminal("give_back", b"")
