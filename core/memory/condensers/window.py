"""`conversation_window`: the older half is forgotten, and nothing stands in for it. What the others fall back to."""

from __future__ import annotations

from core.events import CondensationAction
from core.memory.condensers.base import Condenser, Work
from core.memory.condensers.cutting import forgetting, middle
from core.memory.seen import is_seen


def half_forgotten(work: Work, note: str = "") -> CondensationAction:
    """The condensation that leaves instructions, the task, and the newer half of the rest; that may be nothing.

    Half by events, and by tokens, too, where it is known how many there may be.
    """
    tokens = None if work.room is None else work.room // 2
    head = middle(work, keep_first=0, max_events=0, tokens=0)
    rest = 0 if head is None else sum(is_seen(envelope.event) for envelope in head.forgotten)
    kept = work.count() - rest
    cut = middle(work, keep_first=0, max_events=kept + max(1, rest // 2) + 1, tokens=tokens)
    return forgetting([], note=note) if cut is None else cut.action(note=note)


class ConversationWindow(Condenser):
    """Acts where the model has refused the history as too long, as V0 does."""

    async def condense(self, work: Work) -> CondensationAction | None:
        """See `half_forgotten`."""
        return half_forgotten(work) if work.request.why == "overflow" else None
