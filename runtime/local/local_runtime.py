"""LocalRuntime: the action server as a child process on the user's machine.

Its `confinement` isolates it; without one, `isolation` is `none` and commands have the user's permissions. In any case
the server reads from a pipe of this process, so it and everything that it started end when this process ends, for
whatever reason. The server's socket is created here and passed to it open, so that nothing in the sandbox can replace
it with another one or a link.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from core.errors import RuntimeUnavailableError
from core.events import Observation, Refusal
from core.interpreter import start_command
from core.sandbox_types import Denials, GitAccess, Say
from core.secrets.variable_names import without_secret_variables
from runtime.cancellation import run_to_completion
from runtime.isolation.confinement import Confinement, Isolation, Launch, SessionFolder, remove_abandoned
from runtime.server_runtime import ServerRuntime

if TYPE_CHECKING:
    from runtime.client import ActionExecutionClient

START_TIMEOUT_S = 20.0
"""A start usually takes a third of a second, and seconds with a cold disk."""
END_TIMEOUT_S = 6.0
"""The server's own limit is five seconds."""


class LocalRuntime(ServerRuntime):
    """Carries out actions on this machine. Implements core.protocols.Runtime.

    `options` are passed to the server unchanged, such as `--no-change-timeout`. With isolation, the constructor blocks
    for some ten milliseconds.
    """

    def __init__(
        self, working_dir: str | Path, *, options: tuple[str, ...] = (), isolation: Isolation | None = None
    ) -> None:
        super().__init__()
        self._working_dir = Path(working_dir).resolve()
        self._options = options
        self._confinement = Confinement(self._working_dir, isolation or Isolation())
        self._guard = self._confinement.guard
        self._stack = AsyncExitStack()
        self._folder: SessionFolder | None = None
        self._server: asyncio.subprocess.Process | None = None

    @property
    def isolation(self) -> str:
        return "bubblewrap" if self._confinement.is_closed else "none"

    @property
    def why_open(self) -> str:
        """Why there is no isolation although it was requested; empty otherwise."""
        return self._confinement.why_open

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Allow the sandbox to call this host or to read this folder from the next start on."""
        self._confinement.allow(host, folder)

    def allow_git(self, access: GitAccess) -> None:
        """Let git reach this with the user's tokens and ssh keys from the next start on; see core.protocols.Runtime."""
        self._confinement.git_access = access

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Enforce these denials, read at each start; see core.protocols.Runtime."""
        self._confinement.guard.denied = denied

    def keep(self, folder: Path) -> None:
        """Store the undo history of edits in this folder from the next start on."""
        self._confinement.state = folder

    @property
    def working_dir(self) -> str:
        return str(self._working_dir)

    @property
    def server_pid(self) -> int | None:
        """The server's process id, or None."""
        return self._server.pid if self._server is not None else None

    async def facts(self) -> Mapping[str, str]:
        """Return what the agent is told about the sandbox, also before it runs; see core.protocols.Runtime."""
        if self._client is not None and self._confinement.is_closed:
            return await super().facts()
        return await asyncio.to_thread(self._confinement.facts)

    def _boundary(self) -> dict[str, str]:
        return self._confinement.boundary()

    async def _notes(self) -> list[str]:
        return [await asyncio.to_thread(self._confinement.memory_message)]

    def _refusals(self, observation: Observation) -> list[Refusal]:
        return self._confinement.refusals(observation)

    async def open_hosts(self, hosts: Sequence[str]) -> None:
        """Let programs connect to these hosts too; see core.protocols.Runtime."""
        await self._confinement.open_hosts(hosts)

    async def _open(self, say: Say) -> ActionExecutionClient:
        if not await asyncio.to_thread(self._working_dir.is_dir):
            raise RuntimeUnavailableError(f"The workspace {self._working_dir} is not a folder. Choose another one.")
        await asyncio.to_thread(remove_abandoned)
        folder = self._folder = SessionFolder()  # not in a thread: a cancelled start would leave it behind
        key = secrets.token_hex(32)
        key_file = folder.inside / "key"
        _write_key(key_file, key)
        launch = await self._stack.enter_async_context(self._confinement.opened(folder))
        self._limits = launch.limits
        self._git = self._confinement.git
        with folder.log.open("wb") as stderr, _bind(folder.socket) as listener:
            await run_to_completion(self._start_server(launch, folder, listener, key_file, stderr))
        client = await asyncio.to_thread(import_module, "runtime.client")  # 0.1 s, while the server starts
        assert self._server is not None
        assert self._server.stdout is not None
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                ready = await self._server.stdout.readline()
        except TimeoutError:
            ready = b""
        if not ready:
            last = (await asyncio.to_thread(folder.log.read_text, "utf-8", "replace")).strip().rpartition("\n")[2]
            raise RuntimeUnavailableError(
                f"The local runtime did not start: {last or 'it printed nothing'}. Try again."
            )
        await self._confinement.started()
        opened: ActionExecutionClient = client.ActionExecutionClient(key, uds=str(folder.socket))
        return opened

    async def _start_server(
        self, launch: Launch, folder: SessionFolder, listener: socket.socket, key_file: Path, stderr: BinaryIO
    ) -> None:
        command = [
            *launch.command,
            *start_command("runtime.server", "--stdin-lifeline"),
            *("--working-dir", str(self._working_dir), "--key-file", str(key_file)),
            *("--listen-fd", str(listener.fileno()), "--private-dir", str(folder.inside)),
            *launch.options,
            *self._options,
        ]
        environ = {**without_secret_variables(os.environ), **launch.environ}
        self._server = await self._spawn(command, (*launch.fds, listener.fileno()), stderr, environ)

    async def _spawn(
        self, command: Sequence[str], fds: Sequence[int], stderr: BinaryIO, environ: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command,
            pass_fds=fds,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            cwd="/",
            env=environ,
            start_new_session=True,
        )

    async def _shut(self) -> None:
        server, self._server = self._server, None
        folder, self._folder = self._folder, None
        if server is not None:
            await _end_process(server)
        await self._stack.aclose()
        self._stack = AsyncExitStack()
        if folder is not None:
            await asyncio.to_thread(folder.remove)


async def _end_process(server: asyncio.subprocess.Process) -> None:
    """Close the pipe, so that the server kills what it started and ends; send SIGKILL if it does not."""
    assert server.stdin is not None
    server.stdin.close()
    try:
        async with asyncio.timeout(END_TIMEOUT_S):
            await server.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            server.kill()
        await server.wait()


def _bind(path: Path) -> socket.socket:
    """Bind a private socket to this path, without listening. Raises OSError."""
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    path.chmod(0o600)
    return bound


def _write_key(file: Path, key: str) -> None:
    file.touch(0o600)
    file.write_text(key, "ascii")
