"""Connect to the container engine: at DOCKER_HOST, the SDK's default socket, or another machine through ssh.

An engine is remote if it may run on another machine, because then it does not see files and sockets of this one.

For `ssh://` addresses a connection is a process `docker system dial-stdio` on the other machine, run by the user's own
ssh, so keys, agents, jump hosts and known hosts are those of `~/.ssh/config`. It never asks anything: it has no
terminal, and an unknown host is refused. One end of a socket pair is the process's input and output, the other end is
the connection. Closing the connection ends the process; if Handloom dies, ssh ends because its input is closed.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests.adapters
import urllib3
from docker import DockerClient, errors, from_env
from urllib3.connection import HTTPConnection

from core.errors import RuntimeUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ClearAllForwardings=yes"),
    # detect a link that silently drops packets
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
DIAL = ("docker", "system", "dial-stdio")
OLDEST_API = "1.24"
"""An API version that the SDK supports, used to ask the engine for its version."""
BASE_URL = "http://engine.invalid:1"
"""The name is never looked up: no connection is made to it."""


def ssh_command(url: str) -> list[str]:
    """Return the command that connects its input and output to the engine at `ssh://[USER@]HOST[:PORT]`.

    Raises ValueError for another address.
    """
    parts = urlsplit(url)
    if parts.scheme != "ssh" or not parts.hostname or parts.path.strip("/") or parts.password:
        raise ValueError(f"{url} is not an address such as ssh://user@host:22")
    user = ("-l", parts.username) if parts.username else ()
    port = ("-p", str(parts.port)) if parts.port else ()
    return ["ssh", *OPTIONS, *user, *port, "--", parts.hostname, *DIAL]


def _ssh_client(url: str, timeout_s: int) -> DockerClient:
    """Return a client of the engine at an ssh address. The caller closes it. Blocks. Raises OSError and SDK errors."""
    try:
        adapter = _Adapter(ssh_command(url), timeout_s)
    except ValueError as error:
        raise OSError(None, str(error)) from error
    try:
        version: str = _make_client(adapter, timeout_s, OLDEST_API).api.version(api_version=False)["ApiVersion"]
    except requests.RequestException:
        adapter.close()
        _raise_ssh_error(url, timeout_s)
        raise
    return _make_client(adapter, timeout_s, version)


def _make_client(adapter: _Adapter, timeout_s: int, version: str) -> DockerClient:
    docker_client = DockerClient(base_url=BASE_URL, version=version, timeout=timeout_s)
    docker_client.api.mount("http://", adapter)
    return docker_client


def _raise_ssh_error(url: str, timeout_s: float) -> None:
    """Raise OSError with ssh's message if ssh fails."""
    try:
        done = subprocess.run(
            ssh_command(url), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(None, str(error)) from error
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].strip()
        raise OSError(None, last or f"ssh ended with status {done.returncode}")


class _Connection(HTTPConnection):
    """An HTTP connection through the input and output of a process."""

    def __init__(self, command: list[str], timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
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
    def __init__(self, command: list[str], timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s, maxsize=4)
        self._command = command
        self._timeout_s = timeout_s

    def _new_conn(self) -> _Connection:
        return _Connection(self._command, self._timeout_s)


class _Adapter(requests.adapters.HTTPAdapter):
    """Makes a session of `requests` use processes as connections, whatever the URL."""

    def __init__(self, command: list[str], timeout_s: float) -> None:
        super().__init__()
        self._pool = _Pool(command, timeout_s)

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> _Pool:
        return self._pool

    def request_url(self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None) -> str:
        return request.path_url

    def close(self) -> None:
        self._pool.close()
        super().close()


DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANSWER_TIMEOUT_S = 60
"""Timeout for an answer; a busy engine takes seconds to create a container."""


def address(host: str = "") -> str:
    """Return the engine's address: `host`, else DOCKER_HOST, else the default socket."""
    return host or os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS


def is_remote(host: str = "") -> bool:
    """Whether the engine may run on another machine. An ssh address always counts as remote."""
    parts = urlsplit(address(host))
    if parts.scheme in ("unix", "npipe", "http+unix", ""):
        return False
    return parts.scheme == "ssh" or parts.hostname not in LOOPBACK


def connect(host: str = "", timeout_s: int = ANSWER_TIMEOUT_S) -> DockerClient:
    """Return a client of a responding engine. The caller closes it. `host` takes precedence over DOCKER_HOST.

    Every answer may take `timeout_s` seconds. Blocks. Raises RuntimeUnavailableError.
    """
    try:
        host = address(host)
        _check_socket(host)
        if host.startswith("ssh://"):
            return _ssh_client(host, timeout_s)
        environ = {**os.environ, "DOCKER_HOST": host}
        return from_env(timeout=timeout_s, version="auto", environment=environ)  # which asks the engine
    except (OSError, errors.DockerException, requests.RequestException) as error:
        raise engine_gone(error) from error


def _check_socket(host: str) -> None:
    """Raise OSError if nothing listens; in that case the SDK would leave its socket open."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(host.removeprefix("unix://"))


def engine_gone(error: BaseException) -> RuntimeUnavailableError:
    """Return the error for an engine that does not answer."""
    return RuntimeUnavailableError(
        f"The container engine does not answer ({_reason(error)}). "
        "Start Docker, or set DOCKER_HOST to where it listens, then try again."
    )


def _reason(error: BaseException) -> str:
    """Return the operating system's message, which three libraries wrap; else the outermost message."""
    cause: BaseException | None = error
    while cause is not None:
        for part in (cause, *cause.args):
            if isinstance(part, OSError) and part.strerror:
                return part.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error)
