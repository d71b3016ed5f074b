"""The model of a conversation that has none: every call of it fails, and nothing is sent to anyone.

A session that is run again gives what was recorded; where something asks for more all the same, it learns here that
there is nobody to ask.
"""

from __future__ import annotations

from core.errors import ModelError, ModelErrorKind
from core.ports import FrameSink, LLMRequest, LLMResponse

AGAIN = "again"
"""What a conversation that runs another one again has for a model's name."""


class NoModel:
    """Implements core.ports.LLM by refusing."""

    name = AGAIN

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """Raises ModelError."""
        raise ModelError(
            ModelErrorKind.NOT_FOUND,
            "This conversation ran a saved one again and has no model. To go on from here, choose a model.",
        )

    async def aclose(self) -> None:
        """There is nothing to let go of."""
