"""How an engine is reached: what differs between one that sees this machine's files and one that does not.

near    folders and sockets of this machine are mounted in the container
far     the workspace is copied to the engine and back, and every connection goes through the engine
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from core.events import Action, Frame, Observation
from core.sandbox_types import Say
from runtime.docker.container import Container
from runtime.docker.container_spec import Specification
from runtime.docker.sandbox_folder import SandboxFolder

if TYPE_CHECKING:
    import docker

    from runtime.client import ActionExecutionClient
    from runtime.docker.container_launch import Launched


class Reach(Protocol):
    """What a fleet does for one sandbox, by where its engine is. Methods raise RuntimeUnavailableError."""

    @property
    def is_far(self) -> bool:
        """Whether the engine sees nothing of this machine."""
        ...

    async def furnish(
        self,
        engine: docker.DockerClient,
        folder: SandboxFolder,
        specification: Specification,
        name: str,
        say: Say,
    ) -> list[str]:
        """Have everything there that a new container of this name is going to see.

        The answer is what the user should know of what was left there before, a line each.
        """
        ...

    async def connect(
        self, engine: docker.DockerClient, container: Container, folder: SandboxFolder
    ) -> ActionExecutionClient:
        """A client of the server in a container that runs, which need not answer."""
        ...

    async def execute(
        self, launched: Launched, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        """Carry out one action, and say why where the sandbox does not answer any more."""
        ...

    async def fetch(self, launched: Launched) -> list[str]:
        """Have the workspace here be as it is in the container, which stays; a line each of what the user should know.

        Does not raise: where it fails, that is a line.
        """
        ...

    async def end(self, launched: Launched) -> list[str]:
        """Remove the container and all that belongs to it at the engine, once what it changed is here; else as `fetch`.

        Raises RuntimeUnavailableError where the container stays.
        """
        ...
