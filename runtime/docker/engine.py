"""The way to the container engine: DOCKER_HOST, else the system's own socket, as the SDK finds them, and ssh.

An engine is far where it may run on another machine: then it sees no file and no socket of this one.

A container engine on another machine, reached with ssh: a connection is a process `docker system dial-stdio` there.

The user's own ssh does it, so keys, agents, jump hosts and known hosts are those of `~/.ssh/config`. It never asks: it
has no terminal, and a host that is not known is refused. The process has one end of a pair of sockets for its input and
output; the other end is the connection. Invariant: whoever closes a connection ends its process, and so does whoever
ends without closing it, for then ssh finds its input at an end.
"""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests.adapters
import urllib3
from docker import DockerClient
from urllib3.connection import HTTPConnection

if TYPE_CHECKING:
    from collections.abc import Mapping

import os
from typing import TYPE_CHECKING

from core.errors import RuntimeUnavailableError

if TYPE_CHECKING:
    import docker


OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ClearAllForwardings=yes"),
    # a link that drops everything in silence is a broken one
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
DIAL = ("docker", "system", "dial-stdio")
OLDEST = "1.24"
"""A version that the SDK knows, for the question which one the engine has."""
BASE_URL = "http://engine.invalid:1"
"""The name is never looked up: no connection is made to it."""


def command(url: str) -> list[str]:
    """The command whose input and output are a connection to the engine at `ssh://[USER@]HOST[:PORT]`.

    Raises ValueError for what is no such address.
    """
    parts = urlsplit(url)
    if parts.scheme != "ssh" or not parts.hostname or parts.path.strip("/") or parts.password:
        raise ValueError(f"{url} is no address such as ssh://user@host:22")
    user = ("-l", parts.username) if parts.username else ()
    port = ("-p", str(parts.port)) if parts.port else ()
    return ["ssh", *OPTIONS, *user, *port, "--", parts.hostname, *DIAL]


def client(url: str, within_s: int) -> DockerClient:
    """A client of the engine there; the caller closes it. Blocks. Raises OSError, and what the SDK raises."""
    try:
        adapter = _Adapter(command(url), within_s)
    except ValueError as error:
        raise OSError(None, str(error)) from error
    try:
        version: str = _client(adapter, within_s, OLDEST).api.version(api_version=False)["ApiVersion"]
    except requests.RequestException:
        adapter.close()
        _ask_why(url, within_s)
        raise
    return _client(adapter, within_s, version)


def _client(adapter: _Adapter, within_s: int, version: str) -> DockerClient:
    made = DockerClient(base_url=BASE_URL, version=version, timeout=within_s)
    made.api.mount("http://", adapter)
    return made


def _ask_why(url: str, within_s: float) -> None:
    """Raise OSError with what ssh says where it is ssh that fails."""
    try:
        done = subprocess.run(
            command(url), stdin=subprocess.DEVNULL, capture_output=True, timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(None, str(error)) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].strip()
        raise OSError(None, said or f"ssh ended with status {done.returncode}")


class _Connection(HTTPConnection):
    """A connection over a process."""

    def __init__(self, command: list[str], within_s: float) -> None:
        super().__init__("localhost", timeout=within_s)
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        ours.settimeout(self.timeout)
        self.sock = ours

    def close(self) -> None:
        super().close()
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


class _Pool(urllib3.HTTPConnectionPool):
    def __init__(self, command: list[str], within_s: float) -> None:
        super().__init__("localhost", timeout=within_s, maxsize=4)
        self._command = command
        self._within_s = within_s

    def _new_conn(self) -> _Connection:
        return _Connection(self._command, self._within_s)


class _Adapter(requests.adapters.HTTPAdapter):
    """What makes a session of `requests` go over processes, whatever the address says."""

    def __init__(self, command: list[str], within_s: float) -> None:
        super().__init__()
        self._pool = _Pool(command, within_s)

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> _Pool:
        return self._pool

    def request_url(self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None) -> str:
        return request.path_url

    def close(self) -> None:
        self._pool.close()
        super().close()


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
            return client(host, within_s)
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
