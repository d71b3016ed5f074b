"""Where a remote server is and how it is believed: address, key, certificate. Checked before anything is sent.

Invariants: beyond this machine nothing is said but over TLS to somebody whose certificate was verified; the key comes
from a file of its owner's alone or from the environment, and stands in no address, no log and no message.
"""

from __future__ import annotations

import ipaddress
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """An address that was checked."""

    url: str
    """Without a slash at its end."""
    host: str
    is_secure: bool
    """Whether it is spoken to over TLS."""


def parsed(url: str) -> RemoteAddress:
    """The address in a setting. Raises ConfigurationError, which repeats nothing that may be a password."""
    if not url:
        raise ConfigurationError(
            "There is no remote runtime. Set remote.url to its address, such as https://HOST:8443."
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ConfigurationError("remote.url is no address. Write it as https://HOST:PORT.") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("remote.url has a user or a password in it. Take it out: the key has its own place.")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigurationError("remote.url is no address of a server. Write it as https://HOST:PORT.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ConfigurationError(
            f"{host} is another machine, and over http others could read along. Set remote.url to https://..., or make "
            "a tunnel and give its address on this machine."
        )
    return RemoteAddress(url.rstrip("/"), host, parts.scheme == "https")


def key_from(environ: Mapping[str, str], name: str, file: Path | None) -> str:
    """The server's key, from the file where one is named, else from the environment. Blocks.

    Raises ConfigurationError.
    """
    where = f"the file {file} (remote.key_file)" if file is not None else f"the environment variable {name}"
    if file is None:
        key = environ.get(name, "").strip()
    else:
        try:
            if stat.S_IMODE(file.expanduser().stat().st_mode) & 0o077:
                raise ConfigurationError(f"Others may read {file}, the key of the remote runtime. chmod 600 it.")
            key = file.expanduser().read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ConfigurationError(f"The key of the remote runtime cannot be read from {where}: {reason}.") from None
    if not key:
        raise ConfigurationError(f"The remote runtime has no key. Put the one of its server into {where}.")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigurationError(f"What is in {where} is no key. Put the one of the server there, and nothing else.")
    return key


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """Whose certificates are believed: the file's alone, else those that the system believes. Blocks.

    Raises ConfigurationError.
    """
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file.expanduser()))
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(f"{ca_file} (remote.ca_file) is no file of certificates: {error.strerror}.") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
