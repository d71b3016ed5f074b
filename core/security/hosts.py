"""Hosts and addresses in texts. Pure: nothing is looked up."""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import urlsplit

_URL = re.compile(r"\b(?:https?|ftps?|wss?|ssh|git|sftp|rsync)://[^\s'\"<>`\\)\]}]{1,2000}", re.IGNORECASE)
_BARE = re.compile(
    r"(?<![\w@./-])((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,6}[a-z]{2,24})(?=[\s/,;:!?)'\"]|\.?(?:\s|$)|$)",
    re.IGNORECASE,
)
_SUFFIXES = frozenset(
    [
        "py",
        "sh",
        "rs",
        "pl",
        "md",
        "ts",
        "js",
        "json",
        "txt",
        "toml",
        "yaml",
        "yml",
        "html",
        "css",
        "go",
        "java",
        "c",
        "h",
        "cc",
        "cpp",
        "rb",
        "php",
        "lua",
        "sql",
        "csv",
        "zip",
        "tar",
        "gz",
        "png",
        "jpg",
        "svg",
        "pdf",
        "log",
        "lock",
        "cfg",
        "ini",
        "ipynb",
        "mk",
        "tex",
        "xml",
        "env",
        "app",
        "mov",
        "vue",
        "jsx",
        "tsx",
        "scss",
        "kt",
        "swift",
        "cs",
        "ps",
    ]
)
"""What ends a file's name as well as a host's; such a host is named by its address alone."""
_METADATA = {
    "169.254.169.254",
    "metadata.google.internal",
    "100.100.100.200",
    "fd00:ec2::254",
    "metadata",
    "169.254.170.2",
}


def host_of(url: str) -> str:
    """The host of an address, in lower case; empty where it has none that can be told."""
    try:
        return (urlsplit(url if "://" in url else f"//{url}").hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


_PLAIN = re.compile(
    r"(?:https?|wss?|ftp)://(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:[/?#][^\x00-\x20\x7f\\]*)?"
)


def is_plain_url(url: str) -> bool:
    """Whether every parser reads the same host in an address: no user, backslash, escape or blank, and two slashes."""
    return _PLAIN.fullmatch(url) is not None


def urls_in(text: str) -> list[str]:
    """The addresses that stand in a text."""
    return [match.rstrip(".,;:!?") for match in _URL.findall(text)]


def hosts_named(text: str) -> set[str]:
    """The hosts that a person names in a text, by an address or by the bare name."""
    bare = {name.lower() for name in _BARE.findall(text) if name.rpartition(".")[2].lower() not in _SUFFIXES}
    return {host for url in urls_in(text) if (host := host_of(url))} | bare


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    if host in ("localhost", "0.0.0.0", "ip6-localhost") or host.endswith(".localhost"):  # noqa: S104  # a name to know
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_metadata(host: str) -> bool:
    """Whether a host is a cloud's metadata service."""
    return host in _METADATA or as_number(host) in _METADATA


def as_number(host: str) -> str:
    """An IPv4 address in any of the forms that programs take, such as `0xA9FEA9FE` or `169.254.43518`, in dots.

    Empty for others.
    """
    try:
        return socket.inet_ntoa(socket.inet_aton(host)) if _NUMBERS.fullmatch(host) else ""
    except OSError:
        return ""


_NUMBERS = re.compile(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]+|[0-9]+)){0,3}")
