"""`llm`: a model sums up what is forgotten, and its summary stands behind the beginning."""

from __future__ import annotations

from core.events import CondensationAction
from core.memory.condensers.amortized import to_half
from core.memory.condensers.base import Condenser, NoSummaryError, Work
from core.memory.condensers.summary import asked, checked, request_of

TASK = "Write the summary, in at most 600 words, and nothing else."


class Summarising(Condenser):
    """Leaves as much as `amortized`; events of more than `max_event_chars` are shown to the model without a middle."""

    def __init__(self, keep_first: int, max_size: int, max_event_chars: int) -> None:
        self._keep_first = keep_first
        self._max_size = max_size
        self._max_event_chars = max_event_chars

    async def condense(self, work: Work) -> CondensationAction | None:
        """See the class."""
        cut = to_half(work, self._keep_first, self._max_size)
        if cut is None:
            return None
        response = await asked(work, request_of(work, cut, self._max_event_chars, TASK))
        if response.tool_calls:
            raise NoSummaryError("The model called tools instead of summing up.")
        return cut.action(checked(response.text, cut))
