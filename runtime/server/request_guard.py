"""RequestGuard: admits clients that know the key, and no browsers. Applies to all routes, even unknown ones.

A page in the user's browser can send requests to the user's machine, and with a host name that it controls even read
the answers. Such requests have an `Origin` or a foreign `Host` and are refused before the key is checked. A client that
has not shown the key is a stranger: its connection is closed after HEADER_TIMEOUT_S, or earlier if there are too many,
the oldest first, but never one that has sent the first half of the key. The limit is high enough for a client that
needs two seconds while 400 connections a second are opened.

Identity: every answer names the server process and the protocol version, and a request may name both. A request for
another process or version is refused before anything is carried out, because a restarted server has neither the shell
nor the files that the client's next command relies on.

IdleTimeout ends the server when no client is connected. RefusedError is any refused request, as `{"detail": ...}`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import resource
import secrets
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from runtime.protocol import INSTANCE_HEADER, JSON_TYPE, KEY_HEADER, PROTOCOL_VERSION, VERSION_HEADER

log = logging.getLogger(__name__)

HEADER_TIMEOUT_S = 10.0
"""Time limit for the first request's header; a real client sends it at once."""
MAX_STRANGERS = 1000
"""Beyond it the oldest connection is closed: with 400 new ones a second, each has two and a half seconds. It is
lower where a process may have few open files.
"""
_OWN_FILES = 300
"""Open files that the server and its clients need in addition to strangers' connections."""
MAX_HEADER_BYTES = 16 * 1024
"""Limit for the header in which the key is searched while it arrives."""
MAX_CONNECTIONS = 100
"""Limit for clients that know the key; one conversation needs two or three."""
GUESSED_CHARS = 32
"""Handloom's key has 64 hexadecimal digits, which are 256 bits; a key shorter than this can be guessed."""

_OWN_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_PORT = re.compile(r":\d{1,5}\Z")
_KEY_LINE = re.compile(rb"\r?\n" + KEY_HEADER.encode() + rb":[ \t]*([!-~]*)", re.IGNORECASE)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RequestGuard:
    """Admits requests and limits connections; `idle_timeout` gets the connections of clients.

    `hosts` are the host names, besides those of loopback, by which the server may be called.
    """

    def __init__(self, key: str, idle_timeout: IdleTimeout | None = None, hosts: Iterable[str] = ()) -> None:
        if not key:
            raise ValueError("a server needs a key, or everybody could use it")
        if len(key) < GUESSED_CHARS:
            log.warning("The key has %d characters and could be guessed; use 64 hexadecimal digits.", len(key))
        self._key = key.encode()
        self._idle_timeout = idle_timeout
        self._hosts = frozenset(host.lower() for host in hosts)
        self._strangers: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        """Oldest first."""
        self._trusted: set[web.RequestHandler] = set()
        """Strangers that have sent the first half of the key."""
        self.max_strangers = min(MAX_STRANGERS, max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OWN_FILES, 50))

    def watch(self, server: web.Server) -> asyncio.Protocol:
        """Return the protocol for a connection, which is closed without the key in time or if there are too many."""
        protocol = server()
        is_full = len(server.connections) - len(self._strangers) >= MAX_CONNECTIONS
        timeout_s = 0.0 if is_full else HEADER_TIMEOUT_S
        self._strangers[protocol] = asyncio.get_running_loop().call_later(timeout_s, self._close, protocol)
        if len(self._strangers) > self.max_strangers:
            self._close(next((each for each in self._strangers if each not in self._trusted), protocol))
        return _HeaderInspector(protocol, self._inspect)

    def _inspect(self, protocol: web.RequestHandler, header: bytes) -> bool:
        """Check what a stranger has sent so far; return whether to check more."""
        if protocol not in self._strangers or len(header) > MAX_HEADER_BYTES:
            return False
        half = self._key[: len(self._key) // 2]
        sent_key = _KEY_LINE.search(header)
        if sent_key is not None and len(sent_key[1]) >= len(half):
            # Only half is compared: otherwise the answers to longer guesses would reveal the key piece by piece.
            if hmac.compare_digest(sent_key[1][: len(half)], half):
                self._trusted.add(protocol)
            return False
        return True

    def _close(self, protocol: web.RequestHandler) -> None:
        self._strangers.pop(protocol).cancel()
        self._trusted.discard(protocol)
        protocol.force_close()

    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware: 403 for a browser or a foreign host, 401 without the key."""
        if "Origin" in request.headers or not self._is_our_host(request.headers.get("Host", "")):
            return _refusal(403, "Requests of browsers and for other hosts are refused")
        sent_key = request.headers.get(KEY_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(sent_key, self._key):
            return _refusal(401, "Invalid API Key")
        if (timer := self._strangers.pop(request.protocol, None)) is not None:
            timer.cancel()
            self._trusted.discard(request.protocol)
            if self._idle_timeout is not None:
                self._idle_timeout.add(request.task)
        return await handler(request)

    def _is_our_host(self, host: str) -> bool:
        return bool(_OWN_HOST.fullmatch(host)) or _PORT.sub("", host).lower() in self._hosts


class _HeaderInspector(asyncio.Protocol):
    """Passes everything to the connection's protocol, and shows the data to the guard until it has seen enough."""

    def __init__(self, protocol: web.RequestHandler, inspect: Callable[[web.RequestHandler, bytes], bool]) -> None:
        self._protocol = protocol
        self._inspect = inspect
        self._header = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._header += data
        if not self._inspect(self._protocol, self._header) and self._transport is not None:
            self._transport.set_protocol(self._protocol)
        self._protocol.data_received(data)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._protocol.connection_lost(exc)


def _refusal(status: int, detail: str) -> web.Response:
    """Return an answer after which the connection is closed."""
    response = web.json_response({"detail": detail}, status=status)
    response.force_close()
    return response


MISDIRECTED, UPGRADE_REQUIRED = 421, 426
INSTANCE_BYTES = 16


class Identity:
    """The identity of one server process, new at each start."""

    def __init__(self) -> None:
        self.instance = secrets.token_hex(INSTANCE_BYTES)

    async def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the identity to an answer before it is sent."""
        response.headers[VERSION_HEADER] = str(PROTOCOL_VERSION)
        response.headers[INSTANCE_HEADER] = self.instance

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware: refuse requests for another version or process. Raises RefusedError."""
        version = request.headers.get(VERSION_HEADER, str(PROTOCOL_VERSION))
        if version != str(PROTOCOL_VERSION):
            raise RefusedError(
                UPGRADE_REQUIRED, f"this server speaks version {PROTOCOL_VERSION} of the protocol, not {version!r}"
            )
        if request.headers.get(INSTANCE_HEADER, self.instance) != self.instance:
            raise RefusedError(MISDIRECTED, "this request is for a server that has ended; another one runs here")
        return await handler(request)


BODY_TIMEOUT_S = 30.0
"""For a body of at most 8 MiB; a slower client only holds a connection."""


class RefusedError(Exception):
    """A request that is refused with this status and text. Not for an answer that has started."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status

    def answer(self) -> web.Response:
        return web.json_response({"detail": str(self)}, status=self.status)


async def whole_body(request: web.Request) -> bytes:
    """Read the body of a request. Raises RefusedError."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.read()
    except TimeoutError:
        raise RefusedError(408, "the body did not arrive in time") from None


async def first_line(request: web.Request) -> bytes:
    """Read the first line of a body that is a stream. Raises RefusedError."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.content.readline()
    except TimeoutError:
        raise RefusedError(408, "the first line did not arrive in time") from None
    except LineTooLong as error:
        raise RefusedError(413, "the first line is too long") from error


async def json_body(request: web.Request) -> bytes:
    """Read the body of a request that says it is JSON. Raises RefusedError."""
    if request.content_type != JSON_TYPE:
        raise RefusedError(415, f"the body is {JSON_TYPE}")
    return await whole_body(request)


async def json_value(request: web.Request) -> Any:
    """Parse the JSON body of a request. Raises RefusedError."""
    try:
        return json.loads(await json_body(request))
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"not JSON: {error}") from error


class IdleTimeout:
    """Calls `shut_down` when no client was connected for `timeout_s`; never if that is None. Belongs to one event loop.

    A client counts from its first valid key until its connection closes. A killed launcher closes its connections, so
    nothing has to be cleaned up. Strangers do not count, because they could keep the server alive for ever.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._shut_down: Callable[[], None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self, shut_down: Callable[[], None]) -> None:
        """Start waiting for a client."""
        self._shut_down = shut_down
        self._start_timer()

    def add(self, connection: asyncio.Task[None]) -> None:
        """Count a client that knows the key until its connection's task is done."""
        if self._timer is not None:
            self._timer.cancel()
        self._connections.add(connection)
        connection.add_done_callback(self._remove)

    def _remove(self, connection: asyncio.Task[None]) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timeout_s is not None and self._shut_down is not None:
            self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._shut_down)
