"""History: the events of a conversation as its controller has them: those of now at once, older ones once needed.

A conversation that is opened again begins with a snapshot of its state, so nobody reads the events before that until
the agent is asked: then they are read once, page by page, and kept. Ids have no gaps, so a place is arithmetic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from core import garbage_collector
from core.events import Envelope

PAGE = 500
"""Events read between two turns of the event loop: about 20 ms of work."""
Read = Callable[[int, int], Awaitable[list[Envelope]]]
"""Reads at most PAGE events whose ids lie between these two, the first ones first. Raises StoreError."""


class History:
    """The events from `first` on, and the way to those before."""

    def __init__(self, read: Read, first: int = 0) -> None:
        self._read = read
        self._first = first
        self._known: list[Envelope] = []
        self._reading = asyncio.Lock()

    @property
    def next_id(self) -> int:
        """The id of the event that comes next."""
        return self._first + len(self._known)

    def append(self, envelope: Envelope) -> None:
        """Take in the next event."""
        self._known.append(envelope)

    def let_go(self) -> None:
        """Keep no event any more: the conversation is closed, and whoever still refers to it needs its state alone."""
        self._first, self._known = self.next_id, []

    def __getitem__(self, event_id: int) -> Envelope:
        """An event that came since the beginning of this history."""
        return self._known[event_id - self._first]

    async def until(self, next_id: int) -> Sequence[Envelope]:
        """All events before this one. Reads what is missing. Raises StoreError."""
        async with self._reading:
            if self._first:
                older: list[Envelope] = []
                while len(older) < self._first:
                    older += await self._read(len(older) - 1, self._first)
                    garbage_collector.freeze()
                self._known[:0] = older
                self._first = 0
        return tuple(self._known[:next_id])
