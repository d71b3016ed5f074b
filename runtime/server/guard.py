"""Who may call: whoever knows the key, and no browser. Holds for every route, also for those that do not
exist.

A page in the user's browser can send requests to his own machine, and by a name that it controls even read
the answers. Such requests carry an `Origin` or a foreign `Host`; both are refused before the key is looked
at. A caller that opens a connection and says nothing is let go of.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable

from aiohttp import web

from runtime.protocol import KEY_HEADER

HEADER_TIMEOUT_S = 10.0
"""For the first request's header; a caller that is real sends it at once."""
MAX_CONNECTIONS = 100
"""One conversation needs two or three."""

_OWN_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guard:
    """Admits requests and bounds connections."""

    def __init__(self, key: str) -> None:
        if not key:
            raise ValueError("a server without a key would admit everybody")
        self._key = key.encode()
        self._silent: dict[object, asyncio.TimerHandle] = {}

    def watch(self, server: web.Server) -> asyncio.Protocol:
        """The protocol of one new connection: closed when it says nothing in time, or when there are too
        many."""
        protocol = server()
        is_full = len(server.connections) >= MAX_CONNECTIONS
        patience_s = 0.0 if is_full else HEADER_TIMEOUT_S
        loop = asyncio.get_running_loop()
        self._silent[protocol] = loop.call_later(patience_s, self._let_go, protocol)
        return protocol

    def _let_go(self, protocol: web.RequestHandler) -> None:
        self._silent.pop(protocol, None)
        protocol.force_close()

    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware: 403 for a browser or a foreign host, 401 without the key."""
        timer = self._silent.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        if "Origin" in request.headers or not _OWN_HOST.fullmatch(request.headers.get("Host", "")):
            return web.json_response({"detail": "Requests of browsers and for other hosts are refused"}, status=403)
        given = request.headers.get(KEY_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._key):
            return web.json_response({"detail": "Invalid API Key"}, status=401)
        return await handler(request)
