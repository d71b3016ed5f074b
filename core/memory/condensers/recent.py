"""`recent`: the beginning and the newest events are shown, what lies between is not; nothing is forgotten for good."""

from __future__ import annotations

from collections.abc import Sequence

from core.events import CondensationRequestAction, Envelope
from core.memory.condensers.base import Condenser, Work
from core.memory.condensers.cutting import middle


class Recent(Condenser):
    """Shows `keep_first` and the newest events, `max_events` in all."""

    def __init__(self, keep_first: int, max_events: int) -> None:
        self._keep_first = keep_first
        self._max_events = max_events

    def shown(self, events: Sequence[Envelope]) -> Sequence[Envelope]:
        """See the class. The place of the cut moves with each step, so providers keep little of such a prompt."""
        work = Work(events, CondensationRequestAction())
        if work.count() <= self._max_events:
            return events
        cut = middle(work, keep_first=self._keep_first, max_events=self._max_events, tokens=None)
        if cut is None:
            return events
        gone = frozenset(envelope.id for envelope in cut.forgotten)
        return [envelope for envelope in events if envelope.id not in gone]
