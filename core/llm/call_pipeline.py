"""What happens to a call of a model on its way to the provider, in one ordered list.

Each step is called with the request and `next`, which goes on to the step below it and at last to the chosen model.
The registry adds the steps that the settings want, a conversation those that its messages need; `ORDER` alone says
where each one stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Protocol

from core.llm.cassette_recorder import RecordCalls
from core.llm.inline_images import InlineImages
from core.llm.prompted_tools import PromptedTools
from core.llm.router import Router
from core.protocols import LLM, Complete, FrameSink, LLMRequest, LLMResponse


class CallStep(Protocol):
    """One step of a call."""

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`, by calling `next` with this request or another one."""
        ...


ORDER: Sequence[type[CallStep]] = (
    PromptedTools,  # first: it calls `next` again, without tools, when the model has none
    InlineImages,  # after the messages have their final form, so that each image is read once a call
    RecordCalls,  # before the router: the cassette has one exchange for a call, whichever model answered
    Router,  # last: sends the call to the chosen model or to one of its helpers
)


class CallPipeline:
    """A model with steps before it. Implements core.protocols.LLM under the model's name."""

    def __init__(self, model: LLM, *steps: CallStep) -> None:
        """`model` may be a pipeline itself; then it gets more steps."""
        inner = model if isinstance(model, CallPipeline) else None
        self.model: LLM = inner.model if inner else model
        all_steps = (*inner.steps, *steps) if inner else steps
        self.steps: list[CallStep] = sorted(all_steps, key=lambda step: ORDER.index(type(step)))
        self._complete = reduce(lambda next, step: partial(step.complete, next=next), reversed(self.steps), self._ask)

    @property
    def name(self) -> str:
        return self.model.name

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        """As the model's own `complete`, through all steps."""
        return await self._complete(request, on_frame, cause)

    async def _ask(self, request: LLMRequest, on_frame: FrameSink, cause: int) -> LLMResponse:
        return await self.model.complete(request, on_frame, cause)

    async def aclose(self) -> None:
        """Close the model and the helpers of its router."""
        await self.model.aclose()
        for step in self.steps:
            if isinstance(step, Router):
                await step.aclose()
