"""An engine of this machine: what a sandbox needs lies in folders that are mounted in its container."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from core.errors import RuntimeUnavailableError
from core.events import Action, Frame, Observation
from core.sandbox_types import Say
from runtime.docker.container import Container, gone
from runtime.docker.container_spec import Specification
from runtime.docker.sandbox_folder import SandboxFolder
from runtime.health_check import UnresponsiveError, watch_health, with_health_check

if TYPE_CHECKING:
    import docker

    from runtime.client import ActionExecutionClient
    from runtime.docker.container_launch import Launched


class Near:
    """Implements `reach.Reach`."""

    is_far = False

    async def furnish(
        self,
        engine: docker.DockerClient,
        folder: SandboxFolder,
        specification: Specification,
        name: str,
        say: Say,
    ) -> list[str]:
        await asyncio.to_thread(folder.furnish, specification.user)
        return []

    async def connect(
        self, engine: docker.DockerClient, container: Container, folder: SandboxFolder
    ) -> ActionExecutionClient:
        module = await asyncio.to_thread(import_module, "runtime.client")  # 0.1 s the first time
        try:
            socket = await asyncio.to_thread(folder.server)
        except OSError as error:
            raise RuntimeUnavailableError(f"The sandbox cannot be reached: {error}. Try again.") from error
        client: ActionExecutionClient = module.ActionExecutionClient(await asyncio.to_thread(folder.key), uds=socket)
        return client

    async def execute(
        self, launched: Launched, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        """Carry out one action under the pulse of the server: a link of this machine does not break, so silence or a
        break is the sandbox's end, and the engine knows why."""
        client, container = launched.client, launched.container
        try:
            return await with_health_check(
                client.execute(action, action_id, on_frame), watch_health(client.alive, why=container.why_gone)
            )
        except UnresponsiveError as error:
            raise RuntimeUnavailableError(gone(str(error))) from error
        except RuntimeUnavailableError as error:
            if launched.is_let_go:
                raise  # we ended it ourselves
            raise RuntimeUnavailableError(gone(await container.why_gone())) from error

    async def fetch(self, launched: Launched) -> list[str]:
        """The workspace is the same folder."""
        return []

    async def end(self, launched: Launched) -> list[str]:
        await launched.container.remove()
        return []
