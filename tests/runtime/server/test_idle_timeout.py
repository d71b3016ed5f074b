"""A server that nobody is connected to leaves after a while, and not before."""

from __future__ import annotations

import asyncio

from runtime.server.request_guard import IdleTimeout

SOON_S = 0.05


async def connection(end: asyncio.Event) -> None:
    await end.wait()


async def test_server_ends_if_no_client_connects() -> None:
    left = asyncio.Event()
    IdleTimeout(SOON_S).start(left.set)
    async with asyncio.timeout(20):
        await left.wait()


async def test_server_ends_after_the_last_client() -> None:
    left, first_ends, second_ends = asyncio.Event(), asyncio.Event(), asyncio.Event()
    timeout = IdleTimeout(SOON_S)
    timeout.start(left.set)
    first, second = (asyncio.create_task(connection(end)) for end in (first_ends, second_ends))
    timeout.add(first)
    timeout.add(second)
    first_ends.set()
    await first
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(4 * SOON_S, later.set_result, None)  # of the loop's own clock
    await later
    assert not left.is_set()
    second_ends.set()
    async with asyncio.timeout(20):
        await left.wait()


async def test_server_stays_without_a_timeout_or_before_start() -> None:
    ended = asyncio.Event()
    ended.set()
    loop = asyncio.get_running_loop()
    left: list[str] = []
    patient, not_begun = IdleTimeout(None), IdleTimeout(0.0)
    patient.start(lambda: left.append("patient"))
    for timeout in (patient, not_begun):
        task = asyncio.create_task(connection(ended))
        timeout.add(task)
        await task
    later = loop.create_future()
    loop.call_later(SOON_S, later.set_result, None)
    await later
    assert left == []
