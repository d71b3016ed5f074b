"""A container with a server that answers: made anew, or found again.

A new one is ready when its server says so on its standard output, which is followed: nothing is asked for again and
again. What fails on the way leaves neither container nor socket.
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
from runtime.docker.container import Container, asked, refused
from runtime.docker.container_spec import HOME_LABEL, SPECIFICATION_LABEL, Specification
from runtime.docker.engine_access import Reach
from runtime.docker.sandbox_folder import SandboxFolder
from runtime.isolation import protected_paths

if TYPE_CHECKING:
    import docker

    from runtime.client import ActionExecutionClient

START_TIMEOUT_S = 60.0
"""A cold disk and a busy machine; half a second is usual."""
READY = b"ready "


@dataclass
class Launched:
    """A container whose server answers, and what belongs to it."""

    container: Container
    client: ActionExecutionClient
    folder: SandboxFolder
    specification: Specification
    engine: docker.DockerClient
    told: list[str] = field(default_factory=list)
    """What the user should know of what was left there before."""
    is_let_go: bool = False
    """Whether it is we who end it, or do not want it any more."""
    held: protected_paths.HeldMounts | None = None
    """The mount points of one that waits for its conversation; the guard of that holds them afterwards."""


async def launch(
    engine: docker.DockerClient,
    reach: Reach,
    folder: SandboxFolder,
    specification: Specification,
    *,
    name: str,
    home: str,
    say: Say = silently,
) -> Launched:
    """Make a container for a folder that is held. Raises RuntimeUnavailableError; then nothing is left of it."""
    from docker import errors

    told = await reach.furnish(engine, folder, specification, name, say)
    parameters = specification.parameters(name, home, folder.path)
    say("Making the container")
    creating = asyncio.ensure_future(_created(engine, name, parameters, home))
    try:
        container = await asyncio.shield(creating)
    except errors.ImageNotFound as error:
        raise RuntimeUnavailableError(
            f"The image {specification.image} is not there. Make it with: handloom image build"
        ) from error
    except asyncio.CancelledError:
        await run_to_completion(_not_made(creating))
        raise
    try:
        say("Starting the container")
        await _started(engine, container)
        client = await _connected(engine, reach, container, folder)
    except BaseException:
        await run_to_completion(container.remove())
        raise
    return Launched(container, client, folder, specification, engine, told)


async def _not_made(creating: asyncio.Future[Container]) -> None:
    """Take away what is being made, once it is there: the engine cannot be told to stop."""
    with suppress(Exception):  # the boundary to an engine that may be failing: nobody waits for this container
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

    id = await asked(create)
    if id is None:
        await _make_way(engine, name, home)
        id = await asked(create)
    if id is None:
        raise RuntimeUnavailableError(f"Another program made a container with the name {name}. Try again.")
    return Container(engine, id, name)


async def _make_way(engine: docker.DockerClient, name: str, home: str) -> None:
    """Remove the container that has our name, if it is one of ours. Raises RuntimeUnavailableError if it is not."""
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
    """The container of that name, and its labels. Raises RuntimeUnavailableError."""
    from docker import errors

    try:
        found = await asked(engine.api.inspect_container, name)
    except errors.NotFound:
        return None
    return Container(engine, found["Id"], name), found["Config"]["Labels"] or {}


async def _started(engine: docker.DockerClient, container: Container) -> None:
    """Start it and wait until its server is ready. Raises RuntimeUnavailableError."""
    from docker import errors

    def run() -> bytes:
        """What was said by a server that ended before it was ready; empty where it is ready."""
        engine.api.start(container.id)
        url = f"{engine.api.base_url}/v{engine.api.api_version}/containers/{container.id}/logs"
        said = b""
        # Not the SDK's own way to read a log, which leaves its socket open.
        with engine.api.get(url, params={"follow": 1, "stdout": 1, "stderr": 1}, stream=True) as log:
            for piece in log.iter_content(None):
                said += piece
                if READY in said:
                    return b""
        return said or b"it said nothing"

    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            said = (await asked(run)).decode("utf-8", "replace").strip().rpartition("\n")[2]
    except TimeoutError as error:
        raise RuntimeUnavailableError("The sandbox did not start in time. Try again.") from error
    except errors.NotFound as error:
        raise RuntimeUnavailableError(refused(str(error.explanation or error))) from error
    if said:
        raise RuntimeUnavailableError(f"The sandbox did not start: {said}. Try again.")


async def _connected(
    engine: docker.DockerClient, reach: Reach, container: Container, folder: SandboxFolder
) -> ActionExecutionClient:
    """Raises RuntimeUnavailableError where the server does not take our key."""
    client = await reach.connect(engine, container, folder)
    if await client.alive():
        return client
    await client.aclose()
    raise RuntimeUnavailableError("The sandbox does not answer. Try again.")


async def found_again(
    engine: docker.DockerClient,
    reach: Reach,
    folder: SandboxFolder,
    specification: Specification,
    *,
    name: str,
    home: str,
) -> Launched | None:
    """The container that an earlier process left for this folder, where it serves as well as a new one.

    One that does not is removed. Raises RuntimeUnavailableError.
    """
    found = await find(engine, name)
    if found is None:
        return None
    container, labels = found
    if labels.get(HOME_LABEL) != home:
        return None  # not ours: `launch` says so
    if labels.get(SPECIFICATION_LABEL) == specification.key:
        try:
            if await container.status() == "paused":
                await container.unpause()
            client = await _connected(engine, reach, container, folder)
            return Launched(container, client, folder, specification, engine)
        except RuntimeUnavailableError:  # its server died, or it is another one's: a new one takes its place
            pass
    await container.remove()
    return None
