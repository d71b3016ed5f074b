"""The routes of actions that outlast their connection. They translate between HTTP and KeptAnswers, and decide nothing.

`POST /execute_action` with a token in RESUME_HEADER begins an action or joins it, `GET /actions/{token}?after=N` reads
on after frame N, and `DELETE /actions/{token}` says that nobody wants it any more, which interrupts what runs. Closing
a reading interrupts nothing. AFTER_HEADER of an answer names the frame before its first line.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing

from aiohttp import web

from core.events import Action
from runtime.protocol import AFTER_HEADER, NDJSON_TYPE, RESUME_HEADER
from runtime.server.action_executor import Handler
from runtime.server.answer_cache import KeptAnswer, KeptAnswers, Times, TooManyAnswersError
from runtime.server.requests import RefusedError

STALLED_S = 10.0
"""For a reader who takes nothing."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,64}")
_FORGOTTEN = "there is no such action: it never arrived, or its answer was let go of"


class KeptRoutes:
    """Routes for the kept answers of one server."""

    def __init__(self, carry_out: Handler, times: Times) -> None:
        self._kept = KeptAnswers(carry_out, times)
        self.table = [
            web.get(r"/actions/{token}", self._read_on, allow_head=False),
            web.delete(r"/actions/{token}", self._let_go),
        ]

    async def answer(self, request: web.Request, action: Action, action_id: int) -> web.StreamResponse:
        """Begin the action of a request that names itself, or join it where it has begun. Raises RefusedError."""
        token = _checked(request.headers[RESUME_HEADER])
        try:
            answer = self._kept.begin(token, action, action_id)
        except TooManyAnswersError:
            raise RefusedError(429, "too many actions are under way; wait for one of them") from None
        if answer is None:
            raise RefusedError(410, "this action was let go of, and is not carried out again")
        return await self._read(request, answer, 0)

    async def aclose(self) -> None:
        """Interrupt what runs."""
        await self._kept.aclose()

    async def _read_on(self, request: web.Request) -> web.StreamResponse:
        answer = self._kept.find(_checked(request.match_info["token"]))
        if answer is None:
            raise RefusedError(404, _FORGOTTEN)
        after = request.query.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) <= 15) or int(after) > answer.last:
            raise RefusedError(400, "'after' is the number of a frame that was sent, or 0")
        return await self._read(request, answer, int(after))

    async def _let_go(self, request: web.Request) -> web.Response:
        token = _checked(request.match_info["token"])
        if not await self._kept.let_go(token):
            raise RefusedError(404, _FORGOTTEN)
        return web.json_response({"token": token})

    async def _read(self, request: web.Request, answer: KeptAnswer, after: int) -> web.StreamResponse:
        """Write lines until the end, or until the turn of this reader is over."""
        reader = answer.reader(after)
        try:
            response = web.StreamResponse(headers={"Content-Type": NDJSON_TYPE, AFTER_HEADER: str(reader.position)})
            await response.prepare(request)
            async with aclosing(reader.lines(self._kept.times)) as lines:
                async for taken in lines:
                    async with asyncio.timeout(STALLED_S):
                        await (response.write_eof if reader.has_all else response.write)(taken)
            await response.write_eof()
        except (TimeoutError, ConnectionError):  # he may come again
            if request.transport is not None:
                request.transport.abort()
        finally:
            reader.leave()
        return response


def _checked(token: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise RefusedError(400, "a token has 16 to 64 letters, digits, - and _")
    return token
