"""WarmPool: the engine client, the container names and the spare containers of one home folder.

Invariants: only the process that holds the lock of a sandbox's folder touches its container. A container with our label
whose lock nobody holds was left behind; it is removed once the engine answers, unless its conversation may be resumed.

DeferredRemovals records sandboxes whose conversations were deleted while their engine did not answer: one file for
each, which holds the engine's address, so that a process that uses the same engine removes their containers later.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from docker import DockerClient, errors

from core.errors import HandloomError, OutOfReachError, RuntimeUnavailableError
from core.sandbox_types import Say
from runtime.docker.container import Container, call_engine
from runtime.docker.container_launch import EngineAccess, LaunchedContainer, launch, reattach
from runtime.docker.container_spec import COURIER, COURIER_LABEL, HOME_LABEL, ContainerOptions, ContainerSpec, volumes
from runtime.docker.engine import address, connect, is_remote
from runtime.docker.sandbox_folder import SPARE, SUFFIX, LockedError, SandboxFolder
from runtime.image import find
from runtime.isolation.bubblewrap import sandbox_user
from runtime.isolation.confinement import Isolation
from runtime.isolation.protected_paths import HeldMounts

log = logging.getLogger(__name__)

PREFIX = "handloom"
FOLDER = "forgotten"
_INVALID_IN_NAME = re.compile(r"[^a-zA-Z0-9_.-]+")
LOCK_TIMEOUT_S = 3.0
MAX_PAUSED_S = 7 * 24 * 3600.0
"""After this time a paused container is removed."""


class DeferredRemovals:
    """Sandboxes to be removed at the engine with this address. Calls block for milliseconds."""

    def __init__(self, parent: Path, engine: str) -> None:
        self._folder = parent / FOLDER
        self._engine = engine

    def add(self, token: str) -> None:
        """Record a sandbox; it is on the disk when this returns. Raises OSError."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        with open(self._folder / token, "w", encoding="utf-8") as file:
            file.write(self._engine)
            file.flush()
            os.fsync(file.fileno())

    def tokens(self) -> list[str]:
        """Return the sandboxes whose containers are still to be removed. Raises OSError."""
        if not self._folder.is_dir():
            return []
        return [path.name for path in self._folder.iterdir() if path.read_text("utf-8", "replace") == self._engine]

    def remove(self, token: str) -> None:
        """Delete the record of a sandbox whose container was removed. Raises OSError."""
        (self._folder / token).unlink(missing_ok=True)


class Warmable(Protocol):
    """A runtime that can return the spec of its container, and holds its mount points until it is closed."""

    async def specified(self) -> ContainerSpec: ...

    async def aclose(self) -> None: ...


class WarmPool:
    """The containers of the home folder `home`. Belongs to one event loop, and must be closed."""

    def __init__(
        self, home: Path, options: ContainerOptions, isolation: Isolation, server_options: tuple[str, ...] = ()
    ) -> None:
        self.parent = home / "sandboxes"
        self.options = options
        self.isolation = isolation
        self.server_options = server_options
        self.label = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]
        self.access = _engine_access(address(options.engine), self.label)
        self._spares_wanted = 0 if self.access.is_remote else options.spares
        """A spare container at a remote engine would have an outdated copy of the workspace."""
        self._deferred = DeferredRemovals(self.parent, address(options.engine))
        self._client: DockerClient | None = None
        self._connecting = asyncio.Lock()
        self._spares: list[LaunchedContainer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def aclose(self) -> None:
        """Remove the spares and close the engine's client. Containers of conversations stay. May be called twice."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*map(self._discard, self._spares))
        self._spares.clear()
        client, self._client = self._client, None
        if client is not None:
            await self._reconcile(client)  # remove what could not be removed while the engine did not answer
            await asyncio.to_thread(client.close)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Wait until background work is done: creating spares and removing what was left behind."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # -- the engine --------------------------------------------------------------------------------------------------

    async def engine(self) -> DockerClient:
        """Return the engine's client, connected at the first call. Raises RuntimeUnavailableError if none answers."""
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(connect, self.options.engine)
                self._spawn(self._reconcile(self._client))
            return self._client

    async def image(self) -> str:
        """Return the image for containers. Raises RuntimeUnavailableError if it was not built yet."""
        if self.options.image:
            return self.options.image
        found = await find(await self.engine(), self.options.base)
        if found is None:
            raise RuntimeUnavailableError(
                "There is no image for sandboxes yet, or it is of another version. Build it with: handloom image build"
            )
        return found

    def name(self, token: str) -> str:
        """Return the name of a sandbox's container."""
        return f"{PREFIX}-{self.label[:6]}-{_INVALID_IN_NAME.sub('-', token)}"

    # -- one container for a conversation ------------------------------------------------------------------------------

    async def take(self, token: str, spec: ContainerSpec, say: Say) -> LaunchedContainer:
        """Return a container for the sandbox `token`: its existing one, a spare one, or a new one.

        Raises RuntimeUnavailableError, also if another process uses the sandbox.
        """
        folder = SandboxFolder(self.parent, token)
        try:
            is_new = not await asyncio.to_thread(folder.path.exists)
            spare = await self._spare(spec) if is_new else None
            launched = await (self._assign(spare, token) if spare else self._launch(folder, spec, say))
        except OSError as error:
            why = error.strerror or error
            raise RuntimeUnavailableError(f"The sandbox's folder {folder.path} cannot be used: {why}.") from error
        self._refill(spec)
        return launched

    async def _launch(self, folder: SandboxFolder, spec: ContainerSpec, say: Say) -> LaunchedContainer:
        """Reattach to the container of this folder, or create one. Raises RuntimeUnavailableError, OSError."""
        await _lock(folder)
        try:
            engine, access, name = await self.engine(), self.access, self.name(folder.token)
            found = await reattach(engine, access, folder, spec, name=name, home=self.label)
            return found or await launch(engine, access, folder, spec, name=name, home=self.label, say=say)
        except BaseException:
            folder.release()
            raise

    async def _assign(self, spare: LaunchedContainer, token: str) -> LaunchedContainer:
        """Assign a spare container to the sandbox `token`. Raises RuntimeUnavailableError, OSError."""
        try:
            await asyncio.to_thread(spare.folder.assign, token)
            await spare.container.rename(self.name(token))
        except (OSError, RuntimeUnavailableError):
            await self._discard(spare)
            raise
        if spare.held_mounts is not None:
            await asyncio.to_thread(spare.held_mounts.close)
        return spare

    async def forget(self, token: str, *, later: bool = False) -> None:
        """Remove the container of the sandbox `token` with its volumes and its folder, as far as they exist.

        If the engine does not answer, raises OutOfReachError, or with `later` removes the container once it answers.
        Raises RuntimeUnavailableError if another process uses the sandbox, OSError.
        """
        folder = SandboxFolder(self.parent, token)
        await _lock(folder)
        try:
            await self._remove_container(token, later=later)
            await asyncio.to_thread(folder.remove)
        finally:
            folder.release()

    async def _remove_container(self, token: str, *, later: bool) -> None:
        try:
            await self._remove_all(await self.engine(), self.name(token))
        except RuntimeUnavailableError as error:
            if not later:
                raise OutOfReachError(
                    f"{error} To delete the conversation all the same, and have its container removed once the engine "
                    f"answers: handloom delete --without-engine {token}"
                ) from error
            await asyncio.to_thread(self._deferred.add, token)

    async def _remove_all(self, engine: DockerClient, name: str) -> None:
        """Remove Handloom's containers and volumes of this name. Raises RuntimeUnavailableError."""
        ours = {"label": f"{HOME_LABEL}={self.label}"}
        for summary in await call_engine(engine.api.containers, all=True, filters=ours):
            if summary["Names"][0].lstrip("/").removesuffix(COURIER) == name:
                await Container(engine, summary["Id"], name).remove()
        for volume in volumes(name):
            with suppress(errors.NotFound):
                await call_engine(engine.api.remove_volume, volume)

    # -- the warm pool -----------------------------------------------------------------------------------------------

    def warm(self, runtime: Warmable) -> None:
        """Create a spare container in the background for a conversation with such a runtime, which is not started."""
        if self._spares_wanted and not self._is_closed:
            self._spawn(self._fill_for(runtime))

    async def _fill_for(self, runtime: Warmable) -> None:
        try:
            await self._fill(await runtime.specified())
        except HandloomError as error:
            log.warning("no spare container: %s", error)
        finally:
            await runtime.aclose()

    def _refill(self, spec: ContainerSpec) -> None:
        if self._spares_wanted and not self._is_closed:
            self._spawn(self._fill(spec))

    async def _fill(self, spec: ContainerSpec) -> None:
        """Create the missing spares of this spec, and remove surplus spares of others."""
        try:
            while sum(spare.spec.key == spec.key for spare in self._spares) < self._spares_wanted:
                spare = await self._launch_spare(spec)
                self._spares.append(spare)
            while len(self._spares) > self._spares_wanted:
                await self._discard(self._spares.pop(0))
        except HandloomError as error:
            log.warning("no spare container: %s", error)

    async def _launch_spare(self, spec: ContainerSpec) -> LaunchedContainer:
        folder = SandboxFolder(self.parent, SPARE + secrets.token_hex(4))
        held = await asyncio.to_thread(HeldMounts, spec.placeholders(), sandbox_user(spec.workspace))
        try:
            if held.identities() != spec.identities:
                raise RuntimeUnavailableError("the workspace has changed since")
            await asyncio.to_thread(folder.lock)
            engine = await self.engine()
            name = self.name(folder.token)
            spare = await launch(engine, self.access, folder, spec, name=name, home=self.label)
            spare.held_mounts = held
        except BaseException:
            held.close()
            folder.remove()
            raise
        return spare

    async def _spare(self, spec: ContainerSpec) -> LaunchedContainer | None:
        """Return a healthy spare container; unhealthy ones are removed."""
        for spare in [spare for spare in self._spares if spare.spec.key == spec.key]:
            self._spares.remove(spare)
            if await spare.client.alive():
                return spare
            self._spawn(self._discard(spare))
        return None

    async def _discard(self, spare: LaunchedContainer) -> None:
        await spare.client.aclose()
        with suppress(RuntimeUnavailableError):
            await spare.container.remove()
        if spare.held_mounts is not None:
            await asyncio.to_thread(spare.held_mounts.close)
        await asyncio.to_thread(spare.folder.remove)

    # -- what was left behind ------------------------------------------------------------------------------------------

    async def _reconcile(self, engine: DockerClient) -> None:
        """Remove what killed processes have left, except containers whose conversations may be resumed."""
        try:
            for token in await asyncio.to_thread(self._deferred.tokens):
                await self._remove_all(engine, self.name(token))
                await asyncio.to_thread(self._deferred.remove, token)
            found = await call_engine(engine.api.containers, all=True, filters={"label": f"{HOME_LABEL}={self.label}"})
            for summary in found:
                await self._clean_up(engine, summary)
            await asyncio.to_thread(self._remove_folders)
        except (HandloomError, OSError) as error:
            log.warning("containers that were left behind stay: %s", error)

    async def _clean_up(self, engine: DockerClient, summary: dict[str, Any]) -> None:
        name = summary["Names"][0].lstrip("/")
        token = summary["Labels"].get(COURIER_LABEL) or name.removeprefix(self.name(""))
        folder = SandboxFolder(self.parent, token)
        try:
            await asyncio.to_thread(folder.lock)
        except LockedError:
            return  # another process uses it
        try:
            may_come_back = not token.startswith(SPARE)
            is_old = time.time() - (await asyncio.to_thread(folder.path.stat)).st_mtime > MAX_PAUSED_S
            if may_come_back and (summary["State"] == "running" or (summary["State"] == "paused" and not is_old)):
                return
            await Container(engine, summary["Id"], name).remove()
            if token.startswith(SPARE):
                await asyncio.to_thread(folder.remove)
        finally:
            folder.release()

    def _remove_folders(self) -> None:
        """Remove the folders of spares that nobody holds. Their containers are already gone. Blocks."""
        for path in self.parent.glob(f"{SPARE}*{SUFFIX}"):
            folder = SandboxFolder(self.parent, path.name.removesuffix(SUFFIX))
            with suppress(LockedError, OSError):
                folder.lock()
                folder.remove()


async def _lock(folder: SandboxFolder) -> None:
    """Lock a folder. Raises RuntimeUnavailableError if another process keeps the lock, OSError.

    Waits up to LOCK_TIMEOUT_S, because a starting process briefly locks each sandbox to see what was left behind.
    """
    gives_up_at = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            await asyncio.to_thread(folder.lock)
        except LockedError as error:
            if time.monotonic() > gives_up_at:
                raise RuntimeUnavailableError(
                    "Another Handloom is using the sandbox of this conversation. Close the conversation there first."
                ) from error
            await asyncio.sleep(LOCK_TIMEOUT_S / 50)
        else:
            return


def _engine_access(url: str, home: str) -> EngineAccess:
    if is_remote(url):
        from runtime.docker.remote_engine import RemoteEngine  # slow to import

        return RemoteEngine(url, home)
    return EngineAccess()
