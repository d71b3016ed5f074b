"""DockerRuntime for tests: a fleet of its own for each, whose home is a folder beside the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.docker.container_spec import ContainerOptions
from runtime.docker.docker_runtime import DockerRuntime
from runtime.docker.warm_pool import WarmPool
from runtime.isolation.confinement import Isolation
from tests.containers import base_image, engine, sandbox_image


def fleet(
    home: Path, isolation: Isolation | None = None, *, base: str = "", spares: int = 0, **options: Any
) -> WarmPool:
    """A fleet on the image of the tests, which is built at the first call. Blocks then for up to minutes."""
    sandbox_image()
    return WarmPool(
        home, ContainerOptions(base=base or base_image(), spares=spares, **options), isolation or Isolation()
    )


class Contained(DockerRuntime):
    """A DockerRuntime with a fleet for itself, which is closed with it, and with the process of its container."""

    def __init__(self, workspace: Path, **given: Any) -> None:
        options = given.pop("options", ())
        super().__init__(fleet(workspace.with_name(f"{workspace.name}-home"), **given), workspace, options=options)

    @property
    def server_pid(self) -> int | None:
        """The number, on this machine, of the process with which the container ends. Blocks for milliseconds."""
        if self.container_name is None:
            return None
        with engine() as client:
            pid: int = client.api.inspect_container(self.container_name)["State"]["Pid"]
        return pid

    async def aclose(self) -> None:
        await super().aclose()
        await self._pool.aclose()
