"""Real shells, real servers, real sockets; and a way to wait for the end of a process without polling."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from core.events import CmdOutputObservation, CmdRunAction, Frame, TerminalOutput
from core.plugin_requirements import OURS, required
from runtime.client import ActionExecutionClient
from runtime.local.local_runtime import LocalRuntime
from runtime.plugins.base import PluginContext, PluginStartup
from runtime.server.action_executor import ActionExecutor
from runtime.server.answer_cache import TIMES, Times
from runtime.server.app import ActionServer, TerminalRoutes
from runtime.server.bash_session import BashSession
from runtime.server.file_actions import Files
from runtime.server.mcp_proxy import MCPProxy
from runtime.server.mcp_stdio import MCPStdio
from runtime.server.request_guard import RequestGuard
from runtime.server.shell import Environment
from tests.runtime.action_server import KEY, Process, Server
from tests.warm_servers import WarmRuntime

WITHIN_S = 60.0
"""Until something has to have happened: a guard against hanging, generous because other tests may have the cores."""
NO_CHANGE_TIMEOUT_S = 0.5
"""Of the shells in these tests: short to wait for, long for a busy machine."""


class Watcher:
    """Takes live frames, and lets a test wait until something was shown."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._grown = asyncio.Event()

    def __call__(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._grown.set()

    async def emit(self, frame: Frame) -> None:
        self(frame)

    @property
    def shown(self) -> bytes:
        return b"".join(frame.data for frame in self.frames if isinstance(frame, TerminalOutput))

    async def sees(self, text: bytes, after: int = 0) -> bytes:
        """Wait until `text` was shown behind the first `after` bytes; the answer is everything that was shown."""
        async with asyncio.timeout(WITHIN_S):
            while text not in self.shown[after:]:
                self._grown.clear()
                await self._grown.wait()
        return self.shown

    async def sees_frame(self, frame: Frame) -> None:
        """Wait until this frame came."""
        async with asyncio.timeout(WITHIN_S):
            while frame not in self.frames:
                self._grown.clear()
                await self._grown.wait()


class Shell:
    """A BashSession and its live output."""

    def __init__(self, session: BashSession) -> None:
        self.session = session
        self.watcher = Watcher()

    async def run(self, command: str, action_id: int = 7, **fields: Any) -> CmdOutputObservation:
        action = CmdRunAction(command=command, **fields)
        return await self.session.carry_out(action, action_id, self.watcher.emit)


def place(folder: Path, **fields: Any) -> PluginContext:
    """The context of a plugin without a server."""
    values: dict[str, Any] = {"folder": folder, "cwd": lambda: str(folder), "environ": Environment(os.environ)}
    return PluginContext(str(folder), **{**values, **fields})


def every_plugin(folder: Path) -> PluginStartup:
    """The plugins of Handloom, not started."""
    return PluginStartup(required(plugin.name for plugin in OURS), place(folder))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    yield process
    if process.child is not None:
        with process.child:
            process.child.terminate()


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    session = BashSession(str(tmp_path), no_change_timeout_s=NO_CHANGE_TIMEOUT_S)
    await session.start()
    yield Shell(session)
    await session.aclose()


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalRuntime]:
    """A local runtime that is started."""
    runtime = WarmRuntime(tmp_path, options=("--no-change-timeout", "1"))
    await runtime.start()
    yield runtime
    await runtime.aclose()


@asynccontextmanager
async def serving(folder: Path, times: Times = TIMES) -> AsyncIterator[Server]:
    """An application with a shell and files, in this loop."""
    bash = BashSession(str(folder), no_change_timeout_s=1)
    await bash.start()
    executor = ActionExecutor([bash.table, Files(lambda: bash.cwd).table])
    guard, servers = RequestGuard(KEY), MCPProxy(str(folder), os.environ)
    routes = [*TerminalRoutes(bash).table, *servers.table, *MCPStdio(str(folder), os.environ).table]
    app = ActionServer(executor, guard, str(folder), routes=routes, times=times).app
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    assert runner.server is not None
    listening = runner.server
    accepting = await asyncio.get_running_loop().create_server(lambda: guard.watch(listening), "127.0.0.1", 0)
    yield Server(app, accepting.sockets[0].getsockname()[1], guard)
    accepting.close()
    await bash.aclose()
    await servers.aclose()
    await runner.cleanup()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def client(server: Server) -> AsyncIterator[ActionExecutionClient]:
    async with ActionExecutionClient(KEY, url=server.url) as client:
        yield client


def has_ended(pid: int, within_s: float = WITHIN_S) -> bool:
    """Wait for the end of a process by the kernel's event; True immediately if it has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], within_s)[0])
    finally:
        os.close(fd)


async def settled(session: BashSession) -> None:
    """Wait for the end of what runs, without asking the session for anything."""
    assert await session._shell.ends_within(WITHIN_S)
