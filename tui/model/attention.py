"""When somebody who looks elsewhere wants to be told: the agent asks, waits, failed, or ended a long piece of work.

Pure: what is told, and whether anybody is away, is the caller's affair. Each change of state is news once.
"""

from __future__ import annotations

from tui.model.marks import Mark
from tui.model.waits import Wait

LONG_S = 20.0
"""Work that ends sooner was watched to its end."""


ENDS = frozenset({Mark.DONE, Mark.IDLE})
"""Work has ended; what the user paused or what fell asleep is no news."""


class Attention:
    """The states of the conversations as they were last seen."""

    def __init__(self) -> None:
        self._standings: dict[str, Mark | Wait] = {}
        self._working_since: dict[str, float] = {}

    def is_news(self, conversation_id: str, standing: Mark | Wait, now: float) -> bool:
        """Take note of what is waited for, else of the mark, at a time in seconds; whether it is worth interrupting."""
        before = self._standings.get(conversation_id)
        self._standings[conversation_id] = standing
        if standing is Mark.RUNNING:
            if before is not Mark.RUNNING:
                self._working_since[conversation_id] = now
            return False
        since = self._working_since.pop(conversation_id, None)
        if before is None or before is standing:
            return False
        if standing in ENDS:
            return since is not None and now - since > LONG_S
        return isinstance(standing, Wait)
