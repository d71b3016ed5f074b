"""What routes have in common: a JSON body that arrives in time, and how a request is refused, as `{"detail": ...}`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from runtime.protocol import JSON_TYPE

BODY_TIMEOUT_S = 30.0
"""For a body of at most 8 MiB; who takes longer holds a connection for nothing."""


class RefusedError(Exception):
    """A request that is answered with this status and this text. Not for an answer that has begun."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status

    def answer(self) -> web.Response:
        return web.json_response({"detail": str(self)}, status=self.status)


async def whole_body(request: web.Request) -> bytes:
    """The body of a request, as it is. Raises RefusedError."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.read()
    except TimeoutError:
        raise RefusedError(408, "the body did not arrive in time") from None


async def json_body(request: web.Request) -> bytes:
    """The body of a request, which says that it is JSON. Raises RefusedError."""
    if request.content_type != JSON_TYPE:
        raise RefusedError(415, f"the body is {JSON_TYPE}")
    return await whole_body(request)


async def json_value(request: web.Request) -> Any:
    """What the body of a request says. Raises RefusedError."""
    try:
        return json.loads(await json_body(request))
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"not JSON: {error}") from error
