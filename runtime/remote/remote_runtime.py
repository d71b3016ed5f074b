"""RemoteRuntime: an action server on another machine, given by its address and its key.

Invariants: data only leaves this machine over TLS to a server whose certificate was verified; the key comes from a
private file or from the environment, and appears in no address, log or message.

Handloom neither starts nor stops the server. One conversation at a time claims it, because it has one shell. `aclose`
returns it, which ends everything that was started for the conversation, including background jobs. If Handloom is
killed, or the link is broken at the end, jobs go on: the same conversation finds them again, and another one can claim
the server after ten minutes without a connection. The server has no access to this machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import ssl
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from core.errors import ConfigurationError, RuntimeUnavailableError
from core.sandbox_types import Denials, GitAccess, Say
from runtime.cancellation import run_to_completion
from runtime.protocol import OWNER_HEADER, web_hosts
from runtime.reconnecting_client import PATIENCE_S, ReconnectingClient
from runtime.server_runtime import ServerRuntime

OWNER_FILE = "owner"
KEEP_CLAIM_S = 60.0
"""Interval of health checks; the server waits for ten minutes."""
DEFAULT_WORKING_DIR = "/workspace"


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """A validated address of a remote server."""

    url: str
    """Without a trailing slash."""
    host: str
    is_secure: bool
    """Whether connections use TLS."""


def parse_address(url: str) -> RemoteAddress:
    """Validate the address in a setting. Raises ConfigurationError, whose text never quotes a possible password."""
    if not url:
        raise ConfigurationError(
            "There is no remote runtime. Set remote.url to its address, such as https://HOST:8443."
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ConfigurationError("remote.url is not a valid address. Write it as https://HOST:PORT.") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("remote.url contains a user name or a password. Remove it: the key has a setting.")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigurationError("remote.url is not the address of a server. Write it as https://HOST:PORT.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ConfigurationError(
            f"{host} is another machine, and http is not encrypted. Set remote.url to https://..., or open "
            "a tunnel and set its address on this machine."
        )
    return RemoteAddress(url.rstrip("/"), host, parts.scheme == "https")


def read_key(environ: Mapping[str, str], name: str, file: Path | None) -> str:
    """Read the server's key from the file if one is set, else from the environment. Blocks.

    Raises ConfigurationError.
    """
    where = f"the file {file} (remote.key_file)" if file is not None else f"the environment variable {name}"
    if file is None:
        key = environ.get(name, "").strip()
    else:
        try:
            if stat.S_IMODE(file.expanduser().stat().st_mode) & 0o077:
                raise ConfigurationError(
                    f"Other users can read {file}, the key of the remote runtime. Run chmod 600 on it."
                )
            key = file.expanduser().read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ConfigurationError(f"The key of the remote runtime cannot be read from {where}: {reason}.") from None
    if not key:
        raise ConfigurationError(f"The remote runtime has no key. Put the key of its server into {where}.")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigurationError(f"The content of {where} is not a key. Put only the key of the server there.")
    return key


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities in the file, else those of the system. Blocks.

    Raises ConfigurationError.
    """
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file.expanduser()))
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(
            f"{ca_file} (remote.ca_file) is not a file of certificates: {error.strerror}."
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class RemoteRuntime(ServerRuntime):
    """Carries out actions on another machine. Implements core.protocols.Runtime.

    `read_key` is called at each start and may block. `working_dir` is used until the server has reported its own. A
    broken link is retried for `patience_s`.
    """

    isolation = "remote"
    why_open = ""
    runs_servers = True
    _missing_program_advice = "Install it on the machine of the sandbox"
    is_missing_program_advice = True

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
        self.workspace_host = address.url.partition("://")[2]
        self._address = address
        self._read_key = read_key
        self._ca_file = ca_file
        self._working_dir = working_dir
        self._patience_s = patience_s
        self._owner_folder: Path | None = None
        self._owner = ""
        self._claimed: ReconnectingClient | None = None
        self._was_open = False
        self._keep_alive: asyncio.Task[None] | None = None

    @property
    def working_dir(self) -> str:
        return self._working_dir

    def allow(self, *, host: str = "", folder: str = "") -> None:
        """Do nothing: the other machine controls its network access, and this machine's folders are not there."""

    def allow_git(self, access: GitAccess) -> None:
        """Do nothing: the other machine cannot reach this one, and uses its own logins."""

    def deny(self, denied: Callable[[], Denials]) -> None:
        """Do nothing: isolation is the responsibility of the other machine."""

    def keep(self, folder: Path) -> None:
        """Store the conversation's owner name in this folder, so that it finds its server again after a crash."""
        self._owner_folder = folder

    async def aclose(self) -> None:
        """Return the server, which ends everything that was started for this conversation. May be called twice."""
        async with self._starting:
            await run_to_completion(self._release())

    async def _release(self) -> None:
        if self._claimed is not None:
            await self._claimed.release_server()
        self._was_open = False
        await self._end()

    async def _open(self, say: Say) -> ReconnectingClient:
        self._owner = self._owner or await asyncio.to_thread(_owner_id, self._owner_folder)
        try:
            key = await asyncio.to_thread(self._read_key)
            tls = await asyncio.to_thread(tls_context, self._ca_file) if self._address.is_secure else None
        except ConfigurationError as error:
            raise RuntimeUnavailableError(str(error)) from error
        headers = {OWNER_HEADER: self._owner}
        client = ReconnectingClient(key, url=self._address.url, tls=tls, headers=headers, patience_s=self._patience_s)
        try:
            await self._claim(client)
            info = await client.server_info()
            self._working_dir = str(info.get("working_dir", self._working_dir))
            self.web_hosts = web_hosts(info)
        except BaseException:
            await client.aclose()
            raise
        self._claimed, self._was_open = client, True
        self._keep_alive = asyncio.create_task(_keep_claim(client))
        return client

    async def _shut(self) -> None:
        """Close the link. The server stays claimed until it is returned."""
        self._claimed = None
        task, self._keep_alive = self._keep_alive, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _claim(self, client: ReconnectingClient) -> None:
        """Claim the server, with retries if the link was open before. Raises RuntimeUnavailableError."""
        url, host = self._address.url, self._address.host
        try:
            await client.claim(self._patience_s if self._was_open else 0.0)
        except aiohttp.ClientConnectorCertificateError as error:
            raise RuntimeUnavailableError(
                f"The certificate of {host} is not trusted: {_tls_reason(error)}. Set remote.ca_file to the file of "
                "its authority, and use a host name that the certificate contains."
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


def _tls_reason(error: aiohttp.ClientConnectorCertificateError) -> str:
    """Return the TLS library's reason for rejecting a certificate."""
    found = error.certificate_error
    return found.verify_message if isinstance(found, ssl.SSLCertVerificationError) else str(found)


async def _keep_claim(client: ReconnectingClient) -> None:
    """Send health checks, so that no other conversation can claim the server while this one is idle."""
    while True:
        await asyncio.sleep(KEEP_CLAIM_S)
        await client.alive()


def _owner_id(folder: Path | None) -> str:
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
