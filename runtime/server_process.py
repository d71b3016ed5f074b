"""ServedRuntime: what every runtime with an action server of its own has in common.

It has at most one server at a time, and a client for it once that answers. How a server is made and how it ends is the
launcher's (`_open`, `_shut`); everything between is here, so that whatever the sandbox, the same action gets the same
answer. Invariant: while `_client` is set, `_open` has succeeded and `_shut` has not begun.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from core.errors import RuntimeUnavailableError, UsageError
from core.events import Action, Frame, Observation, PageShown
from core.sandbox_types import Job, SandboxUsage, Say, silently
from runtime.cancellation import seen_through
from runtime.shortage_messages import noted

if TYPE_CHECKING:
    from runtime.client import ActionExecutionClient


class ServedRuntime(ABC):
    """Carries out actions through an action server. Implements core.protocols.Runtime but for what separates it."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether its workspace is not the folder of this machine; see core.protocols.Runtime."""
        return False

    workspace_host = ""
    web_hosts: Mapping[str, int] = MappingProxyType({})

    def __init__(self) -> None:
        self._limits: tuple[str, ...] = ()
        """What the sandbox may use at most, for people."""
        self._client: ActionExecutionClient | None = None
        self._starting = asyncio.Lock()
        self._started = asyncio.Condition()

    # -- the launcher's ----------------------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self, say: Say) -> ActionExecutionClient:
        """Make a server ready, and a client for it. Raises RuntimeUnavailableError; `_shut` is called then."""

    @abstractmethod
    async def _shut(self) -> None:
        """End what `_open` began, however far it came. The client is closed already."""

    async def _revived(self) -> bool:
        """Whether a server that did not answer does so again, by something that the launcher did."""
        return False

    async def _fallen(self) -> str:
        """Why the sandbox may not be used any more although it runs; empty where it may."""
        return ""

    async def _moved_aside(self) -> list[str]:
        """Move aside what the action made that programs outside would run; a line for each."""
        return []

    async def _carry_out(
        self, client: ActionExecutionClient, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        return await client.execute(action, action_id, on_frame)

    async def _remarks(self) -> list[str]:
        """What is to be said below the output of the command that has just ended; empty texts say nothing."""
        return []

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self, say: Say = silently) -> None:
        """Start the server unless it runs. Raises RuntimeUnavailableError; may be called again then."""
        async with self._starting:
            if self._client is not None and (
                await self._client.alive() or (await self._revived() and await self._client.alive())
            ):
                return
            await seen_through(self._end())
            try:
                client = await self._open(say)
                async with self._started:
                    self._client = client
                    self._started.notify_all()
            except BaseException:
                await seen_through(self._end())
                raise

    async def aclose(self) -> None:
        """End the server and everything that it started. May be called twice."""
        async with self._starting:
            await seen_through(self._end())

    async def rest(self) -> None:
        """Nobody needs it for now: the same as the end of it, where nothing of it can be kept."""
        await self.aclose()

    async def _end(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        await self._shut()

    # -- what it is asked --------------------------------------------------------------------------------------------

    async def execute(self, action: Action, action_id: int, on_frame: Callable[[Frame], None]) -> Observation:
        """Carry out one action. Raises RuntimeUnavailableError where the server is not there; see `start`."""
        if self._client is None:
            raise RuntimeUnavailableError("The runtime is not started. Start it first.")
        if fallen := await self._fallen():
            await self.aclose()
            raise RuntimeUnavailableError(f"{fallen}. The sandbox was ended; the next action starts a new one.")
        try:
            observation = await self._carry_out(self._client, action, action_id, on_frame)
        finally:
            moved = await self._moved_aside()
        for line in (*moved, *await self._remarks()):
            observation = noted(observation, line)
        return observation

    async def usage(self) -> SandboxUsage | None:
        """What the server and everything that it started use; None before the start. Raises RuntimeUnavailableError."""
        if self._client is None:
            return None
        return await self._client.usage(self._limits)

    async def came_back(self) -> list[str]:
        """Nothing: the workspace is the folder of this machine, or stays where it is."""
        return []

    async def put_back(self, name: str) -> str:
        """Give a file that was moved aside its name again; see core.protocols.Runtime."""
        raise UsageError("Nothing is moved aside in this sandbox.")

    async def list_folder(self, path: str) -> list[str]:
        """The names in a folder inside; see core.protocols.Runtime."""
        return await self._running.list_folder(path)

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """The content of a file inside; see core.protocols.Runtime."""
        return await self._running.read_file(path, max_bytes)

    @property
    def _running(self) -> ActionExecutionClient:
        if self._client is None:
            raise RuntimeUnavailableError("The runtime is not started. Start it first.")
        return self._client

    async def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """The page in the browser; see core.protocols.Runtime."""
        client: ActionExecutionClient | None = None
        while True:
            client = await self._client_after(client)
            with suppress(RuntimeUnavailableError):  # it ended; whoever acts is told
                async with aclosing(client.watch_page()) as pages:
                    async for page in pages:
                        yield page

    async def _client_after(self, known: ActionExecutionClient | None) -> ActionExecutionClient:
        """The client of the server that runs, once that is another one than this."""
        async with self._started:
            await self._started.wait_for(lambda: self._client not in (None, known))
            assert self._client is not None
            return self._client

    async def jobs(self) -> list[Job]:
        """What commands started and still runs; none before the start. Raises RuntimeUnavailableError."""
        return [] if self._client is None else await self._client.jobs()

    async def end_job(self, pid: int) -> None:
        """End one of them and everything below it. Raises UsageError where it is gone, RuntimeUnavailableError."""
        if self._client is not None:
            await self._client.end_job(pid)

    async def type_keys(self, keys: bytes) -> None:
        """Keys for its terminal. Raises UsageError where nothing takes them, RuntimeUnavailableError."""
        await self._at_terminal("input", keys)

    async def resize_terminal(self, rows: int, columns: int) -> None:
        """The size of its terminal. Raises RuntimeUnavailableError."""
        await self._at_terminal("resize", {"rows": rows, "columns": columns})

    async def give_terminal_back(self) -> None:
        """End the action with which the user took the terminal over. Raises RuntimeUnavailableError."""
        await self._at_terminal("give_back", b"")

    async def _at_terminal(self, what: str, said: bytes | dict[str, int]) -> None:
        await self._running.at_terminal(what, said)
