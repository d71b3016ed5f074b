"""The agent of a conversation whose own agent is not there, or may not work: it can be read, and says what to do.

Nobody takes its place silently: another one may have more tools than the one that the user chose.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import ModelError, ModelErrorKind
from core.events import Envelope, Event, LLMMetrics, SystemMessageAction
from core.protocols import FrameSink


class AbsentAgent:
    """Implements core.protocols.Agent by refusing."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    def system_message(self) -> SystemMessageAction:
        """Nothing to begin with."""
        return SystemMessageAction(content="", agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Raises ModelError that says what is missing."""
        raise ModelError(ModelErrorKind.NOT_FOUND, f"{self._why} Then open this conversation again.")
