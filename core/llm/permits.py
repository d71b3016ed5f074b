"""Permits: how many calls of one model may run at once, so that its provider's rate limit is met and not fought.

A call that meets the limit halves the number of permits, and each answer adds one. Calls that began before it was
halved do not halve it again. A call that meets the limit waits and is made again, for as long as it takes: others use
the permits meanwhile, and nothing fails because a provider is busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from random import Random
from types import TracebackType

from core import status_messages
from core.errors import ModelError, ModelErrorKind
from core.events import Status
from core.protocols import Complete, FrameSink, LLMRequest, LLMResponse

WAIT_S = 2.0
MAX_WAIT_S = 60.0
BUSY = "The provider of {model} is busy. Asking again in {seconds} s, with {permits} calls at once."


class Permits(AbstractAsyncContextManager["Permits"]):
    """The permits of one model. A context manager that holds one."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = most
        """How many calls may run at once now; at least 1."""
        self.rounds = 0
        """How often it was halved."""
        self._in_use = 0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Permits:
        async with self._changed:
            await self._changed.wait_for(lambda: self._in_use < self.limit)
            self._in_use += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._changed:
            self._in_use -= 1
            self._changed.notify_all()

    def limited(self, began_in: int) -> None:
        """A call that began in this round has met the provider's limit."""
        if began_in == self.rounds:
            self.limit, self.rounds = max(1, self.limit // 2), self.rounds + 1

    def answered(self) -> None:
        """A call was answered."""
        self.limit = min(self.most, self.limit + 1)


class KeepPermits:
    """A step of a model call: it holds a permit, and asks again when the provider is busy."""

    def __init__(
        self,
        permits: Permits,
        model: str,
        *,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._permits, self._model, self._sleep = permits, model, sleep
        self._random = random or Random()  # noqa: S311  # spreads calls; guards nothing

    async def complete(self, request: LLMRequest, on_frame: FrameSink, cause: int, next: Complete) -> LLMResponse:
        """As `LLM.complete`. Raises ModelError, but never because of a rate limit."""
        waited, permits = 0, self._permits
        try:
            while True:
                async with permits:
                    began_in = permits.rounds
                    try:
                        response = await next(request, on_frame, cause)
                    except ModelError as error:
                        if error.kind is not ModelErrorKind.RATE_LIMIT:
                            raise
                        permits.limited(began_in)
                    else:
                        permits.answered()
                        return response
                wait_s = min(MAX_WAIT_S, WAIT_S * 2**waited) * self._random.uniform(0.5, 1.5)
                text = BUSY.format(model=self._model, seconds=f"{wait_s:.0f}", permits=permits.limit)
                on_frame(Status("info", status_messages.RETRY_STATUS, text))
                waited += 1
                await self._sleep(wait_s)
        finally:
            if waited:
                on_frame(Status("info", status_messages.RETRY_STATUS, ""))
