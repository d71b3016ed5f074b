"""Hosts and URLs in texts. Pure: nothing is looked up."""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import urlsplit

from core.security.risk_rules import names

_URL = re.compile(r"\b(?:https?|ftps?|wss?|ssh|git|sftp|rsync)://[^\s'\"<>`\\)\]}]{1,2000}", re.IGNORECASE)
_BARE = re.compile(
    r"(?<![\w@./-])((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,6}[a-z]{2,24})(?=[\s/,;:!?)'\"]|\.?(?:\s|$)|$)",
    re.IGNORECASE,
)
_SUFFIXES = names(
    "py sh rs pl md ts js json txt toml yaml yml html css go java c h cc cpp rb php lua sql csv zip tar gz png jpg svg "
    "pdf log lock cfg ini ipynb mk tex xml env app mov vue jsx tsx scss kt swift cs ps"
)
"""Endings of file names that are also top-level domains; a host with one counts only as part of a URL."""
_METADATA = names("169.254.169.254 metadata.google.internal 100.100.100.200 fd00:ec2::254 metadata 169.254.170.2")


def host_of(url: str) -> str:
    """The host of a URL in lower case, empty if it has none."""
    try:
        return (urlsplit(url if "://" in url else f"//{url}").hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


_PLAIN = re.compile(
    r"(?:https?|wss?|ftp)://(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:[/?#][^\x00-\x20\x7f\\]*)?"
)


def is_plain_url(url: str) -> bool:
    """Whether every parser finds the same host in a URL: two slashes, no user, no backslash, no escape, no blank."""
    return _PLAIN.fullmatch(url) is not None


def urls_in(text: str) -> list[str]:
    """The URLs in a text."""
    return [match.rstrip(".,;:!?") for match in _URL.findall(text)]


def hosts_named(text: str) -> set[str]:
    """The hosts that a person mentions in a text, in a URL or by name."""
    bare = {name.lower() for name in _BARE.findall(text) if name.rpartition(".")[2].lower() not in _SUFFIXES}
    return {host for url in urls_in(text) if (host := host_of(url))} | bare


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    if host in ("localhost", "0.0.0.0", "ip6-localhost") or host.endswith(".localhost"):  # noqa: S104
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_metadata(host: str) -> bool:
    """Whether a host is a cloud's metadata service."""
    return host in _METADATA or normalized_ipv4(host) in _METADATA or _METADATA_IN_NAME.search(host) is not None


_METADATA_IN_NAME = re.compile(r"(?:^|[.-])(?:169[.-]254[.-]169[.-]254|a9fea9fe)[.-]")
"""Names such as `169-254-169-254.nip.io`, which resolve to the address in them."""


def normalized_ipv4(host: str) -> str:
    """Normalise an IPv4 address that is written in another way, such as `0xA9FEA9FE`; empty for other hosts."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host)) if _NUMBERS.fullmatch(host) else ""
    except OSError:
        return ""


_NUMBERS = re.compile(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]+|[0-9]+)){0,3}")
