"""Events appended one after the other, each awaited: the cost of one disk write through the whole stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from core.events import Envelope
from core.stream import EventStreamSubscriber
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import BARE_INSERT, USER, bare_database, folder, message, opened, stored
from tests.bench.size import sized

ROUNDS, APPENDS = sized(40, 2), sized(100, 10)
NAME = "appends, each awaited, one subscriber"


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    ours: list[float] = []
    bare: list[float] = []
    encoding: list[float] = []
    event = message()
    body = stored(event)
    seen: list[Envelope] = []

    async def see(envelope: Envelope) -> None:
        seen.append(envelope)

    with folder() as place:
        async with opened(place) as stream, bare_database(place / "bare.db") as database:
            stream.subscribe(EventStreamSubscriber.TEST, see, "bench")
            for _ in range(ROUNDS):
                bare.append(await _rate(lambda: database.execute(BARE_INSERT, (body,))))
                encoding.append(await _rate(lambda: database.execute(BARE_INSERT, (event.model_dump_json(),))))
                ours.append(await _rate(lambda: stream.append(event, USER)))
            await stream.settle()
    assert len(seen) == ROUNDS * APPENDS
    return [
        Figure(NAME, "/s", ours, Limit("bare aiosqlite, FULL, a ready text", bare), [Target(0.85, "ratio")]),
        Figure(NAME, "/s", ours, Limit("the same, each event encoded", encoding)),
    ]


async def _rate(append: Callable[[], Awaitable[object]]) -> float:
    started_at = perf_counter()
    for _ in range(APPENDS):
        await append()
    return APPENDS / (perf_counter() - started_at)
