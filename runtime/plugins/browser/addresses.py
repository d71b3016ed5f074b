"""Which addresses a page may have: the web and the blank page. Pure.

A file is read by the agent's own tools, and Chromium's inner pages, scripts and data as addresses are what hostile
pages use to get somewhere.
"""

from __future__ import annotations

import ipaddress
import re

SCHEMES = ("http", "https")
BLANK = "about:blank"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?![0-9])")
"""Not `localhost:8000`."""


def why_not(url: str) -> str:
    """Why a page may not have this address; empty where it may."""
    if url in {BLANK, ""}:
        return ""
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme in SCHEMES:
        return ""
    return (
        f"{scheme}: addresses are refused here, only http:, https: and about:blank are opened"
        if scheme
        else (f"{url!r} is no address: write it with http:// or https://")
    )


def completed(url: str) -> str:
    """What a person means who leaves the scheme out: https, and http for this machine itself."""
    url = url.strip()
    if not url or _SCHEME.match(url):
        return url
    host = re.split(r"[/:?#]", url.removeprefix("//"), maxsplit=1)[0]
    return f"http{'' if is_own(host) else 's'}://{url.removeprefix('//')}"


def is_own(host: str) -> bool:
    """Whether a host is the sandbox itself, by the names that need no look-up. `0.0.0.0` is what servers print."""
    host = host.lower().strip("[]").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified
