"""Whose server this is: it has one shell, so one conversation has it at a time, from its claim to the server's end.

Invariant: once somebody has claimed it, nothing is carried out for anybody else in this life. Who lets go of it ends
the life, and with it everything that he started; so does the next one who claims it, where its owner has not been heard
of for a while. A server that nobody claims, such as one on this machine, serves whoever has the key.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from aiohttp import web

from runtime.protocol import OWNER_HEADER
from runtime.server.guard import Handler
from runtime.server.requests import RefusedError

ABSENT_S = 600.0
"""Without a request of the owner; a client that lives asks every minute."""
_NAME = re.compile(r"[A-Za-z0-9_-]{16,64}")
_ANYBODYS = frozenset(("/alive", "/owner"))
_IN_USE = "this server is used by another conversation"


class Ownership:
    """Of one life of a server. `leave` ends the life; `claimed` is told the owner once, and may block."""

    def __init__(
        self,
        leave: Callable[[], None] | None = None,
        claimed: Callable[[str], None] | None = None,
        absent_s: float = ABSENT_S,
    ) -> None:
        self._leave = leave
        self._claimed = claimed
        self._absent_s = absent_s
        self._owner: str | None = None
        self._heard_at = 0.0
        self.table = [web.put("/owner", self._claim), web.delete("/owner", self._let_go)]

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware: refuses whoever is not the owner, where there is one. Raises RefusedError."""
        if self._owner is not None:
            if request.headers.get(OWNER_HEADER) == self._owner:
                self._heard_at = asyncio.get_running_loop().time()
            elif request.path not in _ANYBODYS:
                raise RefusedError(409, _IN_USE)
        return await handler(request)

    async def _claim(self, request: web.Request) -> web.Response:
        name = request.headers.get(OWNER_HEADER, "")
        if not _NAME.fullmatch(name):
            raise RefusedError(400, f"{OWNER_HEADER} has 16 to 64 letters, digits, - and _")
        now = asyncio.get_running_loop().time()
        if self._owner is None:
            self._owner, self._heard_at = name, now
            if self._claimed is not None:
                try:
                    await asyncio.to_thread(self._claimed, name)
                except OSError as error:
                    self._owner = None
                    raise RefusedError(500, f"its owner's history of edits cannot be kept: {error}") from error
        if self._owner == name:
            return web.json_response({})
        if self._leave is not None and now - self._heard_at > self._absent_s:
            self._leave()
            raise RefusedError(503, "this server is being freed; try again in a moment")
        raise RefusedError(409, _IN_USE)

    async def _let_go(self, request: web.Request) -> web.Response:
        if self._owner is None or request.headers.get(OWNER_HEADER) != self._owner:
            raise RefusedError(409, _IN_USE if self._owner is not None else "nobody has claimed this server")
        if self._leave is None:
            raise RefusedError(501, "this server's end is its launcher's")
        self._leave()
        return web.json_response({})
