"""Whose server it is, asked as a client asks, without a server around it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web

from runtime.protocol import OWNER_HEADER
from runtime.server.lease import Lease
from runtime.server.request_guard import RefusedError
from tests.runtime.server.test_identity import listening

FIRST, SECOND = "a" * 16, "b" * 64


@web.middleware
async def refusing(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except RefusedError as refused:
        return refused.answer()


async def asked(http: aiohttp.ClientSession, ownership: Lease, *questions: tuple[str, str, str]) -> list[int]:
    """The statuses of requests by method, path and owner."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(middlewares=[refusing, ownership.check])
    app.add_routes([*ownership.table, web.get("/alive", answer), web.get("/work", answer)])
    statuses = []
    async with listening(app) as port:
        for method, path, name in questions:
            async with http.request(method, f"http://127.0.0.1:{port}{path}", headers={OWNER_HEADER: name}) as answered:
                statuses.append(answered.status)
    return statuses


async def test_server_is_open_until_it_is_claimed(http: aiohttp.ClientSession) -> None:
    claimed: list[str] = []
    questions = [
        (("DELETE", "/owner", FIRST), 409),
        (("GET", "/work", SECOND), 200),
        (("PUT", "/owner", "a" * 15), 400),
        (("PUT", "/owner", "a" * 65), 400),
        (("PUT", "/owner", FIRST), 200),
        (("PUT", "/owner", FIRST), 200),
        (("GET", "/work", FIRST), 200),
        (("GET", "/work", SECOND), 409),
        (("GET", "/work", ""), 409),
        (("GET", "/alive", SECOND), 200),
        (("PUT", "/owner", SECOND), 409),
        (("DELETE", "/owner", SECOND), 409),
        (("DELETE", "/owner", FIRST), 501),
    ]
    ownership = Lease(on_claim=claimed.append)
    assert await asked(http, ownership, *(question for question, _ in questions)) == [status for _, status in questions]
    assert claimed == [FIRST]


async def test_releasing_the_lease_ends_the_process(http: aiohttp.ClientSession) -> None:
    left = asyncio.Event()
    assert await asked(http, Lease(left.set), ("PUT", "/owner", FIRST), ("PUT", "/owner", SECOND)) == [200, 409]
    assert not left.is_set()
    ownership = Lease(left.set)
    assert await asked(http, ownership, ("PUT", "/owner", FIRST), ("DELETE", "/owner", FIRST)) == [200, 200]
    assert left.is_set()


async def test_failed_claim_leaves_the_server_unclaimed(http: aiohttp.ClientSession) -> None:
    def no_space(name: str) -> None:
        if name == FIRST:
            raise OSError(28, "No space left on device")

    questions = (("PUT", "/owner", FIRST), ("GET", "/work", SECOND), ("PUT", "/owner", SECOND))
    assert await asked(http, Lease(on_claim=no_space), *questions) == [500, 200, 200]


@pytest.mark.parametrize(("absent_s", "status"), [(-1.0, 503), (600.0, 409)])
async def test_absent_owner_loses_the_lease(http: aiohttp.ClientSession, absent_s: float, status: int) -> None:
    left = asyncio.Event()
    ownership = Lease(left.set, absent_s=absent_s)
    assert await asked(http, ownership, ("PUT", "/owner", FIRST), ("PUT", "/owner", SECOND)) == [200, status]
    assert left.is_set() is (status == 503)
