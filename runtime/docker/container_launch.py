"""Get a container whose server answers: create one, or reattach to an existing one.

A new container is ready when its server prints so on standard output, which is followed instead of polling. A failed
launch leaves neither container nor socket.

EngineAccess is how a sandbox uses an engine that sees this machine's files: folders and sockets of this machine are
mounted in the container. With a `remote_engine.RemoteEngine`, the workspace is copied there and back, and connections
go through the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from docker import DockerClient, errors

from core.errors import RuntimeUnavailableError
from core.events import Action, Frame, Observation
from core.sandbox_types import Say, silently
from runtime.cancellation import run_to_completion
from runtime.docker.container import Container, call_engine, ended_message, refused_message
from runtime.docker.container_spec import HOME_LABEL, SPECIFICATION_LABEL, ContainerSpec
from runtime.docker.sandbox_folder import SandboxFolder
from runtime.health_check import UnresponsiveError, watch_health, with_health_check
from runtime.isolation.protected_paths import HeldMounts

if TYPE_CHECKING:
    from runtime.client import ActionExecutionClient

START_TIMEOUT_S = 60.0
"""Enough for a cold disk on a busy machine; half a second is usual."""
READY = b"ready "


@dataclass
class LaunchedContainer:
    """A container whose server answers, with its client, folder and spec."""

    container: Container
    client: ActionExecutionClient
    folder: SandboxFolder
    spec: ContainerSpec
    engine: DockerClient
    messages: list[str] = field(default_factory=list)
    """Lines for the user about work that an earlier sandbox had left."""
    is_released: bool = False
    """Whether this process has ended or given up the container."""
    held_mounts: HeldMounts | None = None
    """The mount points of a spare container; the workspace guard of its conversation holds them afterwards."""


class EngineAccess:
    """The operations on one sandbox that depend on the engine, here one that sees this machine's files.

    Methods raise RuntimeUnavailableError.
    """

    is_remote = False
    """Whether the engine does not see this machine's files."""

    async def prepare(
        self, engine: DockerClient, folder: SandboxFolder, spec: ContainerSpec, name: str, say: Say
    ) -> list[str]:
        """Provide the files that a new container of this name needs.

        Returns lines for the user about work that an earlier sandbox had left.
        """
        await asyncio.to_thread(folder.prepare, spec.user)
        return []

    async def connect(self, engine: DockerClient, container: Container, folder: SandboxFolder) -> ActionExecutionClient:
        """Return a client of the server in a running container. The server need not answer yet."""
        module = await asyncio.to_thread(import_module, "runtime.client")  # 0.1 s the first time
        try:
            socket = await asyncio.to_thread(folder.verified_socket)
        except OSError as error:
            raise RuntimeUnavailableError(f"The sandbox cannot be reached: {error}. Try again.") from error
        client: ActionExecutionClient = module.ActionExecutionClient(await asyncio.to_thread(folder.key), uds=socket)
        return client

    async def execute(
        self, launched: LaunchedContainer, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        """Carry out one action. The error says why if the sandbox stops answering.

        A local connection does not break, so silence or a closed connection means that the sandbox has ended, and the
        engine knows why.
        """
        client, container = launched.client, launched.container
        try:
            return await with_health_check(
                client.execute(action, action_id, on_frame), watch_health(client.alive, why=container.exit_reason)
            )
        except UnresponsiveError as error:
            raise RuntimeUnavailableError(ended_message(str(error))) from error
        except RuntimeUnavailableError as error:
            if launched.is_released:
                raise  # this process has ended it
            raise RuntimeUnavailableError(ended_message(await container.exit_reason())) from error

    async def fetch(self, launched: LaunchedContainer) -> list[str]:
        """Copy the container's changes into the workspace, and keep the container. Returns lines for the user.

        Does not raise: a failure is one of the lines.
        """
        return []

    async def end(self, launched: LaunchedContainer) -> list[str]:
        """Copy the container's changes into the workspace, then remove container and volumes. Returns as `fetch`.

        Raises RuntimeUnavailableError if the container could not be removed.
        """
        await launched.container.remove()
        return []


async def launch(
    engine: DockerClient,
    access: EngineAccess,
    folder: SandboxFolder,
    spec: ContainerSpec,
    *,
    name: str,
    home: str,
    say: Say = silently,
) -> LaunchedContainer:
    """Create a container for a locked folder. Raises RuntimeUnavailableError and leaves nothing behind."""
    messages = await access.prepare(engine, folder, spec, name, say)
    parameters = spec.parameters(name, home, folder.path)
    say("Creating the container")
    creating = asyncio.ensure_future(_create(engine, name, parameters, home))
    try:
        container = await asyncio.shield(creating)
    except errors.ImageNotFound as error:
        raise RuntimeUnavailableError(
            f"The image {spec.image} does not exist. Build it with: handloom image build"
        ) from error
    except asyncio.CancelledError:
        await run_to_completion(_remove_once_created(creating))
        raise
    try:
        say("Starting the container")
        await _start(engine, container)
        client = await _connect(engine, access, container, folder)
    except BaseException:
        await run_to_completion(container.remove())
        raise
    return LaunchedContainer(container, client, folder, spec, engine, messages)


async def _remove_once_created(creating: asyncio.Future[Container]) -> None:
    """Remove a container that is being created, once it exists, because the engine cannot cancel that."""
    with suppress(Exception):  # boundary to an engine that may be failing; nobody waits for this container
        await (await creating).remove()


async def _create(engine: DockerClient, name: str, parameters: Mapping[str, object], home: str) -> Container:
    """Raises RuntimeUnavailableError, ImageNotFound."""

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


async def _remove_own(engine: DockerClient, name: str, home: str) -> None:
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


async def find(engine: DockerClient, name: str) -> tuple[Container, Mapping[str, str]] | None:
    """Return the container of this name and its labels, or None. Raises RuntimeUnavailableError."""
    try:
        found = await call_engine(engine.api.inspect_container, name)
    except errors.NotFound:
        return None
    return Container(engine, found["Id"], name), found["Config"]["Labels"] or {}


async def _start(engine: DockerClient, container: Container) -> None:
    """Start it and wait until its server is ready. Raises RuntimeUnavailableError."""

    def run() -> bytes:
        """Return the output of a server that ended before it was ready; empty if it is ready."""
        engine.api.start(container.id)
        url = f"{engine.api.base_url}/v{engine.api.api_version}/containers/{container.id}/logs"
        output = b""
        # The SDK's function for logs leaves its socket open.
        with engine.api.get(url, params={"follow": 1, "stdout": 1, "stderr": 1}, stream=True) as log:
            for piece in log.iter_content(None):
                output += piece
                if READY in output:
                    return b""
        return output or b"it printed nothing"

    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            output = (await call_engine(run)).decode("utf-8", "replace").strip().rpartition("\n")[2]
    except TimeoutError as error:
        raise RuntimeUnavailableError("The sandbox did not start in time. Try again.") from error
    except errors.NotFound as error:
        raise RuntimeUnavailableError(refused_message(str(error.explanation or error))) from error
    if output:
        raise RuntimeUnavailableError(f"The sandbox did not start: {output}. Try again.")


async def _connect(
    engine: DockerClient, access: EngineAccess, container: Container, folder: SandboxFolder
) -> ActionExecutionClient:
    """Connect to the server. Raises RuntimeUnavailableError if it does not accept our key."""
    client = await access.connect(engine, container, folder)
    if await client.alive():
        return client
    await client.aclose()
    raise RuntimeUnavailableError("The sandbox does not answer. Try again.")


async def reattach(
    engine: DockerClient,
    access: EngineAccess,
    folder: SandboxFolder,
    spec: ContainerSpec,
    *,
    name: str,
    home: str,
) -> LaunchedContainer | None:
    """Return the container that an earlier process has left for this folder, if its spec is the same.

    Otherwise the container is removed. Raises RuntimeUnavailableError.
    """
    found = await find(engine, name)
    if found is None:
        return None
    container, labels = found
    if labels.get(HOME_LABEL) != home:
        return None  # not Handloom's: `launch` reports it
    if labels.get(SPECIFICATION_LABEL) == spec.key:
        try:
            if await container.status() == "paused":
                await container.unpause()
            client = await _connect(engine, access, container, folder)
            return LaunchedContainer(container, client, folder, spec, engine)
        except RuntimeUnavailableError:  # its server has died or has another key: a new container replaces it
            pass
    await container.remove()
    return None
