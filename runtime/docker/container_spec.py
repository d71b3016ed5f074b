"""The specification of a container: mounts, limits and hardening. Pure.

Two containers with the same spec are interchangeable, which the warm pool relies on. Hardening: no
capabilities, no new privileges, a read-only root file system, no network, and limits on memory, processors and
processes.
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
from runtime.isolation.egress_proxy import PROXY_SOCKET
from runtime.isolation.git_forwarder import GIT_SOCKET

INSIDE = "/run/handloom"
"""The folder for sockets in the container."""
SOCKET = "s"
KEY = "key"
STATE = "state"
HOME = "/home/agent"
HOME_LABEL, SPECIFICATION_LABEL = "handloom.home", "handloom.spec"
"""HOME_LABEL marks Handloom's containers. Their name says to which conversation they belong, and changes when a spare
one is used."""
COURIER_LABEL = "handloom.courier"
"""Label of a container for file transfer; its value is the sandbox's token."""
COURIER = ".courier"
"""Suffix of the name of a container for file transfer."""
COPY_LABEL = "handloom.copy"
"""Label of a volume with a workspace; its value is the id of the upload."""
GB = 1024**3
TMP_BYTES = 2 * GB
"""Size of each temporary file system; they count as memory."""
LOG_BYTES = "1m"
"""Size limit of the server's log on the engine's disk."""


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """The user's settings for containers."""

    engine: str = ""
    """Address of the engine, as in DOCKER_HOST; if empty, DOCKER_HOST or the system's default."""
    image: str = ""
    """An image with an action server; if empty, the one that `handloom image build` makes."""
    base: str = ""
    """The base of that image; if empty, the default."""
    network: str = "none"
    """A network of the engine. With `none` the filtering proxy is the only network access."""
    extra_hosts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[tuple[str, str, bool]] = ()
    """Folders of the host, their paths in the container, and whether they are writable."""
    gpus: int = 0
    """Number of GPUs; -1 for all."""
    spares: int = 1
    """Number of warm containers for the next conversation in the same folder."""
    on_close: str = "remove"
    """What happens to the container of a closed conversation: `remove`, `pause` or `run`."""
    idle_s: float = 3600.0
    """A container ends automatically after this time without a connection."""


@dataclass(frozen=True)
class ContainerSpec:
    """Everything that distinguishes a container, except its name and the folder for its sockets."""

    image: str
    workspace: Path
    user: tuple[int, int]
    options: ContainerOptions
    limits: Limits = field(default_factory=Limits)
    mounts: tuple[protected_paths.Mount, ...] = ()
    """The mounts that protect the workspace, in order."""
    identities: tuple[tuple[int, int], ...] = ()
    """Device and inode of the mounted files, so that a replaced file makes another spec."""
    writable: tuple[Path, ...] = ()
    """Folders outside the workspace that its git needs."""
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    """Folders that are hidden even inside visible folders."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that the proxy allows; see `has_proxy`."""
    server_options: tuple[str, ...] = ()
    is_remote: bool = False
    """Whether the engine is remote, so that the workspace is copied to a volume."""
    excluded_paths: tuple[str, ...] = ()
    """Paths of the workspace that are not copied back."""

    def placeholders(self) -> protected_paths.Mounts:
        """Return the placeholder files that must exist as long as the container's mounts."""
        made = [mount.path for mount in self.mounts if mount.is_placeholder]
        return protected_paths.Mounts(placeholders=made, mount_points=[mount.path for mount in self.mounts])

    @property
    def has_proxy(self) -> bool:
        """Whether a proxy is the way to the network, also if it allows nothing yet."""
        return not self.is_remote and (bool(self.allowed_hosts) or self.options.network == "none")

    @property
    def key(self) -> str:
        """A hash that is equal for interchangeable containers."""
        return hashlib.sha256(repr((self._common(Path("/"), ""), self.identities)).encode()).hexdigest()[:16]

    def command(self) -> list[str]:
        """Return the action server's command."""
        limits = {"--max-file": self.limits.file_bytes, "--min-free": self.limits.free_bytes}
        return [
            *SERVER,
            *("--working-dir", str(self.workspace), "--uds", f"{INSIDE}/{SOCKET}", "--key-file", f"{INSIDE}/{KEY}"),
            *("--state-dir", f"{INSIDE}/{STATE}", "--filter-calls", "--idle-exit", f"{self.options.idle_s:g}"),
            *(word for name, most in limits.items() if most is not None for word in (name, str(most))),
            *(("--proxy", f"{INSIDE}/{PROXY_SOCKET}") if self.has_proxy else ()),
            *(() if self.is_remote else ("--git", f"{INSIDE}/{GIT_SOCKET}")),
            *self.server_options,
        ]

    def parameters(self, name: str, home: str, folder: Path) -> dict[str, Any]:
        """Return arguments for the SDK's `containers.create`; `home` is the label's value, `folder` the sandbox's
        folder on the host."""
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
            "init": True,  # reaps orphaned processes
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
            "mounts": self._remote_mounts(name) if self.is_remote else self._mounts(folder),
            "device_requests": self._devices(),
            "log_config": LogConfig(type=LogConfig.types.JSON, config={"max-size": LOG_BYTES, "max-file": "1"}),
        }

    def _mounts(self, folder: Path) -> list[Mount]:
        mounts = [
            _bind(folder / "inside", INSIDE),
            _bind(folder / "passwd", "/etc/passwd", read_only=True),
            _bind(folder / "group", "/etc/group", read_only=True),
            _bind(self.workspace, self.workspace),
            *(_bind(path, path) for path in self.writable),
            *(_bind(path, path, read_only=True) for path in self.readable),
            *self._volume_mounts(),
        ]
        shown = (self.workspace, *self.writable, *self.readable)
        hidden = [path for path in self.hidden if any(path.is_relative_to(place) for place in shown)]
        guards = [_protecting_mount(mount) for mount in self.mounts]
        targets = {mount["Target"] for mount in guards}  # the engine accepts one mount per target
        mounts = [mount for mount in mounts if mount["Target"] not in targets]
        return [_empty(Path("/sys/kernel")), *mounts, *(_empty(path) for path in hidden), *guards]

    def _remote_mounts(self, name: str) -> list[Mount]:
        work, run = volumes(name)
        kernel = _empty(Path("/sys/kernel"))
        return [kernel, _volume(run, INSIDE), _volume(work, self.workspace), *self._volume_mounts()]

    def _volume_mounts(self) -> list[Mount]:
        volumes = self.options.volumes
        return [_bind(Path(source), target, read_only=not writable) for source, target, writable in volumes]

    def courier(self, name: str, labels: Mapping[str, str], folder: str, places: tuple[str, str]) -> dict[str, Any]:
        """Return arguments for a container for file transfer, which has the volumes in these subfolders of `folder`."""
        names = volumes(name.removesuffix(COURIER))
        return {
            "image": self.image,
            "command": ["true"],
            "name": name,
            "labels": dict(labels),
            "network_mode": "none",
            "mounts": [_volume(volume, f"{folder}/{place}") for volume, place in zip(names, places, strict=True)],
        }

    def _devices(self) -> list[DeviceRequest] | None:
        return [DeviceRequest(count=self.options.gpus, capabilities=[["gpu"]])] if self.options.gpus else None


def volumes(name: str) -> tuple[str, str]:
    """Return the names of a container's volumes at a remote engine: for the workspace and for the sockets."""
    return f"{name}.work", f"{name}.run"


def _volume(name: str, target: str | Path) -> Mount:
    return Mount(str(target), name, type="volume", no_copy=True)


def _bind(source: Path, target: str | Path, read_only: bool = False) -> Mount:
    return Mount(str(target), str(source), type="bind", read_only=read_only)


def _protecting_mount(mount: protected_paths.Mount) -> Mount:
    if mount.access in ("empty", "hidden folder"):
        return _empty(mount.path, 0o555 if mount.access == "empty" else 0o100)  # no mode at all would be the default
    if mount.access == "hidden file":
        return _bind(Path(os.devnull), mount.path, read_only=True)
    return _bind(mount.path, mount.path, mount.access != "open")


def _empty(path: Path, mode: int = 0o555) -> Mount:
    return Mount(str(path), None, type="tmpfs", tmpfs_size=4096, tmpfs_mode=mode, read_only=True)
