"""From the commit to a subscriber: how long an event that is durable stays unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter

from core.events import Envelope
from core.store.event_store import EventStore
from core.store.writer import Draft, Lease
from core.stream import EventStreamSubscriber
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import USER, folder, message, milliseconds_since, opened
from tests.bench.size import sized

EVENTS = sized(500, 20)


class TimedStore(EventStore):
    """Records the time when durable events are delivered."""

    delivered_at = 0.0

    async def append(
        self,
        lease: Lease,
        drafts: Sequence[Draft],
        deliver: Callable[[Sequence[Envelope]], None] = lambda envelopes: None,
    ) -> Sequence[Envelope]:
        def timed(envelopes: Sequence[Envelope]) -> None:
            self.delivered_at = perf_counter()
            deliver(envelopes)

        return await super().append(lease, drafts, timed)


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    ours: list[float] = []
    hops: list[float] = []
    called = asyncio.Event()
    queue: asyncio.Queue[float] = asyncio.Queue()

    async def see(envelope: Envelope) -> None:
        ours.append(milliseconds_since(store.delivered_at))
        called.set()

    async def consume() -> None:
        while True:
            hops.append(milliseconds_since(await queue.get()))
            called.set()

    with folder() as place:
        store = TimedStore(place)
        async with opened(place, store) as stream:
            stream.subscribe(EventStreamSubscriber.TEST, see, "bench")
            consumer = asyncio.create_task(consume())
            for _ in range(EVENTS):
                called.clear()
                await stream.append(message(), USER)
                await called.wait()
                called.clear()
                queue.put_nowait(perf_counter())
                await called.wait()
            consumer.cancel()
            await asyncio.gather(consumer, return_exceptions=True)
    limit = Limit("asyncio.Queue, put to get", hops)
    return [Figure("dispatch, commit to subscriber", "ms", ours, limit, [Target(0.1)])]
