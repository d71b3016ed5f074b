"""`amortized`: the middle is forgotten, so that it takes a while until the history is too long again."""

from __future__ import annotations

from core.events import CondensationAction
from core.memory.condensers.base import Condenser, Work
from core.memory.condensers.cutting import Cut, middle


def to_half(work: Work, keep_first: int, max_size: int) -> Cut | None:
    """What goes, so that half of `max_size` events and half of the room are left; by hand, all but the newest answer.

    None where that is nothing.
    """
    if work.request.why == "wanted":
        return middle(work, keep_first=keep_first, max_events=0, tokens=work.room)
    tokens = None if work.room is None else work.room // 2
    return middle(work, keep_first=keep_first, max_events=max_size // 2, tokens=tokens)


class Amortized(Condenser):
    """Leaves `keep_first` and the newest events, half of `max_size` in all, and half of the room."""

    def __init__(self, keep_first: int, max_size: int) -> None:
        self._keep_first = keep_first
        self._max_size = max_size

    async def condense(self, work: Work) -> CondensationAction | None:
        """See the class."""
        cut = to_half(work, self._keep_first, self._max_size)
        return None if cut is None else cut.action()
