"""Fleet: what all containers of one home share.

The engine, whose client is made when it is first needed; the names and labels by which containers are found again; the
warm pool. Invariants: a container is touched only by the process that holds its folder's lock; whatever carries our
label and nobody holds was left behind, and is taken away once the engine answers, unless a conversation may still
come back for it.

Sandboxes whose conversations were deleted while their engine did not answer, so that their containers go later.

A file for each below the sandboxes of the home, which holds the address of its engine: another engine that answers
says nothing about it. All calls block for milliseconds.
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
from typing import TYPE_CHECKING, Any, Protocol

from core.errors import HandloomError, OutOfReachError, RuntimeUnavailableError
from core.sandbox_types import Say
from runtime.docker.container import Container, asked
from runtime.docker.container_launch import Launched, found_again, launch
from runtime.docker.container_spec import COURIER, COURIER_LABEL, HOME_LABEL, ContainerOptions, Specification, volumes
from runtime.docker.engine import address, is_far
from runtime.docker.engine_access import Reach
from runtime.docker.local_engine import Near
from runtime.docker.sandbox_folder import SPARE, SUFFIX, HeldError, SandboxFolder
from runtime.isolation import protected_paths
from runtime.isolation.bubblewrap import sandbox_user
from runtime.isolation.confinement import Isolation

if TYPE_CHECKING:
    import docker


FOLDER = "forgotten"


class Forgotten:
    """Those at the engine at this address."""

    def __init__(self, parent: Path, engine: str) -> None:
        self._folder = parent / FOLDER
        self._engine = engine

    def add(self, token: str) -> None:
        """Note a sandbox down. On the disk when this returns. Raises OSError."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        with open(self._folder / token, "w", encoding="utf-8") as file:
            file.write(self._engine)
            file.flush()
            os.fsync(file.fileno())

    def tokens(self) -> list[str]:
        """Those whose containers are still to go. Raises OSError."""
        if not self._folder.is_dir():
            return []
        return [path.name for path in self._folder.iterdir() if path.read_text("utf-8", "replace") == self._engine]

    def remove(self, token: str) -> None:
        """Its container is gone. Raises OSError."""
        (self._folder / token).unlink(missing_ok=True)


log = logging.getLogger(__name__)

PREFIX = "handloom"
_NO_NAME = re.compile(r"[^a-zA-Z0-9_.-]+")
"""What the engine does not let stand in a name."""
HELD_S = 3.0
"""For how long a sandbox that somebody holds is waited for."""
PAUSED_S = 7 * 24 * 3600.0
"""After so long a paused container is taken away: its conversation does not come back for it."""


class Warmable(Protocol):
    """A runtime that says how its container would be made, and holds what that rests on until it is closed."""

    async def specified(self) -> Specification: ...

    async def aclose(self) -> None: ...


class Fleet:
    """The containers of the home `home`. Belongs to one loop; close it at the end."""

    def __init__(
        self, home: Path, options: ContainerOptions, isolation: Isolation, server_options: tuple[str, ...] = ()
    ) -> None:
        self.parent = home / "sandboxes"
        self.options = options
        self.isolation = isolation
        self.server_options = server_options
        self.label = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]
        self.reach = _reach(address(options.engine), self.label)
        self._spares_wanted = 0 if self.reach.is_far else options.spares
        """A spare one elsewhere would have a copy of a workspace that has changed since."""
        self._forgotten = Forgotten(self.parent, address(options.engine))
        self._client: docker.DockerClient | None = None
        self._connecting = asyncio.Lock()
        self._spares: list[Launched] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def aclose(self) -> None:
        """Remove the spares and let go of the engine; containers of conversations stay. May be called twice."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*map(self._discard, self._spares))
        self._spares.clear()
        client, self._client = self._client, None
        if client is not None:
            await self._reconcile(client)  # what could not be removed while the engine was away
            await asyncio.to_thread(client.close)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Return when spares are there and what was left behind is taken away, as far as it can be."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # -- the engine --------------------------------------------------------------------------------------------------

    async def engine(self) -> docker.DockerClient:
        """The engine's client. Raises RuntimeUnavailableError where none answers."""
        from runtime.docker.engine import connect

        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(connect, self.options.engine)
                self._spawn(self._reconcile(self._client))
            return self._client

    async def image(self) -> str:
        """The image to make containers from. Raises RuntimeUnavailableError where there is none yet."""
        if self.options.image:
            return self.options.image
        from runtime.image import DEFAULT_BASE, find

        found = await find(await self.engine(), self.options.base or DEFAULT_BASE)
        if found is None:
            raise RuntimeUnavailableError(
                "There is no image for sandboxes yet, or it is of another version. Make it with: handloom image build"
            )
        return found

    def name(self, token: str) -> str:
        """What the container of a sandbox is called."""
        return f"{PREFIX}-{self.label[:6]}-{_NO_NAME.sub('-', token)}"

    # -- one container for a conversation ------------------------------------------------------------------------------

    async def take(self, token: str, specification: Specification, say: Say) -> Launched:
        """A container for the sandbox `token`: the one it had, a spare one, or a new one.

        Raises RuntimeUnavailableError, also where another process has that sandbox.
        """
        folder = SandboxFolder(self.parent, token)
        try:
            is_new = not await asyncio.to_thread(folder.path.exists)
            spare = await self._spare(specification) if is_new else None
            launched = await (self._made_over(spare, token) if spare else self._launched(folder, specification, say))
        except OSError as error:
            why = error.strerror or error
            raise RuntimeUnavailableError(f"The sandbox's folder {folder.path} cannot be used: {why}.") from error
        self._refill(specification)
        return launched

    async def _launched(self, folder: SandboxFolder, specification: Specification, say: Say) -> Launched:
        """The container that is there for this folder, or a new one. Raises RuntimeUnavailableError, OSError."""
        await _hold(folder)
        try:
            engine, reach, name = await self.engine(), self.reach, self.name(folder.token)
            found = await found_again(engine, reach, folder, specification, name=name, home=self.label)
            return found or await launch(engine, reach, folder, specification, name=name, home=self.label, say=say)
        except BaseException:
            folder.let_go()
            raise

    async def _made_over(self, spare: Launched, token: str) -> Launched:
        """A spare container as that of the sandbox `token`. Raises RuntimeUnavailableError, OSError."""
        try:
            await asyncio.to_thread(spare.folder.become, token)
            await spare.container.rename(self.name(token))
        except (OSError, RuntimeUnavailableError):
            await self._discard(spare)
            raise
        if spare.held is not None:
            await asyncio.to_thread(spare.held.close)
        return spare

    async def forget(self, token: str, *, later: bool = False) -> None:
        """Remove the container of the sandbox `token` with its volumes, and its folder; none of them is no error.

        Where `later`, what an engine that does not answer has goes once it answers. Raises OutOfReachError where it
        does not, RuntimeUnavailableError where another process has the sandbox, OSError.
        """
        folder = SandboxFolder(self.parent, token)
        await _hold(folder)
        try:
            await self._remove_contained(token, later=later)
            await asyncio.to_thread(folder.remove)
        finally:
            folder.let_go()

    async def _remove_contained(self, token: str, *, later: bool) -> None:
        try:
            await self._remove_all(await self.engine(), self.name(token))
        except RuntimeUnavailableError as error:
            if not later:
                raise OutOfReachError(
                    f"{error} To delete the conversation all the same, and have its container removed once the engine "
                    f"answers: handloom delete --without-engine {token}"
                ) from error
            await asyncio.to_thread(self._forgotten.add, token)

    async def _remove_all(self, engine: docker.DockerClient, name: str) -> None:
        """Take away what carries this name at the engine and is ours. Raises RuntimeUnavailableError."""
        from docker import errors

        ours = {"label": f"{HOME_LABEL}={self.label}"}
        for summary in await asked(engine.api.containers, all=True, filters=ours):
            if summary["Names"][0].lstrip("/").removesuffix(COURIER) == name:
                await Container(engine, summary["Id"], name).remove()
        for volume in volumes(name):
            with suppress(errors.NotFound):
                await asked(engine.api.remove_volume, volume)

    # -- the warm pool -----------------------------------------------------------------------------------------------

    def warm(self, runtime: Warmable) -> None:
        """Have a spare container for a conversation with such a runtime, which is not started."""
        if self._spares_wanted and not self._is_closed:
            self._spawn(self._fill_for(runtime))

    async def _fill_for(self, runtime: Warmable) -> None:
        try:
            await self._fill(await runtime.specified())
        except HandloomError as error:
            log.warning("no spare container: %s", error)
        finally:
            await runtime.aclose()

    def _refill(self, specification: Specification) -> None:
        if self._spares_wanted and not self._is_closed:
            self._spawn(self._fill(specification))

    async def _fill(self, specification: Specification) -> None:
        """Make what is missing of this specification; those of others that are too many go."""
        try:
            while sum(spare.specification.key == specification.key for spare in self._spares) < self._spares_wanted:
                spare = await self._launch_spare(specification)
                self._spares.append(spare)
            while len(self._spares) > self._spares_wanted:
                await self._discard(self._spares.pop(0))
        except HandloomError as error:
            log.warning("no spare container: %s", error)

    async def _launch_spare(self, specification: Specification) -> Launched:
        folder = SandboxFolder(self.parent, SPARE + secrets.token_hex(4))
        held = await asyncio.to_thread(
            protected_paths.HeldMounts, specification.placeholders(), sandbox_user(specification.workspace)
        )
        try:
            if held.identities() != specification.identities:
                raise RuntimeUnavailableError("the workspace has changed since")
            await asyncio.to_thread(folder.hold)
            engine = await self.engine()
            name = self.name(folder.token)
            spare = await launch(engine, self.reach, folder, specification, name=name, home=self.label)
            spare.held = held
        except BaseException:
            held.close()
            folder.remove()
            raise
        return spare

    async def _spare(self, specification: Specification) -> Launched | None:
        """A spare one that is well; those that are not go."""
        for spare in [spare for spare in self._spares if spare.specification.key == specification.key]:
            self._spares.remove(spare)
            if await spare.client.alive():
                return spare
            self._spawn(self._discard(spare))
        return None

    async def _discard(self, spare: Launched) -> None:
        await spare.client.aclose()
        with suppress(RuntimeUnavailableError):
            await spare.container.remove()
        if spare.held is not None:
            await asyncio.to_thread(spare.held.close)
        await asyncio.to_thread(spare.folder.remove)

    # -- what was left behind ------------------------------------------------------------------------------------------

    async def _reconcile(self, engine: docker.DockerClient) -> None:
        """Take away what a process that was killed has left, and keep what a conversation may come back for."""
        try:
            for token in await asyncio.to_thread(self._forgotten.tokens):
                await self._remove_all(engine, self.name(token))
                await asyncio.to_thread(self._forgotten.remove, token)
            found = await asked(engine.api.containers, all=True, filters={"label": f"{HOME_LABEL}={self.label}"})
            for summary in found:
                await self._look_after(engine, summary)
            await asyncio.to_thread(self._remove_folders)
        except (HandloomError, OSError) as error:
            log.warning("containers that were left behind stay: %s", error)

    async def _look_after(self, engine: docker.DockerClient, summary: dict[str, Any]) -> None:
        name = summary["Names"][0].lstrip("/")
        token = summary["Labels"].get(COURIER_LABEL) or name.removeprefix(self.name(""))
        folder = SandboxFolder(self.parent, token)
        try:
            await asyncio.to_thread(folder.hold)
        except HeldError:
            return  # somebody works with it
        try:
            may_come_back = not token.startswith(SPARE)
            is_old = time.time() - (await asyncio.to_thread(folder.path.stat)).st_mtime > PAUSED_S
            if may_come_back and (summary["State"] == "running" or (summary["State"] == "paused" and not is_old)):
                return
            await Container(engine, summary["Id"], name).remove()
            if token.startswith(SPARE):
                await asyncio.to_thread(folder.remove)
        finally:
            folder.let_go()

    def _remove_folders(self) -> None:
        """Those of spares that nobody holds; a container of theirs is gone already. Blocks."""
        for path in self.parent.glob(f"{SPARE}*{SUFFIX}"):
            folder = SandboxFolder(self.parent, path.name.removesuffix(SUFFIX))
            with suppress(HeldError, OSError):
                folder.hold()
                folder.remove()


async def _hold(folder: SandboxFolder) -> None:
    """Take the lock of a folder. Raises RuntimeUnavailableError where another process keeps it, OSError.

    A process that starts holds each sandbox of the home for a moment, to see what was left behind; so this waits.
    """
    gives_up_at = time.monotonic() + HELD_S
    while True:
        try:
            await asyncio.to_thread(folder.hold)
        except HeldError as error:
            if time.monotonic() > gives_up_at:
                raise RuntimeUnavailableError(
                    "Another Handloom has the sandbox of this conversation. Close the conversation there first."
                ) from error
            await asyncio.sleep(HELD_S / 50)
        else:
            return


def _reach(url: str, home: str) -> Reach:
    if is_far(url):
        from runtime.docker.remote_engine import Far  # with its client, which takes a moment

        return Far(url, home)
    return Near()
