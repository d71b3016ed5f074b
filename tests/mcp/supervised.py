"""A supervisor of the servers that a test names, with helpers for tests."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.events import MCPAction, Observation
from core.mcp.supervisor import Server, ServerState, Supervisor
from core.mcp.tool_registry import Toolbox
from core.settings.sections import MCPSettings

HERE = Path(__file__).parent
GOOD, FAULTY = str(HERE / "server.py"), str(HERE / "faulty.py")
START_S = 60.0
"""For a server that has to come up on a machine that is busy."""


def good(**more: Any) -> dict[str, Any]:
    """The settings of the whole server, on its pipes."""
    return {"command": sys.executable, "args": [GOOD, "stdio"], "start_s": START_S, "sandbox": False, **more}


def faulty(mode: str, **more: Any) -> dict[str, Any]:
    """The settings of the server with this trouble."""
    return {"command": sys.executable, "args": ["-I", "-S", FAULTY, mode], "sandbox": False, **more}


class Supervised:
    """A supervisor, its settings, and one conversation's toolbox."""

    def __init__(self, home: Path, workspace: Path, servers: dict[str, Any], environ: dict[str, str]) -> None:
        self.workspace = str(workspace)
        self.settings = MCPSettings.model_validate({"servers": servers})
        self.supervisor = Supervisor(home, lambda: self.settings, {**os.environ, **environ})
        self.box = Toolbox(self.supervisor, self.workspace)
        self.told: list[str] = []
        self._changed = asyncio.Condition()
        self.supervisor.listeners.add(self._on_server)

    def _on_server(self, server: Server, words: str) -> None:
        if words:
            self.told.append(words)

    async def set(self, servers: dict[str, Any]) -> None:
        """Have these servers, and wait until none is connecting."""
        self.settings = MCPSettings.model_validate({"servers": servers})
        await self.supervisor.open(self.workspace)
        await self.supervisor.settled(self.workspace, START_S)

    def server(self, name: str) -> Server:
        return next(one for one in self.supervisor.at(self.workspace) if one.spec.name == name)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once something holds, which a change of a server brings about."""
        async with asyncio.timeout(START_S):
            async with self.supervisor._changed:
                await self.supervisor._changed.wait_for(holds)

    async def until_state(self, name: str, state: ServerState) -> None:
        await self.until(lambda: self.server(name).state is state)

    async def names(self) -> list[str]:
        return [tool.name for tool in await self.box.tools()]

    async def call(self, name: str, **arguments: Any) -> Observation:
        return await self.box.call(MCPAction(name=name, arguments=arguments))


@asynccontextmanager
async def supervised(
    tmp_path: Path, servers: dict[str, Any] | None = None, environ: dict[str, str] | None = None
) -> AsyncIterator[Supervised]:
    """A supervisor over these servers of the user, which have settled."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    it = Supervised(tmp_path / "home", workspace, servers or {}, environ or {})
    try:
        await it.supervisor.open(it.workspace)
        await it.supervisor.settled(it.workspace, START_S)
        yield it
    finally:
        await it.supervisor.aclose()
