"""Which server this is: every answer names its life and its version of the protocol, and a request may name both.

A client that names the life it knows is never served by another one: a server that was started again at the same
address, with the same key, has neither the shell nor the files that the client's next command counts on. What is meant
for another life or another version is refused before anything is carried out.
"""

from __future__ import annotations

import secrets

from aiohttp import web

from runtime.protocol import INSTANCE_HEADER, PROTOCOL_VERSION, VERSION_HEADER
from runtime.server.guard import Handler
from runtime.server.requests import RefusedError

MISDIRECTED, UPGRADE_REQUIRED = 421, 426
INSTANCE_BYTES = 16


class Identity:
    """Of one life of a server. Made anew at each start."""

    def __init__(self) -> None:
        self.instance = secrets.token_hex(INSTANCE_BYTES)

    async def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Name us in an answer, before it is sent."""
        response.headers[VERSION_HEADER] = str(PROTOCOL_VERSION)
        response.headers[INSTANCE_HEADER] = self.instance

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware: refuses what names another version or another life. Raises RefusedError."""
        version = request.headers.get(VERSION_HEADER, str(PROTOCOL_VERSION))
        if version != str(PROTOCOL_VERSION):
            raise RefusedError(
                UPGRADE_REQUIRED, f"this server speaks version {PROTOCOL_VERSION} of the protocol, not {version!r}"
            )
        if request.headers.get(INSTANCE_HEADER, self.instance) != self.instance:
            raise RefusedError(MISDIRECTED, "this is meant for a server that has ended; another one is here")
        return await handler(request)
