"""RemoteEngine: an engine that sees no files and sockets of this machine, on another machine or in a virtual machine.

The workspace is copied into a volume of the engine before a container is created, and the sandbox's changes are copied
back when the container ends or is suspended (`workspace_copy`). Files are transferred through a courier, a
container that is created but never started, so that they can be fetched even if nothing runs any more. Connections go
through a `tunnel`, and the client survives a broken link.

Invariants: as long as files at the engine may not have been fetched, the sandbox's folder holds the record of the
upload, and volumes are removed after the record; an archive that was not applied completely stays in that folder.
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

from docker import DockerClient, errors

from core.errors import RuntimeUnavailableError
from core.events import Action, Frame, Observation
from core.sandbox_types import Say
from runtime.cancellation import run_to_completion
from runtime.docker.container import PAUSED, Container, call_engine, ended_message
from runtime.docker.container_launch import EngineAccess, LaunchedContainer
from runtime.docker.container_spec import (
    COPY_LABEL,
    COURIER,
    COURIER_LABEL,
    HOME_LABEL,
    INSIDE,
    SOCKET,
    STATE,
    ContainerSpec,
    volumes,
)
from runtime.docker.sandbox_folder import SandboxFolder
from runtime.docker.tunnel import Tunnel
from runtime.docker.workspace_copy import (
    MAX_TOTAL_BYTES,
    MB,
    ArchiveError,
    DownloadResult,
    Upload,
    apply_download,
    archive_to,
    pack,
    pack_folder,
)
from runtime.reconnecting_client import PATIENCE_S, ReconnectingClient, Why

COURIERS = "/courier"
"""The folder in the courier in which the volumes are mounted."""
WORK, RUN = "work", "run"
STATE_ARCHIVE = "state.tar"
ARCHIVE_BYTES = 2 * MAX_TOTAL_BYTES
"""Limit for a download, which includes caches that are skipped here."""
STATUS_TIMEOUT_S = 5.0
ENDED = ("exited", "dead", "removing", "created")


class TunnelClient(ReconnectingClient):
    """A client that closes its tunnel when it is closed."""

    def __init__(self, key: str, socket: str, tunnel: Tunnel, *, patience_s: float, why: Why) -> None:
        super().__init__(key, uds=socket, patience_s=patience_s, why=why)
        self._tunnel = tunnel

    async def aclose(self) -> None:
        await super().aclose()
        await self._tunnel.aclose()


class RemoteEngine(EngineAccess):
    """Access to the engine at `url`. `home` is the label of what is created there.

    A broken connection is retried for `patience_s`.
    """

    is_remote = True

    def __init__(self, url: str, home: str, patience_s: float = PATIENCE_S) -> None:
        self._url = url
        self._home = home
        self._patience_s = patience_s

    # -- the workspace -----------------------------------------------------------------------------------------------

    async def prepare(
        self, engine: DockerClient, folder: SandboxFolder, spec: ContainerSpec, name: str, say: Say
    ) -> list[str]:
        """Copy the workspace to the engine, after fetching what an earlier sandbox left there."""
        messages: list[str] = []
        if await asyncio.to_thread(folder.upload_record.exists):
            say("Fetching the files of the last sandbox from the engine")
            messages = await self._fetch(engine, folder, spec, name)
            await asyncio.to_thread(folder.upload_record.unlink)
        await self._remove_volumes(engine, name)
        await asyncio.to_thread(folder.prepare, spec.user)
        archive = folder.path / "going.tar"
        try:
            upload = await asyncio.to_thread(_pack, archive, folder, spec)
            say(_upload_message(upload))
            labels = {HOME_LABEL: self._home, COPY_LABEL: upload.id}
            for volume in volumes(name):
                await call_engine(engine.api.create_volume, volume, labels=labels)
            async with self._courier(engine, folder, spec, name) as courier:
                await call_engine(partial(_send, engine, courier, archive))
            await asyncio.to_thread(upload.write, folder.upload_record)
        except OSError as error:
            raise RuntimeUnavailableError(
                f"The workspace cannot be copied to the container engine: {error}. Correct that, then try again."
            ) from error
        finally:
            await asyncio.to_thread(archive.unlink, missing_ok=True)
        return messages

    async def fetch(self, launched: LaunchedContainer) -> list[str]:
        """Copy changes back. If that fails, they stay at the engine, and the returned line says so."""
        try:
            return await self._fetch(launched.engine, launched.folder, launched.spec, launched.container.name)
        except RuntimeUnavailableError as error:
            return [_fetch_error(launched, error)]

    async def end(self, launched: LaunchedContainer) -> list[str]:
        """Remove the container, then copy changes back, then remove the volumes."""
        engine, folder, name = launched.engine, launched.folder, launched.container.name
        try:
            await launched.container.remove()
            messages = await self._fetch(engine, folder, launched.spec, name)
        except RuntimeUnavailableError as error:
            return [_fetch_error(launched, error)]
        await asyncio.to_thread(folder.upload_record.unlink)
        with suppress(RuntimeUnavailableError):  # the next start removes them
            await self._remove_volumes(engine, name)
        return messages

    async def _fetch(self, engine: DockerClient, folder: SandboxFolder, spec: ContainerSpec, name: str) -> list[str]:
        """Copy changes back. Raises RuntimeUnavailableError; then everything is still at the engine."""
        upload = await asyncio.to_thread(Upload.read, folder.upload_record)
        await self._check(engine, folder, name, upload)
        try:
            async with self._courier(engine, folder, spec, name) as courier:
                await self._check(engine, folder, name, upload)  # creating the courier may have created the volume
                await call_engine(partial(_receive, engine, courier, WORK, folder.download))
                with suppress(errors.NotFound, RuntimeUnavailableError, OSError):  # the sandbox may have removed it
                    await call_engine(partial(_receive, engine, courier, f"{RUN}/{STATE}", folder.path / STATE_ARCHIVE))
                    await asyncio.to_thread(_restore_state, folder)
            result = await asyncio.to_thread(_apply, folder, spec, upload or Upload())
        except (ArchiveError, OSError, errors.NotFound) as error:
            raise RuntimeUnavailableError(f"What the sandbox changed cannot be fetched: {error}.") from error
        messages = result.messages()
        if result.is_complete:
            await asyncio.to_thread(folder.download.unlink)
        else:
            messages.append(f"{spec.workspace}: what was not copied back is kept in {folder.download}.")
        return messages

    async def _check(self, engine: DockerClient, folder: SandboxFolder, name: str, upload: Upload | None) -> None:
        """Raise RuntimeUnavailableError unless this engine has the volume with this upload: with an empty volume,
        everything would look as if the sandbox had removed it."""
        volume, found = volumes(name)[0], None
        with suppress(errors.NotFound):
            found = (await call_engine(engine.api.inspect_volume, volume))["Labels"] or {}
        if found is None or (upload is not None and found.get(COPY_LABEL) != upload.id):
            raise RuntimeUnavailableError(
                f"The volume {volume} with the work of the last sandbox is not at this container engine. "
                "Set docker.engine or DOCKER_HOST to the engine that has it, or remove "
                f"{folder.upload_record} to discard it."
            )

    @asynccontextmanager
    async def _courier(
        self, engine: DockerClient, folder: SandboxFolder, spec: ContainerSpec, name: str
    ) -> AsyncIterator[str]:
        """Create a container with the volumes and yield its id; it is removed at the end."""
        parameters = spec.courier(
            name + COURIER, {HOME_LABEL: self._home, COURIER_LABEL: folder.token}, COURIERS, (WORK, RUN)
        )
        with suppress(errors.NotFound, RuntimeUnavailableError):  # a courier that a killed process has left
            await call_engine(engine.api.remove_container, parameters["name"], force=True)
        try:
            created = await call_engine(partial(engine.containers.create, **parameters))
        except errors.NotFound as error:
            raise RuntimeUnavailableError(
                f"The image {spec.image} does not exist. Build it with: handloom image build"
            ) from error
        try:
            yield str(created.id)
        finally:
            await run_to_completion(Container(engine, str(created.id), name).remove())

    async def _remove_volumes(self, engine: DockerClient, name: str) -> None:
        for volume in volumes(name):
            with suppress(errors.NotFound):
                await call_engine(engine.api.remove_volume, volume)

    # -- the link ----------------------------------------------------------------------------------------------------

    async def connect(self, engine: DockerClient, container: Container, folder: SandboxFolder) -> TunnelClient:
        command = ("socat", "-", f"UNIX-CONNECT:{INSIDE}/{SOCKET}")
        tunnel = Tunnel(self._url, engine.api.api_version, container.id, command, folder.socket())
        await asyncio.to_thread(Path(folder.socket()).unlink, missing_ok=True)  # of an earlier process
        try:
            await tunnel.open()
        except OSError as error:
            raise RuntimeUnavailableError(f"{folder.socket()} cannot be used: {error.strerror}. Try again.") from error
        key = await asyncio.to_thread(folder.key)
        why = partial(_link_failure, container)
        return TunnelClient(key, folder.socket(), tunnel, patience_s=self._patience_s, why=why)

    async def execute(
        self, launched: LaunchedContainer, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        return await launched.client.execute(action, action_id, on_frame)


def _fetch_error(launched: LaunchedContainer, error: RuntimeUnavailableError) -> str:
    volume, why = volumes(launched.container.name)[0], str(error).rstrip(".")
    return (
        f"{launched.spec.workspace}: what the sandbox changed is still at the container engine, in the volume "
        f"{volume} ({why}). Open the conversation again to fetch it."
    )


async def _link_failure(container: Container) -> str:
    """Return why the link is broken. Raises RuntimeUnavailableError if the container has ended."""
    try:
        async with asyncio.timeout(STATUS_TIMEOUT_S):
            status = await container.status()
    except (TimeoutError, RuntimeUnavailableError):
        return "the container engine does not answer"
    if status == "paused":
        raise RuntimeUnavailableError(ended_message(PAUSED))
    if status == "gone" or status in ENDED:
        raise RuntimeUnavailableError(ended_message(await container.exit_reason()))
    return ""


def _upload_message(upload: Upload) -> str:
    text = f"Copying {len(upload.files):,} files ({upload.size / MB:,.1f} MB) to the container engine"
    if upload.left_out:
        text += f"; skipping {len(upload.left_out)} that are too large or cannot be read"
    return text


def _pack(archive: Path, folder: SandboxFolder, spec: ContainerSpec) -> Upload:
    with open(_private(archive), "wb") as file, archive_to(file) as opened:
        user = spec.user
        upload = pack(spec.workspace, spec.hidden, opened, WORK, user)
        pack_folder(folder.inside, opened, RUN, user)
    return upload


def _send(engine: DockerClient, courier: str, archive: Path) -> None:
    with archive.open("rb") as file:
        engine.api.put_archive(courier, COURIERS, file)


def _receive(engine: DockerClient, courier: str, place: str, archive: Path) -> None:
    """Download a folder of the volumes. Raises OSError if it is too large."""
    pieces, _ = engine.api.get_archive(courier, f"{COURIERS}/{place}")
    size = 0
    with open(_private(archive), "wb") as file:
        for piece in pieces:
            size += len(piece)
            if size > ARCHIVE_BYTES:
                raise OSError(f"it is more than {ARCHIVE_BYTES // MB} MB")
            file.write(piece)


def _restore_state(folder: SandboxFolder) -> None:
    """Unpack what the server stores for the next one, such as the undo data of edits. Damaged data is dropped."""
    archive, state = folder.path / STATE_ARCHIVE, folder.inside / STATE
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(0o700)
    with suppress(ArchiveError, tarfile.TarError):
        apply_download(archive, STATE, state, Upload(), ())
    archive.unlink()


def _apply(folder: SandboxFolder, spec: ContainerSpec, upload: Upload) -> DownloadResult:
    """Apply the download. Without a record of the upload, both versions of every file that differs are kept."""
    try:
        result = apply_download(folder.download, WORK, spec.workspace, upload, spec.excluded_paths)
    except tarfile.TarError as error:
        raise ArchiveError(f"it is damaged: {error}") from error
    Upload(result.in_sync, id=upload.id).write(folder.upload_record)
    return result


def _private(file: Path) -> int:
    """Create a private file and return its descriptor, open for writing."""
    file.unlink(missing_ok=True)
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
