"""Which open conversations are shown, and since when the others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class Viewers:
    """The viewers of one process. A conversation that was never shown does not count as left."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looking: Counter[str] = Counter()
        self._left_at: dict[str, float] = {}

    def keep(self, conversation_id: str) -> None:
        """Do not count it as left."""
        self._left_at.pop(conversation_id, None)

    def come(self, conversation_id: str) -> None:
        """It is shown once more."""
        self._looking[conversation_id] += 1

    def go(self, conversation_id: str) -> None:
        """It is shown once less."""
        self._looking[conversation_id] -= 1
        if self._looking[conversation_id] <= 0:
            del self._looking[conversation_id]
            self._left_at[conversation_id] = self._clock()

    def forget(self, conversation_id: str) -> None:
        """It was closed."""
        self._looking.pop(conversation_id, None)
        self._left_at.pop(conversation_id, None)

    @property
    def left(self) -> list[str]:
        """The conversations that were shown and are not shown now."""
        return list(self._left_at)

    def unseen_s(self, conversation_id: str, since: float) -> float:
        """For how many seconds it has not been shown and had no event, if its newest event came at `since`."""
        left_at = self._left_at.get(conversation_id)
        return 0.0 if left_at is None else max(0.0, self._clock() - max(left_at, since))
