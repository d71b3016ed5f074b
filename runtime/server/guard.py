"""Who may call: whoever knows the key, and no browser. Holds for every route, also for those that do not
exist.

A page in the user's browser can send requests to his own machine, and by a name that it controls even read
the answers. Such requests carry an `Origin` or a foreign `Host`; both are refused before the key is looked
at. Whoever has not shown the key yet is a stranger: let go of after a while, whatever it says meanwhile, and earlier
where there are many, so that strangers never keep out who knows the key.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from runtime.protocol import KEY_HEADER
from runtime.server.absence import Absence

log = logging.getLogger(__name__)

HEADER_TIMEOUT_S = 10.0
"""For the first request's header; a caller that is real sends it at once."""
MAX_STRANGERS = 50
"""Beyond it, the one that came first is let go of."""
MAX_CONNECTIONS = 100
"""Of those that know the key; one conversation needs two or three."""
GUESSED_CHARS = 32
"""Ours has 64 hexadecimal digits, which are 256 bits; fewer than these are a word that somebody thought of."""

_OWN_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_PORT = re.compile(r":\d{1,5}\Z")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guard:
    """Admits requests and bounds connections; `absence` is told who is there.

    `hosts` are the names, beside those of loopback, by which the server may be called.
    """

    def __init__(self, key: str, absence: Absence | None = None, hosts: Iterable[str] = ()) -> None:
        if not key:
            raise ValueError("a server without a key would admit everybody")
        if len(key) < GUESSED_CHARS:
            log.warning("The key has %d characters and could be guessed; take 64 hexadecimal digits.", len(key))
        self._key = key.encode()
        self._absence = absence
        self._hosts = frozenset(host.lower() for host in hosts)
        self._strangers: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        """The one that came first is the first."""

    def watch(self, server: web.Server) -> asyncio.Protocol:
        """The protocol of one new connection: closed when the key is not shown in time, or when there are too many."""
        protocol = server()
        is_full = len(server.connections) - len(self._strangers) >= MAX_CONNECTIONS
        patience_s = 0.0 if is_full else HEADER_TIMEOUT_S
        loop = asyncio.get_running_loop()
        self._strangers[protocol] = loop.call_later(patience_s, self._let_go, protocol)
        if len(self._strangers) > MAX_STRANGERS:
            self._let_go(next(iter(self._strangers)))
        return protocol

    def _let_go(self, protocol: web.RequestHandler) -> None:
        self._strangers.pop(protocol).cancel()
        protocol.force_close()

    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware: 403 for a browser or a foreign host, 401 without the key."""
        if "Origin" in request.headers or not self._is_ours(request.headers.get("Host", "")):
            return _refusal(403, "Requests of browsers and for other hosts are refused")
        given = request.headers.get(KEY_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._key):
            return _refusal(401, "Invalid API Key")
        if (timer := self._strangers.pop(request.protocol, None)) is not None:
            timer.cancel()
            if self._absence is not None:
                self._absence.came(request.task)
        return await handler(request)

    def _is_ours(self, host: str) -> bool:
        """Whether a request is meant for a name of ours, whatever the port."""
        return bool(_OWN_HOST.fullmatch(host)) or _PORT.sub("", host).lower() in self._hosts


def _refusal(status: int, detail: str) -> web.Response:
    """An answer after which the connection is closed: a stranger has one try for each."""
    response = web.json_response({"detail": detail}, status=status)
    response.force_close()
    return response
