"""The agent of a conversation whose own agent is missing or not allowed.

The conversation can be read, and every step fails with what to do. No other agent replaces the missing one, because it
may have more tools than the one that the user chose.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import ModelError, ModelErrorKind
from core.events import Envelope, Event, LLMMetrics, SystemMessageAction
from core.protocols import FrameSink


class NoAgent:
    """Implements core.protocols.Agent; every step raises ModelError."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    def system_message(self) -> SystemMessageAction:
        """Return an empty message."""
        return SystemMessageAction(content="", agent_class=self.name)

    async def step(self, history: Sequence[Envelope], metrics: LLMMetrics, on_frame: FrameSink) -> Sequence[Event]:
        """Raise ModelError that says what is missing."""
        raise ModelError(ModelErrorKind.NOT_FOUND, f"{self._why} Then open this conversation again.")
