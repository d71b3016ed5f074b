"""`pipeline`: several condensers, one after the other. The first condensation ends it."""

from __future__ import annotations

from collections.abc import Sequence

from core.events import CondensationAction, Envelope
from core.memory.condensers.base import Condenser, Work


class Pipeline(Condenser):
    """Each shows what the one before it shows."""

    def __init__(self, condensers: Sequence[Condenser]) -> None:
        self._condensers = tuple(condensers)

    def shown(self, events: Sequence[Envelope]) -> Sequence[Envelope]:
        """What is left after all of them."""
        for condenser in self._condensers:
            events = condenser.shown(events)
        return events

    async def condense(self, work: Work) -> CondensationAction | None:
        """That of the first one that has one."""
        for condenser in self._condensers:
            if (found := await condenser.condense(work)) is not None:
                return found
        return None
