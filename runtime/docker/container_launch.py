"""Get a container whose server answers: create one, or reattach to an existing one.

A new container is ready when its server prints so on standard output, which is followed instead of polling. A failed
launch leaves neither container nor socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import RuntimeUnavailableError
from core.sandbox_types import Say, silently
from runtime.cancellation import run_to_completion
from runtime.docker.container import Container, call_engine, refused
from runtime.docker.container_spec import HOME_LABEL, SPECIFICATION_LABEL, Specification
from runtime.docker.engine_access import EngineAccess
from runtime.docker.sandbox_folder import SandboxFolder
from runtime.isolation import protected_paths

if TYPE_CHECKING:
    import docker

    from runtime.client import ActionExecutionClient

START_TIMEOUT_S = 60.0
"""Enough for a cold disk on a busy machine; half a second is usual."""
READY = b"ready "


@dataclass
class Launched:
    """A container whose server answers, with its client, folder and specification."""

    container: Container
    client: ActionExecutionClient
    folder: SandboxFolder
    specification: Specification
    engine: docker.DockerClient
    messages: list[str] = field(default_factory=list)
    """Lines for the user about work that an earlier sandbox had left."""
    is_released: bool = False
    """Whether this process has ended or given up the container."""
    held: protected_paths.HeldMounts | None = None
    """The mount points of a spare container; the workspace guard of its conversation holds them afterwards."""


async def launch(
    engine: docker.DockerClient,
    access: EngineAccess,
    folder: SandboxFolder,
    specification: Specification,
    *,
    name: str,
    home: str,
    say: Say = silently,
) -> Launched:
    """Create a container for a locked folder. Raises RuntimeUnavailableError and leaves nothing behind."""
    from docker import errors

    messages = await access.prepare(engine, folder, specification, name, say)
    parameters = specification.parameters(name, home, folder.path)
    say("Making the container")
    creating = asyncio.ensure_future(_created(engine, name, parameters, home))
    try:
        container = await asyncio.shield(creating)
    except errors.ImageNotFound as error:
        raise RuntimeUnavailableError(
            f"The image {specification.image} does not exist. Build it with: handloom image build"
        ) from error
    except asyncio.CancelledError:
        await run_to_completion(_not_made(creating))
        raise
    try:
        say("Starting the container")
        await _started(engine, container)
        client = await _connected(engine, access, container, folder)
    except BaseException:
        await run_to_completion(container.remove())
        raise
    return Launched(container, client, folder, specification, engine, messages)


async def _not_made(creating: asyncio.Future[Container]) -> None:
    """Remove a container that is being created, once it exists, because the engine cannot cancel that."""
    with suppress(Exception):  # boundary to an engine that may be failing; nobody waits for this container
        await (await creating).remove()


async def _created(engine: docker.DockerClient, name: str, parameters: Mapping[str, object], home: str) -> Container:
    """Raises RuntimeUnavailableError, ImageNotFound."""
    from docker import errors

    def create() -> str | None:
        try:
            made = engine.containers.create(**parameters)
            return str(made.id)
        except errors.APIError as error:
            if error.status_code == 409:
                return None
            raise

    id = await call_engine(create)
    if id is None:
        await _remove_own(engine, name, home)
        id = await call_engine(create)
    if id is None:
        raise RuntimeUnavailableError(f"Another program made a container with the name {name}. Try again.")
    return Container(engine, id, name)


async def _remove_own(engine: docker.DockerClient, name: str, home: str) -> None:
    """Remove Handloom's container of this name. Raises RuntimeUnavailableError if it belongs to another program."""
    found = await find(engine, name)
    if found is None:
        return
    container, labels = found
    if labels.get(HOME_LABEL) != home:
        raise RuntimeUnavailableError(
            f"A container that is not Handloom's has the name {name}. Rename or remove it (docker rm -f {name}), "
            "then try again."
        )
    await container.remove()


async def find(engine: docker.DockerClient, name: str) -> tuple[Container, Mapping[str, str]] | None:
    """Return the container of this name and its labels, or None. Raises RuntimeUnavailableError."""
    from docker import errors

    try:
        found = await call_engine(engine.api.inspect_container, name)
    except errors.NotFound:
        return None
    return Container(engine, found["Id"], name), found["Config"]["Labels"] or {}


async def _started(engine: docker.DockerClient, container: Container) -> None:
    """Start it and wait until its server is ready. Raises RuntimeUnavailableError."""
    from docker import errors

    def run() -> bytes:
        """Return the output of a server that ended before it was ready; empty if it is ready."""
        engine.api.start(container.id)
        url = f"{engine.api.base_url}/v{engine.api.api_version}/containers/{container.id}/logs"
        said = b""
        # The SDK's function for logs leaves its socket open.
        with engine.api.get(url, params={"follow": 1, "stdout": 1, "stderr": 1}, stream=True) as log:
            for piece in log.iter_content(None):
                said += piece
                if READY in said:
                    return b""
        return said or b"it said nothing"

    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            said = (await call_engine(run)).decode("utf-8", "replace").strip().rpartition("\n")[2]
    except TimeoutError as error:
        raise RuntimeUnavailableError("The sandbox did not start in time. Try again.") from error
    except errors.NotFound as error:
        raise RuntimeUnavailableError(refused(str(error.explanation or error))) from error
    if said:
        raise RuntimeUnavailableError(f"The sandbox did not start: {said}. Try again.")


async def _connected(
    engine: docker.DockerClient, access: EngineAccess, container: Container, folder: SandboxFolder
) -> ActionExecutionClient:
    """Connect to the server. Raises RuntimeUnavailableError if it does not accept our key."""
    client = await access.connect(engine, container, folder)
    if await client.alive():
        return client
    await client.aclose()
    raise RuntimeUnavailableError("The sandbox does not answer. Try again.")


async def reattach(
    engine: docker.DockerClient,
    access: EngineAccess,
    folder: SandboxFolder,
    specification: Specification,
    *,
    name: str,
    home: str,
) -> Launched | None:
    """Return the container that an earlier process has left for this folder, if its specification is the same.

    Otherwise the container is removed. Raises RuntimeUnavailableError.
    """
    found = await find(engine, name)
    if found is None:
        return None
    container, labels = found
    if labels.get(HOME_LABEL) != home:
        return None  # not Handloom's: `launch` reports it
    if labels.get(SPECIFICATION_LABEL) == specification.key:
        try:
            if await container.status() == "paused":
                await container.unpause()
            client = await _connected(engine, access, container, folder)
            return Launched(container, client, folder, specification, engine)
        except RuntimeUnavailableError:  # its server has died or has another key: a new container replaces it
            pass
    await container.remove()
    return None
