"""Which addresses a page may open, and the proxy that carries all of Chromium's traffic.

Pages may only have http:, https: and about:blank addresses: the agent reads files with its own tools, and hostile pages
use Chromium's internal pages, scripts and data URLs to escape.

All requests pass through NetworkFilter: redirects, frames, scripts and WebSockets too. Loopback is the sandbox and is
open, because an agent tries out what it builds. Other hosts are resolved here and refused unless their addresses are
public or the user has allowed them; the connection goes to the address that was checked. Inside a network sandbox the
host's own proxy decides and connects instead. Refused requests are reported to `on_refused`.

A page from the internet may not reach into the sandbox: a cross-site request to loopback is refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from runtime.isolation.egress_proxy import (
    ALLOWED_HOSTS,
    CONNECT_TIMEOUT_S,
    HEAD_BYTES,
    HEAD_TIMEOUT_S,
    PRIVATE,
    RefusedError,
    Rule,
    destination,
    is_allowed_address,
    is_public,
    refusal,
    relay,
)

SCHEMES = ("http", "https")
BLANK = "about:blank"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?![0-9])")
"""Does not match `localhost:8000`."""


def address_refusal(url: str) -> str:
    """Return why a page may not open this address; empty if it may."""
    if url in {BLANK, ""}:
        return ""
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme in SCHEMES:
        return ""
    if scheme:
        return f"{scheme}: addresses are refused here, only http:, https: and about:blank are opened"
    return f"{url!r} is not a valid address. Write it with http:// or https://"


def with_scheme(url: str) -> str:
    """Add a missing scheme: http for the sandbox itself, https for other hosts."""
    url = url.strip()
    if not url or _SCHEME.match(url):
        return url
    host = re.split(r"[/:?#]", url.removeprefix("//"), maxsplit=1)[0]
    return f"http{'' if is_sandbox(host) else 's'}://{url.removeprefix('//')}"


def is_sandbox(host: str) -> bool:
    """Whether a host name means the sandbox itself, without a DNS lookup. Includes `0.0.0.0`, which servers print."""
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


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
MAX_CONNECTIONS = 256
"""Chromium opens 32 to one proxy, and more for WebSockets."""


CALLS_HOME = frozenset({"android.clients.google.com", "mtalk.google.com", "update.googleapis.com"})
"""Hosts that Chromium contacts whatever its flags say. They are refused silently, because no page requested them."""


class NetworkFilter:
    """A proxy on loopback. `upstream` is the host's own proxy, `http://HOST:PORT`, or empty."""

    def __init__(self, upstream: str, on_refused: Callable[[str], None], allowed: Iterable[Rule] = ()) -> None:
        self.refused: dict[str, str] = {}
        """Refused hosts and the reasons. The reader clears it."""
        self._upstream = urlsplit(upstream)
        self._on_refused = on_refused
        self._allowed = tuple(allowed)
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def address(self) -> str:
        """The address of the proxy, for `--proxy-server`."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)

    def close(self) -> None:
        """Stop listening. Open connections end with the process."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            await self._forward((reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # one side has closed the connection, or sends invalid data
        finally:
            self._open -= 1
            writer.close()

    async def _forward(self, client: Connection) -> None:
        reader, writer = client
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            if self._open > MAX_CONNECTIONS:
                raise RefusedError("too many connections at once")
            host, port, first = destination(head)
            if host in CALLS_HOME:
                writer.write(refusal(403, "the browser's own background requests are blocked"))
                await writer.drain()
                return
            if is_sandbox(host) and first:
                _refuse_foreign(head, host, port)
            server = await self._connect(host, port)
        except RefusedError as error:
            self._report(head, str(error))
            writer.write(refusal(403, str(error)))
            await writer.drain()
            return
        if first:
            server[1].write(first)
        else:
            writer.write(ESTABLISHED)
            if is_sandbox(host) and not await self._admits(client, server, host, port):
                return
        await relay(client, server)

    async def _admits(self, client: Connection, server: Connection, host: str, port: int) -> bool:
        """Whether the first request in a tunnel to the sandbox is allowed. A WebSocket's header names its origin."""
        first = await client[0].read(1)
        if first == b"G":
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                first += await client[0].readuntil(b"\r\n\r\n")
            try:
                _refuse_foreign(first, host, port, is_socket=True)
            except RefusedError as error:
                self._report(b"", str(error))
                client[1].write(refusal(403, str(error)))
                server[1].close()
                return False
        server[1].write(first)
        return True

    def _report(self, head: bytes, why: str) -> None:
        self._on_refused(f"Refused: {why}")
        if len(self.refused) < MAX_CONNECTIONS:
            with suppress(RefusedError):
                self.refused[destination(head)[0]] = why

    async def _connect(self, host: str, port: int) -> Connection:
        """Connect to a host that may be called. Raises RefusedError."""
        if is_sandbox(host):
            return await _call(["127.0.0.1", "::1"], port, f"{host}:{port} does not answer; is the server running?")
        if self._upstream.hostname:
            return await self._through_upstream(host, port)
        addresses = await _addresses(host)
        if not is_allowed_address(self._allowed, host, port) and not all(map(is_public, addresses)):
            raise RefusedError(PRIVATE.format(host=host))  # one private address makes the name suspect
        return await _call(addresses, port, f"{host}:{port} does not answer")

    async def _through_upstream(self, host: str, port: int) -> Connection:
        server = await _call([self._upstream.hostname or ""], self._upstream.port or 80, "the host's proxy has ended")
        name = f"[{host}]" if ":" in host else host
        server[1].write(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            head = await server[0].readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] == [b"200"]:
            return server
        with suppress(TimeoutError):
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                why = (await server[0].read(HEAD_BYTES)).decode(errors="replace").strip()
        server[1].close()
        raise RefusedError(why or f"the host's proxy refuses {host}:{port}")


def upstream_of(environ: Mapping[str, str]) -> str:
    """Return the proxy that the environment names, or an empty string."""
    return environ.get("https_proxy") or environ.get("HTTPS_PROXY") or ""


def allowed_in(environ: Mapping[str, str]) -> list[Rule]:
    """Return the hosts that the user has allowed. Raises ValueError for an invalid rule."""
    return [Rule.parse(text) for text in environ.get(ALLOWED_HOSTS, "").split(",") if text]


async def _addresses(host: str) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise RefusedError(f"{host} was not found") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _call(addresses: list[str], port: int, failure: str) -> Connection:
    for address in addresses:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await asyncio.open_connection(address, port)
    raise RefusedError(failure)


def _refuse_foreign(head: bytes, host: str, port: int, *, is_socket: bool = False) -> None:
    """Raise RefusedError for a request to the sandbox from a page of another site."""
    fields = {
        name.strip().lower(): value.strip().decode("latin-1")
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    comes_from = urlsplit(fields.get(b"origin") or fields.get(b"referer") or "").hostname or ""
    is_foreign = is_socket or fields.get(b"sec-fetch-site") == "cross-site"
    if is_foreign and not is_sandbox(comes_from):
        raise RefusedError(f"{host}:{port} is the sandbox itself, and {comes_from or 'another site'} requested it")
