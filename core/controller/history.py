"""The events of a conversation for its controller: new ones are in memory, older ones are read when needed.

A conversation that is opened again starts from a snapshot of its state, so the events before it are read only when the
agent is asked: once, page by page. Ids have no gaps, so an id is an index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from core import garbage_collector
from core.events import Envelope

PAGE = 500
"""Events read at a time: about 20 ms of work."""
Read = Callable[[int, int], Awaitable[list[Envelope]]]
"""Reads at most PAGE events with ids between these two, oldest first. Raises StoreError."""


class History:
    """The events from `first` on, and a function that reads those before."""

    def __init__(self, read: Read, first: int = 0) -> None:
        self._read = read
        self._first = first
        self._known: list[Envelope] = []
        self._reading = asyncio.Lock()

    @property
    def next_id(self) -> int:
        """The id of the next event."""
        return self._first + len(self._known)

    def append(self, envelope: Envelope) -> None:
        """Add the next event."""
        self._known.append(envelope)

    def clear(self) -> None:
        """Drop all events: the conversation is closed, and only its state is still needed."""
        self._first, self._known = self.next_id, []

    def __getitem__(self, event_id: int) -> Envelope:
        """An event that was added since this history began."""
        return self._known[event_id - self._first]

    async def until(self, next_id: int) -> Sequence[Envelope]:
        """All events before this one. Reads the missing ones. Raises StoreError."""
        async with self._reading:
            if self._first:
                older: list[Envelope] = []
                while len(older) < self._first:
                    older += await self._read(len(older) - 1, self._first)
                    garbage_collector.freeze()
                self._known[:0] = older
                self._first = 0
        return tuple(self._known[:next_id])
