"""Gate: the proxy that all of Chromium's traffic goes through, redirects, frames, scripts and WebSockets included.

The sandbox itself is open, for an agent tries what it builds. Other addresses are looked up here and refused unless
they are public or the user has allowed them, and the very address that was looked at is called; or, behind walls, the
host's own proxy decides and calls. What is refused is told to `on_refused`.

A page of the internet may not reach into the sandbox by itself: what it requests of loopback carries the headers of a
request from elsewhere, and is refused.
"""

from __future__ import annotations

import asyncio
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
    is_named,
    is_public,
    refusal,
)
from runtime.isolation.relay import relay
from runtime.plugins.browser.addresses import is_own

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
MAX_CONNECTIONS = 256
"""Chromium opens 32 to one proxy, and more for WebSockets."""


CALLS_HOME = frozenset({"android.clients.google.com", "mtalk.google.com", "update.googleapis.com"})
"""Whom Chromium calls by itself whatever its flags say; no page asked for it, so no step is told of it."""


class Gate:
    """Listens on loopback while it is open. `upstream` is the host's proxy, `http://HOST:PORT`; empty: none."""

    def __init__(self, upstream: str, on_refused: Callable[[str], None], allowed: Iterable[Rule] = ()) -> None:
        self.refused: dict[str, str] = {}
        """Hosts that were refused, and why; whoever reads it clears it."""
        self._upstream = urlsplit(upstream)
        self._on_refused = on_refused
        self._allowed = tuple(allowed)
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def address(self) -> str:
        """As `--proxy-server` takes it."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)

    def close(self) -> None:
        """Listen no more. What is open ends with the process."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            await self._pass((reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # one of the two has gone, or says nothing that can be understood
        finally:
            self._open -= 1
            writer.close()

    async def _pass(self, near: Ends) -> None:
        reader, writer = near
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            if self._open > MAX_CONNECTIONS:
                raise RefusedError("too many connections at once")
            host, port, first = destination(head)
            if host in CALLS_HOME:
                writer.write(refusal(403, "the browser does not call home from here"))
                await writer.drain()
                return
            if is_own(host) and first:
                _refuse_foreign(head, host, port)
            far = await self._connect(host, port)
        except RefusedError as error:
            self._tell(head, str(error))
            writer.write(refusal(403, str(error)))
            await writer.drain()
            return
        if first:
            far[1].write(first)
        else:
            writer.write(ESTABLISHED)
            if is_own(host) and not await self._admitted(near, far, host, port):
                return
        await relay(near, far)

    async def _admitted(self, near: Ends, far: Ends, host: str, port: int) -> bool:
        """Whether what begins in a tunnel to the sandbox may go on; a WebSocket's head says where it comes from."""
        first = await near[0].read(1)
        if first == b"G":
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                first += await near[0].readuntil(b"\r\n\r\n")
            try:
                _refuse_foreign(first, host, port, is_socket=True)
            except RefusedError as error:
                self._tell(b"", str(error))
                near[1].write(refusal(403, str(error)))
                far[1].close()
                return False
        far[1].write(first)
        return True

    def _tell(self, head: bytes, why: str) -> None:
        self._on_refused(f"Refused: {why}")
        if len(self.refused) < MAX_CONNECTIONS:
            with suppress(RefusedError):
                self.refused[destination(head)[0]] = why

    async def _connect(self, host: str, port: int) -> Ends:
        """Raises RefusedError."""
        if is_own(host):
            return await _call(["127.0.0.1", "::1"], port, f"{host}:{port} does not answer; is the server running?")
        if self._upstream.hostname:
            return await self._through_upstream(host, port)
        addresses = await _addresses(host)
        if not is_named(self._allowed, host, port) and not all(map(is_public, addresses)):
            raise RefusedError(PRIVATE.format(host=host))  # one that points inwards makes the name suspect
        return await _call(addresses, port, f"{host}:{port} does not answer")

    async def _through_upstream(self, host: str, port: int) -> Ends:
        far = await _call([self._upstream.hostname or ""], self._upstream.port or 80, "the host's proxy has ended")
        name = f"[{host}]" if ":" in host else host
        far[1].write(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            head = await far[0].readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] == [b"200"]:
            return far
        with suppress(TimeoutError):
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                why = (await far[0].read(HEAD_BYTES)).decode(errors="replace").strip()
        far[1].close()
        raise RefusedError(why or f"the host's proxy refuses {host}:{port}")


def upstream_of(environ: Mapping[str, str]) -> str:
    """The proxy that an environment names; empty where there is none."""
    return environ.get("https_proxy") or environ.get("HTTPS_PROXY") or ""


def allowed_in(environ: Mapping[str, str]) -> list[Rule]:
    """Whom the user has allowed. Raises ValueError for what is no rule."""
    return [Rule.parse(text) for text in environ.get(ALLOWED_HOSTS, "").split(",") if text]


async def _addresses(host: str) -> list[str]:
    """Where a host can be called. Raises RefusedError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise RefusedError(f"{host} was not found") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _call(addresses: list[str], port: int, failure: str) -> Ends:
    for address in addresses:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await asyncio.open_connection(address, port)
    raise RefusedError(failure)


def _refuse_foreign(head: bytes, host: str, port: int, *, is_socket: bool = False) -> None:
    """Raises RefusedError for a request that a page of elsewhere makes of the sandbox itself."""
    fields = {
        name.strip().lower(): value.strip().decode("latin-1")
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    comes_from = urlsplit(fields.get(b"origin") or fields.get(b"referer") or "").hostname or ""
    is_foreign = is_socket or fields.get(b"sec-fetch-site") == "cross-site"
    if is_foreign and not is_own(comes_from):
        raise RefusedError(
            f"{host}:{port} is the sandbox itself, and {comes_from or 'a page of elsewhere'} asked for it"
        )
