"""How a container is made: what it sees, what it may use, and what it cannot do. Pure.

Two containers of the same specification can stand in for one another, which is what the warm pool relies on. Follows
the engine's own advice and what was tried against it: no capability, no new privileges, a root file system that cannot
be written, no network, and limits on memory, processors and processes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.types import DeviceRequest, LogConfig, Mount

from runtime.image import SERVER
from runtime.isolation import protected_paths
from runtime.isolation.cgroups import Limits

INSIDE = "/run/handloom"
"""Where the container finds the folder of its sockets."""
SOCKET = "s"
KEY = "key"
WAY_OUT = "way-out"
STATE = "state"
HOME = "/home/agent"
HOME_LABEL, SPECIFICATION_LABEL = "handloom.home", "handloom.specification"
"""A container is ours by its home's label; whose it is, its name says, which changes when a spare one is taken."""
COURIER_LABEL = "handloom.courier"
"""Of a container that carries files for the sandbox with this token."""
COURIER = ".courier"
"""Ends the name of a container that carries files."""
COPY_LABEL = "handloom.copy"
"""Of a volume with a workspace: which copy of it."""
GB = 1024**3
TMP_BYTES = 2 * GB
"""Of each temporary file system; they count as memory."""
LOG_BYTES = "1m"
"""The server says little; what it says must not fill the engine's disk."""


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """What the user may choose about containers."""

    engine: str = ""
    """Where the engine listens, as in DOCKER_HOST; empty takes that, or the system's."""
    image: str = ""
    """An image with an action server in it; empty takes the one that `handloom image build` makes."""
    base: str = ""
    """What that one is built on; empty takes the default."""
    network: str = "none"
    """A network of the engine's. `none` leaves the filtering proxy as the only way out."""
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[tuple[str, str, bool]] = ()
    """Folders of the host, where they are seen, and whether they can be written."""
    gpus: int = 0
    """How many; -1 for all."""
    spares: int = 1
    """Containers that wait for the next conversation of the same folder."""
    on_close: str = "remove"
    """`remove`, `pause` or `run`: what becomes of a container whose conversation is closed."""
    idle_s: float = 3600.0
    """After so long without a screen, a container ends by itself."""


@dataclass(frozen=True)
class Specification:
    """Everything that makes one container differ from another but its name and the folder of its sockets."""

    image: str
    workspace: Path
    user: tuple[int, int]
    options: ContainerOptions
    limits: Limits = field(default_factory=Limits)
    mounts: tuple[protected_paths.Mount, ...] = ()
    """What protects the workspace, in order."""
    identities: tuple[tuple[int, int], ...] = ()
    """Of what is mounted there: one that was replaced on the host is mounted no more."""
    opened: tuple[Path, ...] = ()
    """Folders beside the workspace that its git needs."""
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    """Folders that are out of sight even where they lie in what is seen."""
    allowed_hosts: tuple[str, ...] = ()
    """Whom the proxy lets it call; without any there is no proxy."""
    server_options: tuple[str, ...] = ()
    is_far: bool = False
    """Whether the engine sees nothing of this machine: then the workspace is a volume of its own."""
    kept_back: tuple[str, ...] = ()
    """Paths of the workspace that do not come back from there."""

    def placeholders(self) -> protected_paths.Mounts:
        """What has to be there for the container's mounts, and for as long."""
        made = [mount.path for mount in self.mounts if mount.is_placeholder]
        return protected_paths.Mounts(placeholders=made, guarded=[mount.path for mount in self.mounts])

    @property
    def key(self) -> str:
        """The same for containers that can stand in for one another."""
        return hashlib.sha256(repr((self._common(Path("/"), ""), self.identities)).encode()).hexdigest()[:16]

    def command(self) -> list[str]:
        """The action server's."""
        limits = {"--max-file": self.limits.file_bytes, "--min-free": self.limits.free_bytes}
        return [
            *SERVER,
            *("--working-dir", str(self.workspace), "--uds", f"{INSIDE}/{SOCKET}", "--key-file", f"{INSIDE}/{KEY}"),
            *("--state-dir", f"{INSIDE}/{STATE}", "--filter-calls", "--idle-exit", f"{self.options.idle_s:g}"),
            *(word for name, most in limits.items() if most is not None for word in (name, str(most))),
            *(("--proxy", f"{INSIDE}/{WAY_OUT}") if self.allowed_hosts and not self.is_far else ()),
            *self.server_options,
        ]

    def parameters(self, name: str, home: str, folder: Path) -> dict[str, Any]:
        """The arguments of the SDK's `containers.create`; `home` labels it, `folder` is the sandbox's on the host."""
        labels = {HOME_LABEL: home, SPECIFICATION_LABEL: self.key}
        return {**self._common(folder, name), "name": name, "labels": labels}

    def _common(self, folder: Path, name: str) -> dict[str, Any]:
        uid, gid = self.user
        limits = self.limits
        return {
            "image": self.image,
            "command": self.command(),
            "hostname": "sandbox",
            "user": f"{uid}:{gid}",
            "working_dir": str(self.workspace),
            "environment": {**self.options.environment, "HOME": HOME, "GIT_CONFIG_GLOBAL": f"{INSIDE}/gitconfig"},
            "init": True,  # takes away the processes that nobody waits for
            "detach": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "read_only": True,
            "network_mode": self.options.network,
            "extra_hosts": dict(self.options.extra_hosts) or None,
            "pids_limit": limits.processes,
            "mem_limit": limits.memory_bytes,
            "memswap_limit": limits.memory_bytes,
            "nano_cpus": None if limits.cpus is None else int(limits.cpus * 10**9),
            "shm_size": TMP_BYTES,
            "tmpfs": {
                "/tmp": f"rw,nosuid,nodev,exec,size={TMP_BYTES},mode=1777",  # noqa: S108  # the container's own
                "/var/tmp": f"rw,nosuid,nodev,exec,size={TMP_BYTES},mode=1777",  # noqa: S108
                HOME: f"rw,nosuid,nodev,exec,size={TMP_BYTES},mode=0700,uid={uid},gid={gid}",
            },
            "mounts": self._far_mounts(name) if self.is_far else self._mounts(folder),
            "device_requests": self._devices(),
            "log_config": LogConfig(type=LogConfig.types.JSON, config={"max-size": LOG_BYTES, "max-file": "1"}),
        }

    def _mounts(self, folder: Path) -> list[Mount]:
        seen = [
            _bind(folder / "inside", INSIDE),
            _bind(folder / "passwd", "/etc/passwd", read_only=True),
            _bind(folder / "group", "/etc/group", read_only=True),
            _bind(self.workspace, self.workspace),
            *(_bind(path, path) for path in self.opened),
            *(_bind(path, path, read_only=True) for path in self.readable),
            *(_bind(Path(source), target, read_only=not writable) for source, target, writable in self.options.volumes),
        ]
        shown = (self.workspace, *self.opened, *self.readable)
        hidden = [path for path in self.hidden if any(path.is_relative_to(place) for place in shown)]
        guards = [_guarded(mount) for mount in self.mounts]
        targets = {mount["Target"] for mount in guards}  # the engine takes one mount for each place
        seen = [mount for mount in seen if mount["Target"] not in targets]
        return [_empty(Path("/sys/kernel")), *seen, *(_empty(path) for path in hidden), *guards]

    def _far_mounts(self, name: str) -> list[Mount]:
        """Volumes of the engine's, and folders of the machine that it is on."""
        work, run = volumes(name)
        named = [
            _bind(Path(source), target, read_only=not writable) for source, target, writable in self.options.volumes
        ]
        return [_empty(Path("/sys/kernel")), _volume(run, INSIDE), _volume(work, self.workspace), *named]

    def courier(self, name: str, labels: Mapping[str, str], folder: str, places: tuple[str, str]) -> dict[str, Any]:
        """The arguments for a container that is never started, and has the volumes in these places of a folder."""
        seen = volumes(name.removesuffix(COURIER))
        return {
            "image": self.image,
            "command": ["true"],
            "name": name,
            "labels": dict(labels),
            "network_mode": "none",
            "mounts": [_volume(volume, f"{folder}/{place}") for volume, place in zip(seen, places, strict=True)],
        }

    def _devices(self) -> list[DeviceRequest] | None:
        return [DeviceRequest(count=self.options.gpus, capabilities=[["gpu"]])] if self.options.gpus else None


def volumes(name: str) -> tuple[str, str]:
    """The volumes of the container of this name, at an engine elsewhere: the workspace's, and that of its sockets."""
    return f"{name}.work", f"{name}.run"


def _volume(name: str, target: str | Path) -> Mount:
    return Mount(str(target), name, type="volume", no_copy=True)


def _bind(source: Path, target: str | Path, read_only: bool = False) -> Mount:
    return Mount(str(target), str(source), type="bind", read_only=read_only)


def _guarded(mount: protected_paths.Mount) -> Mount:
    if mount.access in ("empty", "hidden folder"):
        return _empty(mount.path, 0o555 if mount.access == "empty" else 0o100)  # no mode at all would be the default
    if mount.access == "hidden file":
        return _bind(Path(os.devnull), mount.path, read_only=True)
    return _bind(mount.path, mount.path, mount.access != "open")


def _empty(path: Path, mode: int = 0o555) -> Mount:
    return Mount(str(path), None, type="tmpfs", tmpfs_size=4096, tmpfs_mode=mode, read_only=True)
