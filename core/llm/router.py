"""Router: sends a request to the chosen model, or to one of its helpers, and tells the user which one answers.

The settings name the helpers of a model:

    vision      while the messages have an image and the chosen model has no vision
    large       while the conversation does not fit the chosen model
    fallbacks   after the chosen model failed all attempts, for a reason that another provider may not have

Errors that the user has to correct (a wrong key, a wrong name, a refused request) are never hidden behind another
model, and an answer that was shown in part is never repeated by another one. A model that failed is skipped for five
minutes. Follows OpenHands V0's `openhands/llm/router`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from core import status_messages
from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import Status
from core.llm.model_catalogue import Capabilities
from core.llm.model_host_client import FailedCall, HostedLLM
from core.llm.settings import CallSettings
from core.protocols import LLM, Complete, FrameSink, LLMRequest, LLMResponse

ROUTE_STATUS = "STATUS$LLM_ROUTE"
COOLDOWN_S = 300.0
"""How long a model that failed is skipped: the longest wait that providers ask for."""
FAILS_OVER = frozenset(
    {
        ModelErrorKind.RATE_LIMIT,
        ModelErrorKind.TIMEOUT,
        ModelErrorKind.CONNECTION,
        ModelErrorKind.SERVER,
        ModelErrorKind.BAD_RESPONSE,
        ModelErrorKind.BUDGET,
    }
)
"""The errors after which a fallback is tried: another model may not have them, and no setting corrects them."""
CHARS_PER_TOKEN = 4.0
"""Used until the first answer reports the tokens of its prompt."""
FULL = 0.95
"""The share of a context window that may be used, because estimates are inexact."""


@dataclass(frozen=True, slots=True)
class Helpers:
    """The helpers of a chosen model."""

    vision: LLM | None = None
    large: LLM | None = None
    fallbacks: Sequence[LLM] = ()

    def all(self) -> list[LLM]:
        """Return all that are set."""
        return [llm for llm in (self.vision, self.large, *self.fallbacks) if llm is not None]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that is sent to one model after another until one answers."""

    request: LLMRequest
    on_frame: FrameSink
    cause: int
    complete_of: Callable[[LLM], Complete]

    async def to(self, llm: LLM) -> LLMResponse:
        return await self.complete_of(llm)(self.request, self.on_frame, self.cause)


class Router:
    """A step of the model call: sends it to the chosen model, or to one of its helpers."""

    def __init__(self, chosen: LLM, helpers: Helpers, clock: Callable[[], float] = time.monotonic) -> None:
        self._chosen, self._helpers, self._clock = chosen, helpers, clock
        self._chars_per_token = CHARS_PER_TOKEN
        self._skipped_until: dict[str, float] = {}
        """By the names of models that failed."""
        self._status = ""

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`. `next` calls the chosen model."""
        chars = _chars(request)
        first, why = await self._route(request, chars)
        self._report(on_frame, why)
        call = _Call(request, on_frame, cause, lambda llm: next if llm is self._chosen else llm.complete)
        response = await self._first_of([first, *self._helpers.fallbacks], call)
        if response.usage.prompt_tokens and not _has_pictures(request):
            self._chars_per_token = chars / response.usage.prompt_tokens
        return response

    async def aclose(self) -> None:
        """Close the helpers."""
        for llm in self._helpers.all():
            await llm.aclose()

    @property
    def has_vision_model(self) -> bool:
        """Whether another model is asked when a message has an image and the chosen model does not read images."""
        return self._helpers.vision is not None

    async def _route(self, request: LLMRequest, chars: int) -> tuple[LLM, str]:
        """Return the model to call, and the status message if it is not the chosen one."""
        vision, large = self._helpers.vision, self._helpers.large
        if vision is not None and _has_pictures(request) and not (await capabilities_of(self._chosen)).vision:
            return vision, status_messages.NO_PICTURES.format(model=self._chosen.name, other=vision.name)
        window = (await capabilities_of(self._chosen)).context_window if large is not None else None
        if large is not None and window and chars / self._chars_per_token > window * FULL:
            return large, status_messages.NO_ROOM.format(model=self._chosen.name, other=large.name)
        return self._chosen, ""

    async def _first_of(self, models: Sequence[LLM], call: _Call) -> LLMResponse:
        """Return the answer of the first model that has one; models that failed recently are called last."""
        now = self._clock()
        order = sorted(models, key=lambda llm: self._skipped_until.get(llm.name, now) > now)
        if order[0] is not models[0]:
            self._report(call.on_frame, status_messages.FAILED_BEFORE.format(model=models[0].name, other=order[0].name))
        failures: list[str] = []
        for llm, after in zip_longest(order, order[1:]):
            try:
                response = await self._ask(llm, call)
            except ModelError as error:
                failures.append(f"{llm.name}: {error}")
                is_shown = isinstance(error, FailedCall) and error.shown
                if error.kind not in FAILS_OVER or is_shown or after is None:
                    if len(failures) == 1:
                        raise
                    raise ModelError(error.kind, " ".join(failures)) from error
                self._skipped_until[llm.name] = self._clock() + COOLDOWN_S
                failed = status_messages.FAILED.format(model=llm.name, other=after.name, error=error)
                self._report(call.on_frame, failed)
            else:
                self._skipped_until.pop(llm.name, None)
                return response
        raise AssertionError("the last model answers or raises")

    async def _ask(self, llm: LLM, call: _Call) -> LLMResponse:
        """Return a model's answer, or the large model's if the request does not fit."""
        large = self._helpers.large
        try:
            return await call.to(llm)
        except ModelError as error:
            if error.kind is not ModelErrorKind.CONTEXT_WINDOW or large is None or llm is large:
                raise
        self._report(call.on_frame, status_messages.NO_ROOM.format(model=llm.name, other=large.name))
        return await call.to(large)

    def _report(self, on_frame: FrameSink, status: str) -> None:
        """Show a status message if it has changed."""
        if status != self._status:
            self._status = status
            on_frame(Status("info", ROUTE_STATUS, status))


def helpers_of(name: str, settings: CallSettings, create: Callable[[str], LLM]) -> Helpers:
    """Create the helpers of a model by its settings. Raises ConfigurationError."""

    def helper(other: str, what: str) -> LLM | None:
        if not other or other == name:
            return None
        try:
            return create(other)
        except ConfigurationError as error:
            raise ConfigurationError(f"The {what} of {name} cannot be used. {error}") from error

    return Helpers(
        helper(settings.vision_model, "vision_model"),
        helper(settings.large_model, "large_model"),
        [llm for other in settings.fallbacks if (llm := helper(other, "fallback")) is not None],
    )


async def capabilities_of(llm: LLM) -> Capabilities:
    """Return what is known about a model; one that plays a file supports images and has no limit."""
    model = llm.model if hasattr(llm, "steps") and hasattr(llm, "model") else llm  # of a pipeline
    return await model.capabilities() if isinstance(model, HostedLLM) else Capabilities(vision=True)


def _has_pictures(request: LLMRequest) -> bool:
    return any(
        part.get("type") == "image_url"
        for message in request.messages
        if isinstance(content := message.get("content"), list)
        for part in content
    )


def _chars(request: LLMRequest) -> int:
    """Return the length of a request, without its images."""
    total = sum(len(json.dumps(tool)) for tool in request.tools)
    for message in request.messages:
        content = message.get("content")
        texts = [content] if isinstance(content, str) else [part.get("text") for part in content or []]
        total += sum(len(text) for text in texts if text) + len(json.dumps(message.get("tool_calls", "")))
    return total
