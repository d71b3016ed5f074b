"""DockerRuntime: the action server in a container, which survives if Handloom is killed.

The workspace has the same path inside and outside. While an action runs, the server's health is checked every few
seconds; if it does not answer, the engine is asked why. A container that was paused from outside is resumed by the next
action. One that stopped, died or was removed is replaced by a new one.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import RuntimeUnavailableError
from core.events import Action, Frame, Observation, Refusal
from core.sandbox_types import Connect, Denials, GitAccess, Say
from runtime.cancellation import run_to_completion
from runtime.docker.container import Container
from runtime.docker.container_launch import LaunchedContainer
from runtime.docker.container_spec import ContainerSpec
from runtime.docker.sandbox_folder import SandboxFolder
from runtime.docker.warm_pool import WarmPool
from runtime.isolation.bubblewrap import sandbox_user
from runtime.isolation.cgroups import described
from runtime.isolation.egress_proxy import PROXY_SOCKET, EgressProcess, egress_process
from runtime.isolation.git_forwarder import GIT_SOCKET, git_forwarder
from runtime.isolation.protected_paths import Mounts, ProtectionError, Visibility
from runtime.isolation.refusals import host_refusals
from runtime.isolation.workspace_guard import WorkspaceGuard
from runtime.sandbox_facts import CONTAINER, NETWORK, SANDBOX, UNLIMITED, network_text
from runtime.server_runtime import ServerRuntime

if TYPE_CHECKING:
    from runtime.client import ActionExecutionClient


class DockerRuntime(ServerRuntime):
    """Carries out actions in a container of `pool`. Implements core.protocols.Runtime.

    `options` are passed to the server unchanged.
    """

    isolation = "docker"
    why_open = ""
    runs_servers = True
    _missing_program_advice = "Use an image that has it: docker.image, or docker.base and `handloom image build`"

    def __init__(self, pool: WarmPool, working_dir: str | Path, *, options: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._pool = pool
        self._working_dir = Path(working_dir).resolve()
        self._options = options
        self._isolation = pool.isolation
        self._token, self._is_persistent = secrets.token_hex(8), False
        self._guard: WorkspaceGuard = WorkspaceGuard(self._working_dir, self._isolation.protected_paths)
        self._stack = AsyncExitStack()
        self._launched: LaunchedContainer | None = None
        self._egress: EgressProcess | None = None
        self._opened_hosts: tuple[str, ...] = ()
        """Hosts that the user has allowed besides those of the settings."""
        self._server_hosts: tuple[str, ...] = ()
        """Hosts that the MCP servers inside may access; the sandbox has one proxy for all."""
        self._git_access: GitAccess | None = None
        self._messages: list[str] = []
        """Lines about the download from a remote engine."""

    @property
    def working_dir(self) -> str:
        return str(self._working_dir)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the sandbox works on a copy of the workspace; see core.protocols.Runtime."""
        return self._pool.access.is_remote

    @property
    def container_name(self) -> str | None:
        """The name of the container, or None."""
        return self._launched.container.name if self._launched is not None else None

    @property
    def container(self) -> Container:
        assert self._launched is not None
        return self._launched.container

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Allow the sandbox to call this host or to read this folder from the next start on."""
        self._isolation = self._isolation.allowing(host, folder)

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Enforce these denials, read at each start; see core.protocols.Runtime."""
        self._guard.denied = denied

    def allow_git(self, access: GitAccess) -> None:
        """Let git reach this with the user's tokens and ssh keys from the next start on; see core.protocols.Runtime."""
        self._git_access = access

    def keep(self, folder: Path) -> None:
        """Use the sandbox of this name, and reattach to what an earlier process has left of it."""
        self._token, self._is_persistent = folder.name, True
        self._guard.baseline_file = folder.with_name(f"{folder.name}.before")

    async def came_back(self) -> list[str]:
        """Return a line for each file that was not copied back from a remote engine as it was there."""
        return list(self._messages)

    async def specified(self) -> ContainerSpec:
        """Return the spec for the workspace as it is now, and hold its mount points from now on.

        Raises RuntimeUnavailableError.
        """
        image = await self._pool.image()
        return await asyncio.to_thread(self._specified, image)

    def _specified(self, image: str) -> ContainerSpec:
        if not self._working_dir.is_dir():
            raise RuntimeUnavailableError(f"The workspace {self._working_dir} is not a folder. Choose another one.")
        isolation = self._isolation
        user = sandbox_user(self._working_dir)
        is_remote = self._pool.access.is_remote
        visibility = Visibility(
            readable=tuple(path.expanduser().resolve() for path in isolation.readable_paths),
            hidden=tuple(path.resolve() for path in isolation.hidden_paths),
        )
        try:
            self._guard.audit()
            mounts = Mounts() if is_remote else self._guard.mounts(visibility)
            self._guard.hold(mounts, user)
        except (ProtectionError, OSError) as error:
            raise RuntimeUnavailableError(f"The workspace cannot be protected: {error}.") from error
        denies_all = self._guard.denials.denies_every_host
        return ContainerSpec(
            image=image,
            workspace=self._working_dir,
            user=_image_user() if is_remote else user or (os.getuid(), os.getgid()),
            options=replace(self._pool.options, network="none") if denies_all else self._pool.options,
            limits=isolation.limits,
            mounts=tuple(mounts.mounts),
            identities=self._guard.identities(),
            writable=tuple(mounts.writable),
            readable=visibility.readable,
            hidden=visibility.hidden,
            allowed_hosts=tuple(isolation.allowed_hosts),
            server_options=(*self._pool.server_options, *self._options),
            is_remote=is_remote,
            excluded_paths=tuple(isolation.protected_paths),
        )

    async def _open(self, say: Say) -> ActionExecutionClient:
        spec = await self.specified()
        self._limits = tuple(described(spec.limits))
        launched = self._launched = await self._pool.take(self._token, spec, say)
        self._add_messages(launched.messages)
        if spec.allowed_hosts and spec.is_remote:
            say("Allowed hosts do not work with a remote container engine: set docker.network instead")
        elif spec.has_proxy:
            socket = launched.folder.inside / PROXY_SOCKET
            hosts, user = spec.allowed_hosts, spec.user if os.getuid() == 0 else None
            denied = self._guard.denials.hosts
            self._egress = await self._stack.enter_async_context(egress_process(socket, hosts, denied, user))
            await self._egress.started()
            if hosts := (*self._opened_hosts, *self._server_hosts):
                await self._egress.open_hosts(hosts)
        if not spec.is_remote:
            forwarder = git_forwarder(
                launched.folder.inside / GIT_SOCKET,
                self._git_access,
                allowed_hosts=spec.allowed_hosts if spec.options.network == "none" else ("*",),
                denied=self._guard.denials.hosts,
                user=spec.user if os.getuid() == 0 else None,
            )
            self._git = await self._stack.enter_async_context(forwarder)
        return launched.client

    async def _shut(self) -> None:
        launched, self._launched = self._launched, None
        self._egress = None
        await self._stack.aclose()
        self._stack = AsyncExitStack()
        if launched is not None:
            launched.is_released = True
            try:
                self._add_messages(await self._pool.access.end(launched))
            finally:
                await asyncio.to_thread(self._release_folder, launched.folder)
        await asyncio.to_thread(self._guard.release)

    def _add_messages(self, lines: list[str]) -> None:
        self._messages = list(dict.fromkeys([*self._messages, *lines]))

    def _release_folder(self, folder: SandboxFolder) -> None:
        if self._is_persistent or folder.has_unsaved_work:
            folder.release()
        else:
            folder.remove()

    async def rest(self) -> None:
        """Remove the container, pause it, or leave it running, as `docker.on_close` says."""
        on_close = self._pool.options.on_close
        if on_close == "remove":
            await self.aclose()
            return
        async with self._starting:
            launched, self._launched = self._launched, None
            try:
                if launched is not None:
                    launched.is_released = True
                    if on_close == "pause":
                        await launched.container.pause()
                    self._add_messages(await self._pool.access.fetch(launched))
            finally:
                if launched is not None:
                    launched.folder.release()
                await asyncio.to_thread(self._guard.release, leave=True)
                await run_to_completion(self._end())

    async def _revive(self) -> bool:
        """Resume a container that was paused from outside. Returns whether the sandbox may still be used."""
        if self._launched is None:
            return False
        status = await self._launched.container.status()
        if status == "paused":
            await self._launched.container.unpause()
            return True
        return status == "running" and self._pool.access.is_remote

    def _boundary(self) -> dict[str, str]:
        network, hosts = self._pool.options.network, self._isolation.allowed_hosts
        hosts = (*hosts, *self._opened_hosts, *self._server_hosts)
        text = network_text(() if self.is_elsewhere else hosts) if network == "none" else UNLIMITED
        return {SANDBOX: CONTAINER, NETWORK: text}

    def _refusals(self, observation: Observation) -> list[Refusal]:
        return host_refusals(self._egress.take_refused()) if self._egress is not None else []

    async def open_hosts(self, hosts: Sequence[str]) -> None:
        """Let programs connect to these hosts too, if the sandbox has a proxy; see core.protocols.Runtime."""
        self._opened_hosts = tuple(hosts)
        await self._open_hosts()

    async def _open_hosts(self) -> None:
        if self._egress is not None:
            await self._egress.open_hosts((*self._opened_hosts, *self._server_hosts))

    async def run_server(
        self, command: Sequence[str], environ: Mapping[str, str], hosts: Sequence[str], connect: Connect
    ) -> str:
        """Run an MCP server inside; its hosts are open to all programs. See core.protocols.Runtime."""
        if new := [host for host in hosts if host not in self._server_hosts]:
            self._server_hosts += tuple(new)
            await self._open_hosts()
        return await super().run_server(command, environ, hosts, connect)

    async def _execute(
        self, client: ActionExecutionClient, action: Action, action_id: int, on_frame: Callable[[Frame], None]
    ) -> Observation:
        assert self._launched is not None
        return await self._pool.access.execute(self._launched, action, action_id, on_frame)


def _image_user() -> tuple[int, int]:
    """Return the user of the image, because the sandbox has its own copy of the workspace."""
    from runtime.image.build_context import User

    user = User.of_host()
    return user.uid, user.gid
