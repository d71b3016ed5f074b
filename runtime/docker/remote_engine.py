"""An engine that sees no file and no socket of this machine: another machine's, or one in a virtual machine.

The workspace is copied into a volume of the engine before a container is made, and what the sandbox changed is copied
back when the container ends or rests; `carrying` says what goes, `bringing` what comes. Files travel through a
`courier`, a container that is made and never started, so that they can also be fetched where nothing runs any more. The
client's connections lead through `passage`, and a link that breaks is ReconnectingClient's to survive.

Invariants: while files are at the engine that may not have been fetched, the sandbox's folder holds the list of what
went there, and volumes go only after it; and an archive of which something was not taken over stays in that folder.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import RuntimeUnavailableError
from core.events import Action, Frame, Observation
from core.sandbox_types import Say
from runtime.cancellation import run_to_completion
from runtime.docker import upload
from runtime.docker.container import PAUSED, Container, asked, gone
from runtime.docker.container_spec import (
    COPY_LABEL,
    COURIER,
    COURIER_LABEL,
    HOME_LABEL,
    INSIDE,
    SOCKET,
    STATE,
    Specification,
    volumes,
)
from runtime.docker.download import ArchiveError, Brought, bring
from runtime.docker.sandbox_folder import SandboxFolder
from runtime.docker.tunnel import Passage
from runtime.reconnecting_client import PATIENCE_S, ReconnectingClient, Why

if TYPE_CHECKING:
    import docker

    from runtime.client import ActionExecutionClient
    from runtime.docker.container_launch import Launched

COURIERS = "/courier"
"""Where the courier has the volumes."""
WORK, RUN = "work", "run"
STATE_ARCHIVE = "state.tar"
ARCHIVE_BYTES = 2 * upload.MAX_TOTAL_BYTES
"""Of what comes back: caches come along, and are left out here."""
WHY_S = 5.0
ENDED = ("exited", "dead", "removing", "created")


class FarClient(ReconnectingClient):
    """A ReconnectingClient with a passage of its own, which is closed with it."""

    def __init__(self, key: str, socket: str, passage: Passage, *, patience_s: float, why: Why) -> None:
        super().__init__(key, uds=socket, patience_s=patience_s, why=why)
        self._passage = passage

    async def aclose(self) -> None:
        await super().aclose()
        await self._passage.aclose()


class Far:
    """Implements `reach.Reach` for the engine at `url`.

    `home` is the label of what is made there; a link that is broken is tried again for `patience_s`.
    """

    is_far = True

    def __init__(self, url: str, home: str, patience_s: float = PATIENCE_S) -> None:
        self._url = url
        self._home = home
        self._patience_s = patience_s

    # -- the workspace -----------------------------------------------------------------------------------------------

    async def furnish(
        self,
        engine: docker.DockerClient,
        folder: SandboxFolder,
        specification: Specification,
        name: str,
        say: Say,
    ) -> list[str]:
        """Copy the workspace to the engine. What an earlier sandbox left there is fetched first."""
        told: list[str] = []
        if await asyncio.to_thread(folder.carried.exists):
            say("Fetching what the last sandbox left at the engine")
            told = await self._fetched(engine, folder, specification, name)
            await asyncio.to_thread(folder.carried.unlink)
        await self._remove_volumes(engine, name)
        await asyncio.to_thread(folder.furnish, specification.user)
        archive = folder.path / "going.tar"
        try:
            packed = await asyncio.to_thread(_pack, archive, folder, specification)
            say(_described(packed))
            labels = {HOME_LABEL: self._home, COPY_LABEL: packed.id}
            for volume in volumes(name):
                await asked(engine.api.create_volume, volume, labels=labels)
            async with self._courier(engine, folder, specification, name) as courier:
                await asked(partial(_send, engine, courier, archive))
            await asyncio.to_thread(packed.write, folder.carried)
        except OSError as error:
            raise RuntimeUnavailableError(
                f"The workspace cannot be copied to the container engine: {error}. Correct that, then try again."
            ) from error
        finally:
            await asyncio.to_thread(archive.unlink, missing_ok=True)
        return told

    async def fetch(self, launched: Launched) -> list[str]:
        """Copy back what changed. Where that fails, it stays at the engine, and the answer says so."""
        try:
            return await self._fetched(
                launched.engine, launched.folder, launched.specification, launched.container.name
            )
        except RuntimeUnavailableError as error:
            return [_not_fetched(launched, error)]

    async def end(self, launched: Launched) -> list[str]:
        """End the container, copy back what changed, and remove the volumes: each only after the one before."""
        engine, folder, name = launched.engine, launched.folder, launched.container.name
        try:
            await launched.container.remove()
            told = await self._fetched(engine, folder, launched.specification, name)
        except RuntimeUnavailableError as error:
            return [_not_fetched(launched, error)]
        await asyncio.to_thread(folder.carried.unlink)
        with suppress(RuntimeUnavailableError):  # the next start removes them
            await self._remove_volumes(engine, name)
        return told

    async def _fetched(
        self, engine: docker.DockerClient, folder: SandboxFolder, specification: Specification, name: str
    ) -> list[str]:
        """Raises RuntimeUnavailableError; then everything is still at the engine."""
        from docker import errors

        packed = await asyncio.to_thread(upload.Packed.read, folder.carried)
        await self._check(engine, folder, name, packed)
        try:
            async with self._courier(engine, folder, specification, name) as courier:
                await self._check(engine, folder, name, packed)  # the courier would have had a volume made
                await asked(partial(_receive, engine, courier, WORK, folder.coming))
                with suppress(errors.NotFound, RuntimeUnavailableError, OSError):  # the sandbox may have removed it
                    await asked(partial(_receive, engine, courier, f"{RUN}/{STATE}", folder.path / STATE_ARCHIVE))
                    await asyncio.to_thread(_take_state, folder)
            brought = await asyncio.to_thread(_taken_over, folder, specification, packed or upload.Packed())
        except (ArchiveError, OSError, errors.NotFound) as error:
            raise RuntimeUnavailableError(f"What the sandbox changed cannot be fetched: {error}.") from error
        told = brought.told()
        if brought.is_whole:
            await asyncio.to_thread(folder.coming.unlink)
        else:
            told.append(f"{specification.workspace}: what did not come back is kept in {folder.coming}.")
        return told

    async def _check(
        self, engine: docker.DockerClient, folder: SandboxFolder, name: str, packed: upload.Packed | None
    ) -> None:
        """Raise RuntimeUnavailableError unless this engine has the volume that this copy went into: in an empty one,
        everything would look as if the sandbox had removed it."""
        from docker import errors

        volume, found = volumes(name)[0], None
        with suppress(errors.NotFound):
            found = (await asked(engine.api.inspect_volume, volume))["Labels"] or {}
        if found is None or (packed is not None and found.get(COPY_LABEL) != packed.id):
            raise RuntimeUnavailableError(
                f"The volume {volume}, in which the last sandbox has left its work, is not at this container engine. "
                f"Name the engine that has it (docker.engine, DOCKER_HOST), or remove {folder.carried} to do without."
            )

    @asynccontextmanager
    async def _courier(
        self, engine: docker.DockerClient, folder: SandboxFolder, specification: Specification, name: str
    ) -> AsyncIterator[str]:
        """The id of a container that has the volumes, and is there for as long as it is needed."""
        from docker import errors

        parameters = specification.courier(
            name + COURIER, {HOME_LABEL: self._home, COURIER_LABEL: folder.token}, COURIERS, (WORK, RUN)
        )
        with suppress(errors.NotFound, RuntimeUnavailableError):  # of one that was left behind
            await asked(engine.api.remove_container, parameters["name"], force=True)
        try:
            made = await asked(partial(engine.containers.create, **parameters))
        except errors.NotFound as error:
            raise RuntimeUnavailableError(
                f"The image {specification.image} is not there. Make it with: handloom image build"
            ) from error
        try:
            yield str(made.id)
        finally:
            await run_to_completion(Container(engine, str(made.id), name).remove())

    async def _remove_volumes(self, engine: docker.DockerClient, name: str) -> None:
        from docker import errors

        for volume in volumes(name):
            with suppress(errors.NotFound):
                await asked(engine.api.remove_volume, volume)

    # -- the link ----------------------------------------------------------------------------------------------------

    async def connect(
        self, engine: docker.DockerClient, container: Container, folder: SandboxFolder
    ) -> ActionExecutionClient:
        command = ("socat", "-", f"UNIX-CONNECT:{INSIDE}/{SOCKET}")
        passage = Passage(self._url, engine.api.api_version, container.id, command, folder.socket())
        await asyncio.to_thread(Path(folder.socket()).unlink, missing_ok=True)  # an earlier process's
        try:
            await passage.open()
        except OSError as error:
            raise RuntimeUnavailableError(f"{folder.socket()} cannot be used: {error.strerror}. Try again.") from error
        key = await asyncio.to_thread(folder.key)
        why = partial(_why, container)
        return FarClient(key, folder.socket(), passage, patience_s=self._patience_s, why=why)

    async def execute(
        self, launched: Launched, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        return await launched.client.execute(action, action_id, on_frame)


def _not_fetched(launched: Launched, error: RuntimeUnavailableError) -> str:
    volume, why = volumes(launched.container.name)[0], str(error).rstrip(".")
    return (
        f"{launched.specification.workspace}: what the sandbox changed is still at the container engine, in the volume "
        f"{volume} ({why}). Open the conversation again to fetch it."
    )


async def _why(container: Container) -> str:
    """Why the link is broken. Raises RuntimeUnavailableError where the container is, and it is no use to wait."""
    try:
        async with asyncio.timeout(WHY_S):
            status = await container.status()
    except (TimeoutError, RuntimeUnavailableError):
        return "the container engine does not answer"
    if status == "paused":
        raise RuntimeUnavailableError(gone(PAUSED))
    if status == "gone" or status in ENDED:
        raise RuntimeUnavailableError(gone(await container.why_gone()))
    return ""


def _described(packed: upload.Packed) -> str:
    said = f"Copying {len(packed.files):,} files ({packed.size / upload.MB:,.1f} MB) to the container engine"
    if packed.left_out:
        said += f"; {len(packed.left_out)} that are too long or cannot be read stay here"
    return said


def _pack(archive: Path, folder: SandboxFolder, specification: Specification) -> upload.Packed:
    with open(_private(archive), "wb") as file, upload.archive_to(file) as opened:
        user = specification.user
        packed = upload.pack(specification.workspace, specification.hidden, opened, WORK, user)
        upload.pack_folder(folder.inside, opened, RUN, user)
    return packed


def _send(engine: docker.DockerClient, courier: str, archive: Path) -> None:
    with archive.open("rb") as file:
        engine.api.put_archive(courier, COURIERS, file)


def _receive(engine: docker.DockerClient, courier: str, place: str, archive: Path) -> None:
    """Fetch a folder of the volumes. Raises OSError where it is too long."""
    pieces, _ = engine.api.get_archive(courier, f"{COURIERS}/{place}")
    size = 0
    with open(_private(archive), "wb") as file:
        for piece in pieces:
            size += len(piece)
            if size > ARCHIVE_BYTES:
                raise OSError(f"it is more than {ARCHIVE_BYTES // upload.MB} MB")
            file.write(piece)


def _take_state(folder: SandboxFolder) -> None:
    """What the server keeps for the next one, such as the way back of edits. Of one that is damaged nothing is kept."""
    archive, state = folder.path / STATE_ARCHIVE, folder.inside / STATE
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(0o700)
    with suppress(ArchiveError, tarfile.TarError):
        bring(archive, STATE, state, upload.Packed(), ())
    archive.unlink()


def _taken_over(folder: SandboxFolder, specification: Specification, packed: upload.Packed) -> Brought:
    """Without the list of what went, nothing is known to be unchanged, and everything that differs is kept twice."""
    try:
        brought = bring(folder.coming, WORK, specification.workspace, packed, specification.kept_back)
    except tarfile.TarError as error:
        raise ArchiveError(f"it is damaged: {error}") from error
    upload.Packed(brought.now, id=packed.id).write(folder.carried)
    return brought


def _private(file: Path) -> int:
    """A new file that nobody else reads, open for writing."""
    file.unlink(missing_ok=True)
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
