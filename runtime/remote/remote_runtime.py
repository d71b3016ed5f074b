"""RemoteRuntime: an action server on another machine, given by its address and its key.

Handloom neither starts nor stops the server. One conversation at a time claims it, because it has one shell. `aclose`
returns it, which ends everything that was started for the conversation, including background jobs. If Handloom is
killed, or the link is broken at the end, jobs go on: the same conversation finds them again, and another one can claim
the server after ten minutes without a connection. The server has no access to this machine.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import aiohttp

from core.errors import ConfigurationError, RuntimeUnavailableError
from core.sandbox_types import Denials, Say
from runtime.cancellation import run_to_completion
from runtime.protocol import OWNER_HEADER, web_hosts
from runtime.reconnecting_client import PATIENCE_S, ReconnectingClient
from runtime.remote.remote_address import RemoteAddress, trust
from runtime.server_runtime import ServerRuntime

OWNER_FILE = "owner"
STAY_S = 60.0
"""Interval of health checks; the server waits for ten minutes."""
DEFAULT_WORKING_DIR = "/workspace"


class RemoteRuntime(ServerRuntime):
    """Carries out actions on another machine. Implements core.protocols.Runtime.

    `read_key` is called at each start and may block. `working_dir` is used until the server has reported its own. A
    broken link is retried for `patience_s`.
    """

    isolation = "remote"
    why_open = ""
    is_elsewhere = True

    def __init__(
        self,
        address: RemoteAddress,
        read_key: Callable[[], str],
        *,
        ca_file: Path | None = None,
        working_dir: str = DEFAULT_WORKING_DIR,
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__()
        self._address = address
        self._read_key = read_key
        self._ca_file = ca_file
        self._working_dir = working_dir
        self._patience_s = patience_s
        self._kept: Path | None = None
        self._owner = ""
        self._web_hosts: Mapping[str, int] = {}
        self._lasting: ReconnectingClient | None = None
        self._was_open = False
        self._staying: asyncio.Task[None] | None = None

    @property
    def working_dir(self) -> str:
        return self._working_dir

    @property
    def workspace_host(self) -> str:  # type: ignore[override]
        """The address of the server."""
        return self._address.url.partition("://")[2]

    @property
    def web_hosts(self) -> Mapping[str, int]:  # type: ignore[override]
        """The hosts that the server was started with; empty before this runtime is started."""
        return self._web_hosts

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Do nothing: the other machine controls its network access, and this machine's folders are not there."""

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Do nothing: isolation is the responsibility of the other machine."""

    def keep(self, folder: Path) -> None:
        """Store the conversation's owner name in this folder, so that it finds its server again after a crash."""
        self._kept = folder

    async def left_behind(self) -> list[str]:
        """Return nothing: the server cannot change this machine's files."""
        return []

    async def aclose(self) -> None:
        """Return the server, which ends everything that was started for this conversation. May be called twice."""
        async with self._starting:
            await run_to_completion(self._hand_back())

    async def _hand_back(self) -> None:
        if self._lasting is not None:
            await self._lasting.hand_back()
        self._was_open = False
        await self._end()

    async def _open(self, say: Say) -> ReconnectingClient:
        self._owner = self._owner or await asyncio.to_thread(_own_name, self._kept)
        try:
            key = await asyncio.to_thread(self._read_key)
            tls = await asyncio.to_thread(trust, self._ca_file) if self._address.is_secure else None
        except ConfigurationError as error:
            raise RuntimeUnavailableError(str(error)) from error
        headers = {OWNER_HEADER: self._owner}
        client = ReconnectingClient(key, url=self._address.url, tls=tls, headers=headers, patience_s=self._patience_s)
        try:
            await self._claim(client)
            info = await client.server_info()
            self._working_dir = str(info.get("working_dir", self._working_dir))
            self._web_hosts = web_hosts(info)
        except BaseException:
            await client.aclose()
            raise
        self._lasting, self._was_open = client, True
        self._staying = asyncio.create_task(_stay(client))
        return client

    async def _shut(self) -> None:
        """Close the link. The server stays claimed until it is returned."""
        self._lasting = None
        staying, self._staying = self._staying, None
        if staying is not None:
            staying.cancel()
            await asyncio.gather(staying, return_exceptions=True)

    async def _claim(self, client: ReconnectingClient) -> None:
        """Claim the server, with retries if the link was open before. Raises RuntimeUnavailableError."""
        url, host = self._address.url, self._address.host
        try:
            await client.claim(self._patience_s if self._was_open else 0.0)
        except aiohttp.ClientConnectorCertificateError as error:
            raise RuntimeUnavailableError(
                f"The certificate of {host} is not trusted: {_verdict(error)}. Set remote.ca_file to the file of its "
                "authority, and use a host name that the certificate contains."
            ) from error
        except aiohttp.ClientConnectorSSLError as error:
            raise RuntimeUnavailableError(
                f"The server at {url} does not support secure TLS. Start it with --tls-cert and --tls-key, or "
                "correct remote.url."
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise RuntimeUnavailableError(
                f"Nothing answers at {url}: {error.os_error.strerror or error.os_error}. Start the server there, or "
                "correct remote.url."
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise RuntimeUnavailableError(
                f"The server at {url} is not an action server, or the link breaks immediately. Check what runs there."
            ) from error


def _verdict(error: aiohttp.ClientConnectorCertificateError) -> str:
    """Return the TLS library's reason for rejecting a certificate."""
    found = error.certificate_error
    return found.verify_message if isinstance(found, ssl.SSLCertVerificationError) else str(found)


async def _stay(client: ReconnectingClient) -> None:
    """Send health checks, so that no other conversation can claim the server while this one is idle."""
    while True:
        await asyncio.sleep(STAY_S)
        await client.alive()


def _own_name(folder: Path | None) -> str:
    """Return the secret that identifies this conversation to the server, the same after a crash. Blocks."""
    name = secrets.token_hex(16)
    if folder is None:
        return name
    file = folder / OWNER_FILE
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if kept := file.read_text("ascii").strip() if file.exists() else "":
            return kept
        file.touch(0o600)
        file.write_text(name, "ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeUnavailableError(f"{file} cannot be used: {error}. Remove it.") from error
    return name
