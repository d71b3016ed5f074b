"""The model of a conversation that has none: every call fails and nothing is sent.

A rerun conversation replays recorded answers; if something requests a new one, this model says that there is none.
"""

from __future__ import annotations

from core.errors import ModelError, ModelErrorKind
from core.protocols import FrameSink, LLMRequest, LLMResponse

AGAIN = "again"
"""The model name of a conversation that reruns another one."""

WITHOUT = "none"
"""The model name of a conversation whose agent brings its own model, if none is configured here."""
_WHY = {
    AGAIN: "This conversation ran a saved one again and has no model. To go on from here, choose a model.",
    WITHOUT: "This conversation has no model, for its agent brings one. To go on with another agent, choose one.",
}


class NoModel:
    """Implements core.protocols.LLM; every call raises ModelError. `name` is AGAIN or WITHOUT."""

    def __init__(self, name: str = AGAIN) -> None:
        self.name = name

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Raise ModelError."""
        raise ModelError(ModelErrorKind.NOT_FOUND, _WHY[self.name])

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""
