"""Containers for tests: the image, built at most once a run, and a hardened container of it with the action server.

Marked tests only (`pytest.mark.docker`): what is here needs the engine. The image is built on HANDLOOM__DOCKER__BASE,
else on the base of `make engine` where that is, else on the official Python image.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime import image
from runtime.client import ActionExecutionClient
from runtime.docker.engine import connect

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

LOCAL_BASE = "handloom-base:bookworm"
KEY = "k" * 64
USER = image.User.of_host()
HARDENED: Mapping[str, Any] = {
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "read_only": True,
    "init": True,
    "network_mode": "none",
    "pids_limit": 512,
    "mem_limit": "2g",
    "memswap_limit": "2g",
    "tmpfs": {
        "/tmp": "rw,nosuid,nodev,exec,size=512m,mode=1777",
        "/home/agent": f"rw,nosuid,nodev,exec,size=64m,mode=700,uid={USER.uid},gid={USER.gid}",
    },
}
"""How little a sandbox needs."""


@cache
def base_image() -> str:
    """What images are built on here."""
    if named := os.environ.get("HANDLOOM__DOCKER__BASE"):
        return named
    with engine() as client:
        is_local = bool(client.api.images(LOCAL_BASE))
    return LOCAL_BASE if is_local else image.DEFAULT_BASE


@cache
def sandbox_image() -> str:
    """The sandbox's image, built unless it is there. Takes up to minutes where it is not; blocks."""

    def tell(step: str) -> None:
        sys.stderr.write(f"{step}\n")

    with engine() as client, ThreadPoolExecutor(1) as apart:  # a loop may run already
        return apart.submit(asyncio.run, image.build(client, base_image(), tell)).result()


@contextmanager
def engine() -> Iterator[docker.DockerClient]:
    """A client of the engine, closed at the end."""
    client = connect()
    try:
        yield client
    finally:
        client.close()


def engine_environ() -> dict[str, str]:
    """The variables with which a program finds the engine of the tests."""
    return {name: value for name, value in os.environ.items() if name.startswith("DOCKER_")}


class Served:
    """An action server in a container: the container, and what its server and this machine share."""

    def __init__(self, container: Container, workspace: Path, socket: Path) -> None:
        self.container = container
        self.workspace = workspace
        self._socket = socket

    def client(self) -> ActionExecutionClient:
        """A client of its server; to be closed."""
        return ActionExecutionClient(KEY, uds=str(self._socket))

    def run(self, *command: str) -> tuple[int, str]:
        """Exit status and output of a program beside the server."""
        done = self.container.exec_run(list(command))
        return done.exit_code, done.output.decode()


@contextmanager
def served(*options: str, tag: str = "", limits: Mapping[str, Any] | None = None) -> Iterator[Served]:
    """A hardened container whose server is ready, gone at the end; `options` are the server's."""
    tag = tag or sandbox_image()
    with ExitStack() as stack:
        client = stack.enter_context(engine())
        folder = Path(tempfile.mkdtemp(prefix="handloom-", dir="/tmp"))  # a socket's path must be short
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        workspace, private = folder / "w", folder / "s"
        for made in (workspace, private):
            made.mkdir(0o700)
        (private / "key").write_text(KEY)
        if os.getuid() == 0:
            for path in (folder, workspace, private, private / "key"):
                os.chown(path, USER.uid, USER.gid)
        container = client.containers.run(
            tag,
            [
                *image.SERVER,
                *("--working-dir", "/workspace", "--uds", "/run/handloom/s", "--key-file", "/run/handloom/key"),
                *options,
            ],
            user=f"{USER.uid}:{USER.gid}",
            volumes={
                str(workspace): {"bind": "/workspace", "mode": "rw"},
                str(private): {"bind": "/run/handloom", "mode": "rw"},
            },
            detach=True,
            **{**HARDENED, **(limits or {})},
        )
        stack.callback(container.remove, force=True)
        await_ready(client, container)
        yield Served(container, workspace, private / "s")


def await_ready(client: docker.DockerClient, container: Container) -> None:
    """Read the container's log until its server is ready. Not by the SDK, whose stream stays open."""
    url = f"{client.api.base_url}/v{client.api.api_version}/containers/{container.id}/logs"
    said = b""
    with client.api.get(url, params={"follow": 1, "stdout": 1, "stderr": 1}, stream=True) as log:
        for part in log.iter_content(None):  # to the container's end
            said += part
            if b"ready unix:" in said:
                return
    raise AssertionError(f"the server did not start: {said.decode(errors='replace')}")
