"""The model of a conversation that has none: every call of it fails, and nothing is sent to anyone.

A session that is run again gives what was recorded; where something asks for more all the same, it learns here that
there is nobody to ask.
"""

from __future__ import annotations

from core.errors import ModelError, ModelErrorKind
from core.protocols import FrameSink, LLMRequest, LLMResponse

AGAIN = "again"
"""What a conversation that runs another one again has for a model's name."""


WITHOUT = "none"
"""What a conversation has for a model's name whose agent has a model of its own, where none is configured here."""
_WHY = {
    AGAIN: "This conversation ran a saved one again and has no model. To go on from here, choose a model.",
    WITHOUT: "This conversation has no model, for its agent brings one. To go on with another agent, choose one.",
}


class NoModel:
    """Implements core.protocols.LLM by refusing. `name` is one of those above."""

    def __init__(self, name: str = AGAIN) -> None:
        self.name = name

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Raises ModelError."""
        raise ModelError(ModelErrorKind.NOT_FOUND, _WHY[self.name])

    async def aclose(self) -> None:
        """There is nothing to let go of."""
