"""Viewers: who looks at which open conversation, and since when nobody does. Used by ConversationManager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class Viewers:
    """Of one process's conversations. What nobody has looked at yet is not counted as left."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looking: Counter[str] = Counter()
        self._left_at: dict[str, float] = {}

    def keep(self, conversation_id: str) -> None:
        """Somebody needs it, whether he looks at it or not."""
        self._left_at.pop(conversation_id, None)

    def come(self, conversation_id: str) -> None:
        """One more looks at it."""
        self._looking[conversation_id] += 1

    def go(self, conversation_id: str) -> None:
        """One looks at it no longer."""
        self._looking[conversation_id] -= 1
        if self._looking[conversation_id] <= 0:
            del self._looking[conversation_id]
            self._left_at[conversation_id] = self._clock()

    def forget(self, conversation_id: str) -> None:
        """It is closed."""
        self._looking.pop(conversation_id, None)
        self._left_at.pop(conversation_id, None)

    @property
    def left(self) -> list[str]:
        """The conversations that somebody has looked at and nobody looks at now."""
        return list(self._left_at)

    def unseen_s(self, conversation_id: str, since: float) -> float:
        """For how many seconds nobody has looked at it, and nothing has happened in it, as last at `since`."""
        left_at = self._left_at.get(conversation_id)
        return 0.0 if left_at is None else max(0.0, self._clock() - max(left_at, since))
