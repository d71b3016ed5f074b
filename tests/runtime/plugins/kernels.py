"""A JupyterPlugin for tests with a controllable shell folder, and the results of its cells."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.events import IPythonRunCellAction, IPythonRunCellObservation
from runtime.plugins.agent_skills.plugin import AgentSkillsPlugin
from runtime.plugins.base import PluginContext
from runtime.plugins.jupyter.kernel import Kernel
from runtime.plugins.jupyter.plugin import JupyterPlugin
from runtime.server.outputs import Outputs
from runtime.server.shell import Environment
from tests.runtime.conftest import Watcher


class Cells:
    """Runs cells in a kernel of its own."""

    def __init__(self, folder: Path, *, skills: bool = False, **environ: str) -> None:
        self.folder = folder
        """Where the kernel begins, as the shell does."""
        self.cwd = str(folder)
        self.watcher = Watcher()
        self.private = folder.parent / "private"
        self.private.mkdir()
        self.outputs = Outputs(folders=[str(self.private)])
        self.environment = Environment({**os.environ, **environ})
        self._context = PluginContext(
            str(folder), self.private, lambda: self.cwd, self.environment, outputs=self.outputs
        )
        self.plugin = JupyterPlugin(self._context)
        if skills:
            AgentSkillsPlugin(replace(self._context, plugins={"jupyter": self.plugin}))

    @property
    def kernel(self) -> Kernel:
        assert self.plugin.pool.current is not None
        return self.plugin.pool.current

    async def run(self, code: str, **fields: Any) -> IPythonRunCellObservation:
        """The observation of a cell, without the lines on folder and interpreter."""
        action = IPythonRunCellAction(code=code, **{"include_extra": False, **fields})
        observation = await self.plugin.carry_out(action, 1, self.watcher.emit)
        assert isinstance(observation, IPythonRunCellObservation), observation
        return observation

    async def says(self, code: str, **fields: Any) -> str:
        return (await self.run(code, **fields)).content

    async def begins(self, code: str, **fields: Any) -> asyncio.Task[str]:
        """A running cell that has printed `begun`."""
        running = asyncio.create_task(self.says(f"print('begun', flush=True)\n{code}", **fields))
        await self.watcher.sees(b"begun\r\n")
        return running


@asynccontextmanager
async def cells(folder: Path, *, skills: bool = False, **environ: str) -> AsyncIterator[Cells]:
    """A kernel that listens, in a folder that is made for it."""
    work = folder / "work"
    work.mkdir()
    made = Cells(work, skills=skills, **environ)
    try:
        await made.plugin.start()
        yield made
    finally:
        await made.plugin.aclose()
        await made.outputs.aclose()
