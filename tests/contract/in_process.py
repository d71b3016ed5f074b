"""A runtime without wire and without process: the ActionExecutor of the server, driven in the test's own loop.

What fails on it fails in the executor; what fails on the others alone fails on the way to it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from core.errors import RuntimeUnavailableError
from core.events import Action, Frame, Observation
from core.protocols import FrameSink
from core.sandbox_types import Say, silently
from runtime.server.action_executor import ActionExecutor, TaskList
from runtime.server.bash_session import BashSession
from runtime.server.file_actions import Files
from runtime.server.shell import Environment
from tests.doubles import Unconfined


class InProcessRuntime(Unconfined):
    """Implements core.protocols.Runtime. After `no_change_timeout_s` of silence a command returns a hint."""

    def __init__(self, working_dir: Path, no_change_timeout_s: float) -> None:
        self.working_dir = str(working_dir)
        self._no_change_timeout_s = no_change_timeout_s
        self._environment = Environment(os.environ)
        self._bash: BashSession | None = None
        self._executor: ActionExecutor | None = None

    async def start(self, say: Say = silently) -> None:
        if self._bash is None:
            bash = BashSession(
                self.working_dir, environment=self._environment, no_change_timeout_s=self._no_change_timeout_s
            )
            await bash.start()
            self._executor = ActionExecutor([bash.table, Files(lambda: bash.cwd).table, TaskList().table])
            self._bash = bash

    async def execute(self, action: Action, action_id: int, on_frame: FrameSink) -> Observation:
        if self._executor is None:
            raise RuntimeUnavailableError("The runtime is not running. Start it first.")

        async def emit(frame: Frame) -> None:
            on_frame(frame)

        return await self._executor.execute(action, action_id, emit)

    async def set_environment(self, variables: Mapping[str, str | None]) -> None:
        self._environment.change(variables)

    async def aclose(self) -> None:
        bash, self._bash, self._executor = self._bash, None, None
        if bash is not None:
            await bash.aclose()
