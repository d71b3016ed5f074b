"""Which model answers a request: the one that was chosen, or one that helps it out, which is told.

A router is made of a chosen model and the models that the settings name beside it:

    vision      while a picture is in view that the chosen one cannot see
    large       while the conversation does not fit the chosen one
    fallbacks   when the chosen one failed after all its tries, for a reason that another provider may not have

What the user has to put right (a wrong key, a wrong name, a request that is refused) is never hidden behind another
model, and an answer that was shown in part is never begun anew by another one. A model that failed rests for five
minutes, in which its fallback answers at once. Follows OpenHands V0's `openhands/llm/router`.
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
from core.llm.model_catalogue import Abilities
from core.llm.model_host_client import HostedLLM
from core.llm.retry import FailedCall
from core.llm.settings import CallSettings
from core.protocols import LLM, Complete, FrameSink, LLMRequest, LLMResponse

ROUTE_STATUS = "STATUS$LLM_ROUTE"
REST_S = 300.0
"""How long a model that failed is not asked: as long as providers ask for at most."""
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
"""What another model may not suffer from, and what is not the user's to put right in the settings."""
CHARS_PER_TOKEN = 4.0
"""Until the first answer says how many tokens its prompt was."""
FULL = 0.95
"""Of a context window; estimates are off by some."""


@dataclass(frozen=True, slots=True)
class Helpers:
    """The models beside the chosen one; those that are None or empty help out with nothing."""

    vision: LLM | None = None
    large: LLM | None = None
    fallbacks: Sequence[LLM] = ()

    def all(self) -> list[LLM]:
        """Every one of them."""
        return [llm for llm in (self.vision, self.large, *self.fallbacks) if llm is not None]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that is sent to one model after the other until one answers."""

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
        self._rests_until: dict[str, float] = {}
        """Of models that failed, by name."""
        self._told = ""

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`, by the model that can answer. `next` is the chosen one."""
        chars = _chars(request)
        first, why = await self._route(request, chars)
        self._tell(on_frame, why)
        call = _Call(request, on_frame, cause, lambda llm: next if llm is self._chosen else llm.complete)
        response = await self._first_of([first, *self._helpers.fallbacks], call)
        if response.usage.prompt_tokens and not _has_pictures(request):
            self._chars_per_token = chars / response.usage.prompt_tokens
        return response

    async def aclose(self) -> None:
        """Close the helpers."""
        for llm in self._helpers.all():
            await llm.aclose()

    async def _route(self, request: LLMRequest, chars: int) -> tuple[LLM, str]:
        """Who is to answer, and what the user is told where that is not the chosen one."""
        vision, large = self._helpers.vision, self._helpers.large
        if vision is not None and _has_pictures(request) and not (await _abilities(self._chosen)).vision:
            return vision, status_messages.NO_PICTURES.format(model=self._chosen.name, other=vision.name)
        window = (await _abilities(self._chosen)).context_window if large is not None else None
        if large is not None and window and chars / self._chars_per_token > window * FULL:
            return large, status_messages.NO_ROOM.format(model=self._chosen.name, other=large.name)
        return self._chosen, ""

    async def _first_of(self, models: Sequence[LLM], call: _Call) -> LLMResponse:
        """The answer of the first model that has one; those that failed lately are asked last."""
        now = self._clock()
        turns = sorted(models, key=lambda llm: self._rests_until.get(llm.name, now) > now)
        if turns[0] is not models[0]:
            self._tell(call.on_frame, status_messages.FAILED_BEFORE.format(model=models[0].name, other=turns[0].name))
        failures: list[str] = []
        for llm, after in zip_longest(turns, turns[1:]):
            try:
                response = await self._ask(llm, call)
            except ModelError as error:
                failures.append(f"{llm.name}: {error}")
                is_shown = isinstance(error, FailedCall) and error.shown
                if error.kind not in FAILS_OVER or is_shown or after is None:
                    if len(failures) == 1:
                        raise
                    raise ModelError(error.kind, " ".join(failures)) from error
                self._rests_until[llm.name] = self._clock() + REST_S
                self._tell(call.on_frame, status_messages.FAILED.format(model=llm.name, other=after.name, error=error))
            else:
                self._rests_until.pop(llm.name, None)
                return response
        raise AssertionError("the last model answers or raises")

    async def _ask(self, llm: LLM, call: _Call) -> LLMResponse:
        """One model's answer; the large one's where it turns out that the request does not fit."""
        large = self._helpers.large
        try:
            return await call.to(llm)
        except ModelError as error:
            if error.kind is not ModelErrorKind.CONTEXT_WINDOW or large is None or llm is large:
                raise
        self._tell(call.on_frame, status_messages.NO_ROOM.format(model=llm.name, other=large.name))
        return await call.to(large)

    def _tell(self, on_frame: FrameSink, what: str) -> None:
        """Have this said until it is otherwise, and once."""
        if what != self._told:
            self._told = what
            on_frame(Status("info", ROUTE_STATUS, what))


def helpers_of(name: str, settings: CallSettings, make: Callable[[str], LLM]) -> Helpers:
    """The models that the settings of the model `name` name as its helpers.

    Raises ConfigurationError as `make`, which makes a model by its name.
    """

    def helper(other: str, what: str) -> LLM | None:
        if not other or other == name:
            return None
        try:
            return make(other)
        except ConfigurationError as error:
            raise ConfigurationError(f"The {what} of {name} cannot be used. {error}") from error

    return Helpers(
        helper(settings.vision_model, "vision_model"),
        helper(settings.large_model, "large_model"),
        [llm for other in settings.fallbacks if (llm := helper(other, "fallback")) is not None],
    )


async def _abilities(llm: LLM) -> Abilities:
    """What is known of a model; one that plays a file sees all and has room for all."""
    return await llm.abilities() if isinstance(llm, HostedLLM) else Abilities(vision=True)


def _has_pictures(request: LLMRequest) -> bool:
    return any(
        part.get("type") == "image_url"
        for message in request.messages
        if isinstance(content := message.get("content"), list)
        for part in content
    )


def _chars(request: LLMRequest) -> int:
    """How long a request is, without its pictures."""
    total = sum(len(json.dumps(tool)) for tool in request.tools)
    for message in request.messages:
        content = message.get("content")
        texts = [content] if isinstance(content, str) else [part.get("text") for part in content or []]
        total += sum(len(text) for text in texts if text) + len(json.dumps(message.get("tool_calls", "")))
    return total
