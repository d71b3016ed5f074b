"""RuntimeFactory: creates the runtime of each conversation, chosen by the settings.

It blocks, so the manager calls it in a thread. The pool of containers is created with the first container, and closed
with the manager.
"""

from __future__ import annotations

import asyncio
import glob
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from core.autorun_paths import NAMES
from core.errors import ConfigurationError, RuntimeUnavailableError
from core.interpreter import leave_out
from core.sandbox_types import variable

if TYPE_CHECKING:
    from core.protocols import Checkpoints, Runtime
    from core.settings.config import DockerSettings, RemoteSettings, SandboxSettings, Settings
    from core.store.conversations import ConversationInfo
    from runtime.docker.container_spec import ContainerOptions
    from runtime.docker.warm_pool import WarmPool
    from runtime.isolation.confinement import Isolation

MB = 1024 * 1024
SANDBOXES = "sandboxes"
"""The folder in the home for data that outlives a sandbox, by conversation id."""
CONTAINED = ".docker"
"""The suffix of that folder's name for a container."""


class RuntimeFactory:
    """Creates the runtime of each conversation. An async context manager; leaving it closes the pool of containers.

    `settings` returns the current settings; without `spares` no container is kept ready for the next conversation.
    """

    def __init__(
        self, home: Path, settings: Callable[[], Settings], environ: Mapping[str, str], *, spares: bool = True
    ) -> None:
        self._home = home
        self._settings = settings
        self._environ = environ
        self._spares = spares
        self._pool: WarmPool | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._pool is not None:
            await self._pool.aclose()

    def __call__(self, workspace: str) -> Runtime:
        """A runtime for this folder, not started. Blocks. Raises ConfigurationError.

        It enforces the rules of files; a conversation adds its own rules.
        """
        from core.security.guard import guard_for_folder

        leave_out(workspace)
        runtime = self._create(workspace)
        runtime.deny(guard_for_folder(self._home, workspace).denials)
        return runtime

    def _create(self, workspace: str) -> Runtime:
        from runtime.isolation.confinement import remove_abandoned

        settings = self._settings()
        remove_abandoned()
        if settings.runtime == "docker":
            from runtime.docker.docker_runtime import DockerRuntime

            return DockerRuntime(self._warm_pool(settings), workspace)
        if settings.runtime == "remote":
            return _remote(settings.remote, self._environ)
        from runtime.local.local_runtime import LocalRuntime

        isolation = isolation_of(settings.sandbox, self._home)
        return LocalRuntime(workspace, isolation=isolation, options=_plugin_options(settings.sandbox))

    def before_server(self, folder: str, hosts: Sequence[str]) -> tuple[str, ...]:
        """The words before the command of an MCP server that isolate it in a workspace; empty without isolation.

        It may access these hosts besides those of the settings.
        Blocks. Raises RuntimeUnavailableError if the settings require isolation and it is not available, or want it in
        the sandbox of a conversation.
        """
        from core.security.guard import guard_for_folder
        from runtime.isolation.confinement import Confinement
        from runtime.isolation.isolated_program import command_prefix

        settings = self._settings()
        if settings.runtime != "local":
            raise RuntimeUnavailableError("It runs in the sandbox of a conversation. Open the conversation first.")
        isolation = isolation_of(settings.sandbox, self._home)
        isolation = replace(isolation, allowed_hosts=(*isolation.allowed_hosts, *hosts))
        if isolation.kind == "none":
            return ()
        workspace = Path(folder).resolve()
        why = Confinement(workspace, replace(isolation, kind="auto")).why_open
        if not why:
            return command_prefix(workspace, isolation, guard_for_folder(self._home, str(workspace)).denials())
        if isolation.kind == "bubblewrap":
            raise RuntimeUnavailableError(
                f"This server cannot be isolated: {why}. To run it on this machine as you, name it under [mcp.servers] "
                "of your own config.toml, with sandbox = false."
            )
        return ()

    def checkpoints(self, workspace: str, conversation_id: str) -> Checkpoints | None:
        """The store of a workspace's checkpoints; None if the settings want none."""
        settings = self._settings()
        if not settings.sandbox.checkpoints or _is_elsewhere(settings):
            return None
        from runtime.checkpoints.checkpoint_store import WorkspaceCheckpoints

        return WorkspaceCheckpoints(self._home, workspace, conversation_id)

    async def forget(self, info: ConversationInfo, *, later: bool = False) -> None:
        """Remove a conversation's data of any kind of runtime: checkpoints, container and volumes, folders.

        With `later`, a container whose engine does not answer is removed once it does; without, this raises
        OutOfReachError. Raises CheckpointError, ConfigurationError and RuntimeUnavailableError.
        """
        from runtime.checkpoints.checkpoint_store import WorkspaceCheckpoints, is_kept

        if await asyncio.to_thread(is_kept, self._home, info.workspace):
            await WorkspaceCheckpoints(self._home, info.workspace, info.id).delete()
        folder = self._home / SANDBOXES / info.id
        if await asyncio.to_thread(folder.with_name(f"{info.id}{CONTAINED}").exists):
            pool = await asyncio.to_thread(self._warm_pool, self._settings())
            await pool.forget(info.id, later=later)
        await asyncio.to_thread(_remove, folder)

    async def warm(self, workspace: str) -> None:
        """Start to prepare a container for the first conversation in this folder, if the settings use containers.

        Returns before it is ready. Raises ConfigurationError.
        """
        if self._settings().runtime == "docker":
            runtime = await asyncio.to_thread(self, workspace)
            assert self._pool is not None
            self._pool.warm(runtime)  # type: ignore[arg-type]

    def _warm_pool(self, settings: Settings) -> WarmPool:
        from runtime.docker.warm_pool import WarmPool

        if self._pool is None:
            docker = settings.docker if self._spares else settings.docker.model_copy(update={"spares": 0})
            options = _container_options(docker, self._environ)
            isolation = isolation_of(settings.sandbox, self._home)
            self._pool = WarmPool(self._home, options, isolation, _plugin_options(settings.sandbox))
        return self._pool


def _remove(folder: Path) -> None:
    """Remove a sandbox's folder and others whose names start with its name. Blocks. Raises RuntimeUnavailableError."""
    try:
        for path in folder.parent.glob(f"{glob.escape(folder.name)}*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        where = error.filename or folder
        raise RuntimeUnavailableError(
            f"{where} cannot be removed: {error.strerror or error}. Remove it manually, then "
            f"delete the conversation again."
        ) from error


def _is_elsewhere(settings: Settings) -> bool:
    """Whether the agent works on a copy on another machine."""
    if settings.runtime == "docker":
        from runtime.docker.engine import is_remote

        return is_remote(settings.docker.engine)
    return settings.runtime == "remote"


def _remote(settings: RemoteSettings, environ: Mapping[str, str]) -> Runtime:
    """Raises ConfigurationError."""
    from runtime.remote.remote_runtime import RemoteRuntime, parse_address, read_key

    return RemoteRuntime(
        parse_address(settings.url),
        lambda: read_key(environ, settings.key_env, settings.key_file),
        ca_file=settings.ca_file,
        working_dir=settings.working_dir,
        patience_s=settings.patience_s,
    )


def isolation_of(settings: SandboxSettings, home: Path) -> Isolation:
    """The isolation of a sandbox, by the settings."""
    from runtime.isolation.cgroups import Limits
    from runtime.isolation.confinement import Isolation

    own_mb = settings.max_memory_mb
    limits = Limits(
        memory_bytes=own_mb * MB if own_mb else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4,
        memory_of_each_bytes=own_mb and own_mb * MB,
        cpus=settings.max_cpus,
        processes=settings.max_processes,
        file_bytes=settings.max_file_mb and settings.max_file_mb * MB,
        free_bytes=settings.min_free_mb and settings.min_free_mb * MB,
    )
    return Isolation(
        kind=settings.isolation,
        allowed_hosts=settings.allowed_hosts,
        readable_paths=settings.readable_paths,
        hidden_paths=(home,),
        protected_paths=NAMES if settings.protected_paths is None else settings.protected_paths,
        limits=limits,
    )


def _plugin_options(settings: SandboxSettings) -> tuple[str, ...]:
    return ("--lazy-plugins", "--plugins", ",".join(settings.plugins)) if settings.plugins else ()


def _container_options(settings: DockerSettings, environ: Mapping[str, str]) -> ContainerOptions:
    """Raises ConfigurationError, which names the setting."""
    from runtime.docker.container_spec import ContainerOptions
    from runtime.docker.engine import is_remote

    far = is_remote(settings.engine)
    return ContainerOptions(
        engine=settings.engine,
        image=settings.image,
        base=settings.base,
        network=settings.network,
        extra_hosts=dict(_pair("extra_hosts", text, ":") for text in settings.extra_hosts),
        environment=dict(variable("docker.environment", text, environ) for text in settings.environment),
        volumes=tuple(_volume(text, is_far=far) for text in settings.volumes),
        gpus=settings.gpus,
        spares=settings.spares,
        on_close=settings.on_close,
        idle_s=settings.idle_minutes * 60,
    )


def _pair(setting: str, text: str, between: str) -> tuple[str, str]:
    name, found, value = text.partition(between)
    if not (name and found and value):
        raise ConfigurationError(f"docker.{setting} cannot be {text!r}: write NAME{between}VALUE.")
    return name, value


def _volume(text: str, *, is_far: bool) -> tuple[str, str, bool]:
    """A folder on the engine's machine, its path in the container, and whether it is writable."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    folder = Path(source).expanduser()
    if not target.startswith("/") or mode not in ("", "ro", "rw"):
        raise ConfigurationError(f"docker.volumes cannot be {text!r}: write FOLDER:/PATH or FOLDER:/PATH:ro.")
    if is_far and source.startswith("/"):
        return source, target, mode != "ro"
    if not folder.is_dir():
        raise ConfigurationError(
            f"docker.volumes names {folder}, which is not a folder. Create it, or remove it from the list."
        )
    return str(folder.resolve()), target, mode != "ro"
