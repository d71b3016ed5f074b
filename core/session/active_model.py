"""Mind: the model that answers in one conversation, and the agent that asks it.

Used by AgentSession, which hands each new agent to the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from core.llm.call_pipeline import CallPipeline
from core.llm.inline_images import InlineImages, ReadBlob
from core.llm.prompted_tools import PromptedTools
from core.protocols import LLM, Agent


class Mind:
    """Of one conversation. `make_llm` makes the model of a name, `make_agent` the agent that asks it."""

    def __init__(
        self,
        llm: LLM,
        make_llm: Callable[[str], Awaitable[LLM]],
        make_agent: Callable[[LLM], Agent],
        blob: ReadBlob,
    ) -> None:
        self._llm = llm
        self._make_llm = make_llm
        self._make_agent = make_agent
        self._blob = blob

    @property
    def model(self) -> str:
        """The model's name."""
        return self._llm.name

    def agent(self) -> Agent:
        """A new agent that asks the model."""
        return self._make_agent(CallPipeline(self._llm, PromptedTools(self._llm.name), InlineImages(self._blob)))

    async def take(self, name: str = "") -> LLM:
        """Have another model, or the same one anew; the one before, to be let go of. Raises ConfigurationError."""
        old, self._llm = self._llm, await self._make_llm(name or self._llm.name)
        return old

    async def aclose(self) -> None:
        """Let go of the model; `take` has it again."""
        await self._llm.aclose()
