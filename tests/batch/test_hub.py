"""The hub of a batch on a cluster: a budget and permits kept once, whatever the nodes do."""

from __future__ import annotations

import asyncio

from core.batch.ray_hub import Hub, Permit

A, B = ("a", 1), ("b", 1)


async def hub_with(total: float | None = 1.0, workers: int = 2) -> Hub:
    hub = Hub(total, 0.0, workers)
    for key in (A, B):
        await hub.begin(key)
    return hub


async def test_calls_of_all_nodes_share_one_budget() -> None:
    hub = await hub_with(1.0)
    assert await hub.reserve(A, 0.6) is None
    waiting = asyncio.create_task(hub.reserve(B, 0.6))
    await asyncio.sleep(0)
    assert not waiting.done()
    await hub.settle(A, 0.6, 0.1)
    assert await waiting is None
    await hub.settle(B, 0.6, 0.6)
    assert await hub.reserve(A, 0.6) == (1.0, 0.7)
    taken = await hub.take(0.0)
    assert (taken.spent, taken.is_spent) == (0.7, True)


async def test_what_a_lost_attempt_reserved_counts_as_spent() -> None:
    hub = await hub_with(1.0)
    await hub.reserve(A, 0.4)
    await hub.forget(A)
    assert (await hub.take(0.0)).spent == 0.4
    await hub.settle(A, 0.4, 0.1)  # the late answer
    assert (await hub.take(0.0)).spent == 0.4
    assert await hub.reserve(A, 0.1) == (1.0, 0.4), "an attempt that was given up gets nothing"
    assert await hub.reserve(B, 0.6) is None


async def test_reservation_that_waited_while_its_attempt_was_given_up_is_returned() -> None:
    hub = await hub_with(1.0)
    await hub.reserve(A, 0.9)
    waiting = asyncio.create_task(hub.reserve(B, 0.9))
    await asyncio.sleep(0)
    await hub.forget(B)
    await hub.settle(A, 0.9, 0.0)
    assert await waiting == (1.0, 0.0)
    assert (await hub.take(0.0)).spent == 0.0


async def test_rate_limit_of_one_node_slows_all() -> None:
    hub = await hub_with(None, workers=4)
    assert await hub.enter(A, "m") == Permit(0, 4)
    assert await hub.leave(A, "m", 0, True) == 2
    assert await hub.enter(A, "m") == Permit(1, 2)
    assert await hub.enter(B, "m") == Permit(1, 2)
    third = asyncio.create_task(hub.enter(B, "m"))
    await asyncio.sleep(0)
    assert not third.done()
    assert await hub.leave(A, "m", 1, False) == 3
    assert await third == Permit(1, 3)


async def test_permits_of_a_lost_attempt_are_free() -> None:
    hub = await hub_with(None, workers=1)
    await hub.enter(A, "m")
    waiting = asyncio.create_task(hub.enter(B, "m"))
    await asyncio.sleep(0)
    await hub.forget(A)
    assert await waiting == Permit(0, 1)
    assert await hub.enter(A, "m2") is None


async def test_nodes_are_heard_and_told_to_stop() -> None:
    hub = await hub_with()
    assert (await hub.take(0.0)).silent_s == {}, "no node has begun"
    await hub.heartbeat(A)
    assert (await hub.take(0.0)).silent_s[A] < 5
    stopping = asyncio.create_task(hub.until_cancelled(A))
    stored = asyncio.create_task(hub.until_stored(A))
    await hub.put(A, "event")
    await hub.interrupt(A)
    await stopping
    assert (await hub.take(0.0)).messages == [(A, "event")]
    assert not stored.done()
    await hub.stored(A)
    await stored
    await hub.until_stored(("unknown", 1))
    await hub.until_cancelled(("unknown", 1))
