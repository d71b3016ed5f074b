"""Address, key and certificate of a remote action server, checked before anything is sent.

Invariants: data only leaves this machine over TLS to a server whose certificate was verified; the key comes from a
private file or from the environment, and appears in no address, log or message.
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
    """A validated address of a remote server."""

    url: str
    """Without a trailing slash."""
    host: str
    is_secure: bool
    """Whether connections use TLS."""


def parsed(url: str) -> RemoteAddress:
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


def key_from(environ: Mapping[str, str], name: str, file: Path | None) -> str:
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


def trust(ca_file: Path | None) -> ssl.SSLContext:
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
