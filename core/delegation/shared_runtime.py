"""The runtime that a delegate shares with its parent: the same sandbox, which only the parent ends.

For a sandbox whose workspace is not on this machine: there is only one, so a parent and its delegates work in it
together, as in OpenHands V0. Their commands go through one shell, one after the other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path

from core.events import Action, Observation, PageShown
from core.protocols import FrameSink, Runtime
from core.sandbox_types import Connect, Denials, GitAccess, Job, Port, SandboxUsage, Say, silently


class SharedRuntime:
    """Implements core.protocols.Runtime with that of the parent. Closing it ends nothing."""

    is_elsewhere = True

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def isolation(self) -> str:
        return self._runtime.isolation

    @property
    def why_open(self) -> str:
        return self._runtime.why_open

    @property
    def workspace_host(self) -> str:
        return self._runtime.workspace_host

    @property
    def web_hosts(self) -> Mapping[str, int]:
        return self._runtime.web_hosts

    async def facts(self) -> Mapping[str, str]:
        """As the parent."""
        return await self._runtime.facts()

    async def list_folder(self, path: str) -> list[str]:
        """As the parent. Raises RuntimeUnavailableError."""
        return await self._runtime.list_folder(path)

    async def read_file(self, path: str, max_bytes: int) -> bytes | None:
        """As the parent. Raises UsageError, RuntimeUnavailableError."""
        return await self._runtime.read_file(path, max_bytes)

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Does nothing: the runtime is running."""

    async def open_hosts(self, hosts: Sequence[str]) -> None:
        """Does nothing: the parent decides."""

    def allow_git(self, access: GitAccess) -> None:
        """Does nothing: the runtime is running with what the parent may reach."""

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Does nothing: the runtime is running with the denials of the parent."""

    def keep(self, folder: Path) -> None:
        """Does nothing: the parent decides what is kept."""

    @property
    def working_dir(self) -> str:
        return self._runtime.working_dir

    async def start(self, say: Say = silently) -> None:
        """As the parent. Raises RuntimeUnavailableError."""
        await self._runtime.start(say)

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        """As the parent. Raises RuntimeUnavailableError."""
        return await self._runtime.execute(action, action_id, on_frame)

    async def usage(self) -> SandboxUsage | None:
        """As the parent. Raises RuntimeUnavailableError."""
        return await self._runtime.usage()

    async def left_behind(self) -> list[str]:
        """Empty: the parent reports it."""
        return []

    async def put_back(self, name: str) -> str:
        """As the parent. Raises UsageError."""
        return await self._runtime.put_back(name)

    async def came_back(self) -> list[str]:
        """Empty: the parent reports it."""
        return []

    def watch_page(self) -> AsyncGenerator[PageShown, None]:
        """As the parent. Raises UsageError."""
        return self._runtime.watch_page()

    @property
    def runs_servers(self) -> bool:
        return self._runtime.runs_servers

    async def run_server(
        self, command: Sequence[str], environ: Mapping[str, str], hosts: Sequence[str], connect: Connect
    ) -> str:
        """As the parent. Raises UsageError, RuntimeUnavailableError."""
        return await self._runtime.run_server(command, environ, hosts, connect)

    async def jobs(self) -> list[Job]:
        """As the parent. Raises RuntimeUnavailableError."""
        return await self._runtime.jobs()

    async def end_job(self, pid: int) -> None:
        """As the parent. Raises UsageError, RuntimeUnavailableError."""
        await self._runtime.end_job(pid)

    async def ports(self) -> list[Port]:
        """As the parent. Raises RuntimeUnavailableError."""
        return await self._runtime.ports()

    async def forward_port(self, port: int) -> int:
        """As the parent. Raises RuntimeUnavailableError."""
        return await self._runtime.forward_port(port)

    async def editor(self) -> str:
        """As the parent. Raises UsageError, RuntimeUnavailableError."""
        return await self._runtime.editor()

    async def type_keys(self, keys: bytes) -> None:
        """As the parent. Raises UsageError, RuntimeUnavailableError."""
        await self._runtime.type_keys(keys)

    async def resize_terminal(self, rows: int, columns: int) -> None:
        """As the parent. Raises RuntimeUnavailableError."""
        await self._runtime.resize_terminal(rows, columns)

    async def set_environment(self, variables: Mapping[str, str | None]) -> None:
        """As the parent. Raises UsageError, RuntimeUnavailableError."""
        await self._runtime.set_environment(variables)

    async def give_terminal_back(self) -> None:
        """As the parent. Raises RuntimeUnavailableError."""
        await self._runtime.give_terminal_back()

    async def rest(self) -> None:
        """Does nothing: the parent still needs it."""

    async def aclose(self) -> None:
        """Does nothing: the parent still needs it."""
