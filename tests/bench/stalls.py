"""For how long the event loop is kept from its work: a beat that is due every millisecond, and how late it comes.

The same beat on a loop that does nothing else tells how late the system alone makes it.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

from core.events import CmdOutputObservation
from tests.bench.conversation import session_of
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder
from tests.bench.size import sized

STEPS, BEAT_S, IDLE_S = sized(50, 3), 0.001, 1.0
LOUD = "seq 1 2000"
"""Some output to carry in each step."""


class Beat:
    """Notes how late each beat came, in milliseconds."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self._due_at = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Beat until `stop`."""
        self._due_at = perf_counter() + BEAT_S
        self._handle = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        self.late.append(max(0.0, perf_counter() - self._due_at) * 1000)
        self.start()

    def stop(self) -> None:
        assert self._handle is not None
        self._handle.cancel()


async def idle_beats() -> list[float]:
    """How late beats come when there is nothing else to do."""
    beat = Beat()
    beat.start()
    await asyncio.sleep(IDLE_S)
    beat.stop()
    return beat.late


def measure() -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    busy = Beat()
    with folder() as place:
        async with session_of(place, STEPS, LOUD) as session:
            busy.start()
            await session.send("go")
            await session.settled()
            busy.stop()
            events = await session.stream.read()
    assert sum(isinstance(envelope.event, CmdOutputObservation) for envelope in events) == STEPS
    limit = Limit("the same on an idle loop", await idle_beats())
    return [Figure(f"loop kept waiting, session of {STEPS} steps", "ms", busy.late, limit, [Target(50, "max")])]
