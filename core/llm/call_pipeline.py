"""CallPipeline: a model with steps around each call, in one ordered list.

Each step gets the request and `next`, which calls the next step and finally the model. The registry adds the steps of
the settings, a conversation those that its messages need; `ORDER` alone decides their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Protocol

from core.llm.budget import KeepBudget
from core.llm.cassette import RecordCalls
from core.llm.inline_images import InlineImages
from core.llm.permits import KeepPermits
from core.llm.prompted_tools import PromptedTools
from core.llm.router import Router, capabilities_of
from core.protocols import LLM, Complete, FrameSink, LLMRequest, LLMResponse


class CallStep(Protocol):
    """A step of a model call."""

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`, by calling `next` with this request or another one."""
        ...


ORDER: Sequence[type[CallStep]] = (
    PromptedTools,  # first: it calls `next` again, without tools, when the model has none
    InlineImages,  # after the messages have their final form, so that each image is read once a call
    RecordCalls,  # before the router: the cassette has one exchange for a call, whichever model answered
    Router,  # sends the call to the chosen model or to one of its helpers
    KeepPermits,  # each of these models has its own rate limit; before the budget: a wait reserves nothing
    KeepBudget,  # last: each of these models has its own price
)


class CallPipeline:
    """A model with steps before it, under the model's name."""

    def __init__(self, model: LLM, *steps: CallStep) -> None:
        """If `model` is a pipeline, its steps are kept."""
        inner = model if isinstance(model, CallPipeline) else None
        self.model: LLM = inner.model if inner else model
        all_steps = (*inner.steps, *steps) if inner else steps
        self.steps: list[CallStep] = sorted(all_steps, key=lambda step: ORDER.index(type(step)))
        self._complete = reduce(lambda next, step: partial(step.complete, next=next), reversed(self.steps), self._ask)

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """As `LLM.complete`, through all steps."""
        return await self._complete(request, on_frame, cause)

    async def _ask(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        return await self.model.complete(request, on_frame, cause)

    async def reads_images(self) -> bool:
        """Whether the model, or the one that its router asks instead, gets images.

        The first call may wait seconds until litellm is loaded. Raises ModelError.
        """
        if any(isinstance(step, Router) and step.has_vision_model for step in self.steps):
            return True
        return (await capabilities_of(self.model)).vision is True

    async def aclose(self) -> None:
        """Close the model and the helpers of its router."""
        await self.model.aclose()
        for step in self.steps:
            if isinstance(step, Router):
                await step.aclose()
