"""The model that answers in one conversation, and the agent that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from core.errors import ModelError, UsageError
from core.llm.call_pipeline import CallPipeline
from core.llm.inline_images import InlineImages, ReadBlob
from core.llm.prompted_tools import PromptedTools
from core.protocols import LLM, Agent
from core.session.conversation_record import ConversationRecord

NO_IMAGES = (
    "The message was not sent: {model} is not known to read images. Choose another model, remove the image, or set "
    'llm.vision to "yes" if the model reads images.'
)


class ActiveModel:
    """The model of one conversation. `make_llm` makes one by its name, `make_agent` the agent that asks it."""

    agent: Agent
    """The agent that asks the model; set by `make_agent`."""

    def __init__(
        self,
        llm: LLM,
        make_llm: Callable[[str], Awaitable[LLM]],
        make_agent: Callable[[LLM], Agent],
        blob: ReadBlob,
        record: ConversationRecord,
    ) -> None:
        self._llm = llm
        self._make_llm = make_llm
        self._make_agent = make_agent
        self._blob = blob
        self._record = record

    @property
    def name(self) -> str:
        """The model's name."""
        return self._llm.name

    def make_agent(self) -> Agent:
        """Make a new agent for the current model."""
        llm = CallPipeline(self._llm, PromptedTools(self._llm.name), InlineImages(self._blob))
        self.agent = self._make_agent(llm)
        return self.agent

    @asynccontextmanager
    async def helper(self, name: str) -> AsyncIterator[LLM]:
        """Open another model for single calls; an empty name is this model. Raises ConfigurationError."""
        if not name or name == self._llm.name:
            yield self._llm
            return
        llm = await self._make_llm(name)
        try:
            yield llm
        finally:
            await llm.aclose()

    async def switch(self, name: str) -> None:
        """Use another model from the next answer on. Raises ConfigurationError; then nothing has changed."""
        old, self._llm = self._llm, await self._make_llm(name)
        self.make_agent()
        await self._record.set_model(name)
        await old.aclose()

    async def check_images(self) -> None:
        """Raise UsageError if the model is not known to read images: it would only be told that there was one."""
        try:
            reads_images = await CallPipeline(self._llm).reads_images()
        except ModelError:
            return  # the call says why
        if not reads_images:
            raise UsageError(NO_IMAGES.format(model=self.name))

    async def reopen(self) -> None:
        """Make the same model again after `aclose`. Raises ConfigurationError."""
        self._llm = await self._make_llm(self._llm.name)
        self.make_agent()

    async def aclose(self) -> None:
        """Close the model; `reopen` makes it again."""
        await self._llm.aclose()
