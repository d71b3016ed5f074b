"""How a sandbox uses its container engine, which sees this machine's files (LocalEngine) or does not.

A local engine mounts folders and sockets of this machine in the container. With a remote engine
(`remote_engine.RemoteEngine`) the workspace is copied there and back, and connections go through the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

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


class EngineAccess(Protocol):
    """The operations on one sandbox that depend on the kind of engine. Methods raise RuntimeUnavailableError."""

    @property
    def is_remote(self) -> bool:
        """Whether the engine does not see this machine's files."""
        ...

    async def prepare(
        self,
        engine: docker.DockerClient,
        folder: SandboxFolder,
        specification: Specification,
        name: str,
        say: Say,
    ) -> list[str]:
        """Provide the files that a new container of this name needs.

        Returns lines for the user about work that an earlier sandbox had left.
        """
        ...

    async def connect(
        self, engine: docker.DockerClient, container: Container, folder: SandboxFolder
    ) -> ActionExecutionClient:
        """Return a client of the server in a running container. The server need not answer yet."""
        ...

    async def execute(
        self, launched: Launched, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        """Carry out one action. The error says why if the sandbox stops answering."""
        ...

    async def fetch(self, launched: Launched) -> list[str]:
        """Copy the container's changes into the workspace, and keep the container. Returns lines for the user.

        Does not raise: a failure is one of the lines.
        """
        ...

    async def end(self, launched: Launched) -> list[str]:
        """Copy the container's changes into the workspace, then remove container and volumes. Returns as `fetch`.

        Raises RuntimeUnavailableError if the container could not be removed.
        """
        ...


class LocalEngine:
    """EngineAccess for an engine that sees this machine's files, which are mounted in the container."""

    is_remote = False

    async def prepare(
        self,
        engine: docker.DockerClient,
        folder: SandboxFolder,
        specification: Specification,
        name: str,
        say: Say,
    ) -> list[str]:
        await asyncio.to_thread(folder.prepare, specification.user)
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
        """Carry out one action with health checks. A local connection does not break, so silence or a closed connection
        means that the sandbox has ended, and the engine knows why."""
        client, container = launched.client, launched.container
        try:
            return await with_health_check(
                client.execute(action, action_id, on_frame), watch_health(client.alive, why=container.why_gone)
            )
        except UnresponsiveError as error:
            raise RuntimeUnavailableError(gone(str(error))) from error
        except RuntimeUnavailableError as error:
            if launched.is_released:
                raise  # this process has ended it
            raise RuntimeUnavailableError(gone(await container.why_gone())) from error

    async def fetch(self, launched: Launched) -> list[str]:
        """Nothing to do: the workspace is the same folder."""
        return []

    async def end(self, launched: Launched) -> list[str]:
        await launched.container.remove()
        return []
