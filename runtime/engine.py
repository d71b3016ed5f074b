"""The way to the container engine: DOCKER_HOST, else the system's own socket, as the SDK finds them, and ssh.

An engine is far where it may run on another machine: then it sees no file and no socket of this one.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from core.errors import RuntimeUnavailableError

if TYPE_CHECKING:
    import docker

SYSTEMS_OWN = "unix:///var/run/docker.sock"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANSWER_WITHIN_S = 60
"""A busy engine takes seconds to make a container."""


def address(host: str = "") -> str:
    """Where the engine listens: `host`, else DOCKER_HOST, else the system's own socket."""
    return host or os.environ.get("DOCKER_HOST") or SYSTEMS_OWN


def is_far(host: str = "") -> bool:
    """Whether the engine there may be another machine's. ssh is far also where it leads back to this one."""
    parts = urlsplit(address(host))
    if parts.scheme in ("unix", "npipe", "http+unix", ""):
        return False
    return parts.scheme == "ssh" or parts.hostname not in LOOPBACK


def connect(host: str = "", within_s: int = ANSWER_WITHIN_S) -> docker.DockerClient:
    """A client of an engine that answers; the caller closes it. `host` is as DOCKER_HOST, and wins over it.

    Every answer may take `within_s` seconds. Blocks. Raises RuntimeUnavailableError.
    """
    import docker  # 0.2 s, for those who use containers
    import requests

    try:
        host = address(host)
        _knock(host)
        if host.startswith("ssh://"):
            from runtime import ssh_engine

            return ssh_engine.client(host, within_s)
        environ = {**os.environ, "DOCKER_HOST": host}
        return docker.from_env(timeout=within_s, version="auto", environment=environ)  # which asks the engine
    except (OSError, docker.errors.DockerException, requests.RequestException) as error:
        raise engine_gone(error) from error


def _knock(host: str) -> None:
    """Raise OSError where nobody listens; the SDK would find out, too, and leave its socket open."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(host.removeprefix("unix://"))


def engine_gone(error: BaseException) -> RuntimeUnavailableError:
    """No engine answers, or it stopped answering."""
    return RuntimeUnavailableError(
        f"The container engine does not answer ({_reason(error)}). "
        "Start Docker, or set DOCKER_HOST to where it listens, then try again."
    )


def _reason(error: BaseException) -> str:
    """The system's word for it, which lies beneath those of three libraries; else the outermost."""
    beneath: BaseException | None = error
    while beneath is not None:
        for part in (beneath, *beneath.args):
            if isinstance(part, OSError) and part.strerror:
                return part.strerror
        beneath = beneath.__cause__ or beneath.__context__
    return str(error)
