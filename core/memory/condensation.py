"""Condensing: what an agent does with its history before it asks the model.

It shows the view as the condenser shows it, and makes the one event that answers a wish for a shorter history. That
always is an answer: where the condenser has none, or the model that sums up fails, the older half goes, and where there
is nothing to forget, nothing is forgotten. So a wish never comes back by itself. What a summary costs is added to what
the conversation has spent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import CondensationAction, Envelope, Frame, LLMMetrics, TokenDelta
from core.llm.metrics import add_metrics, add_response
from core.memory.condensers.base import Condenser, NoSummaryError, Work, forgetting
from core.memory.condensers.rule_condensers import half_forgotten
from core.memory.context_events import size_of
from core.memory.token_estimate import Room, Scale
from core.memory.view import View
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse

log = logging.getLogger(__name__)

NOTE_CHARS = 300

MakeLLM = Callable[[], Awaitable[LLM]]
"""Makes the model that sums up. Raises ConfigurationError."""


class Condensing:
    """Of one agent. `own` is the model that sums up where `make_llm` makes no other; None for nobody."""

    def __init__(
        self, condenser: Condenser | None = None, room: Room | None = None, *, own: LLM | None = None,
        make_llm: MakeLLM | None = None,
    ) -> None:  # fmt: skip
        self._condenser = condenser or Condenser()
        self._room = room or Room()
        self._own = own
        self._make_llm = make_llm

    def shown(self, view: View) -> Sequence[Envelope]:
        """The events of a view as the model is shown them."""
        return self._condenser.shown(view.events)

    def room(self, metrics: LLMMetrics) -> int | None:
        """Tokens that a prompt may have; None where there is no bound."""
        return self._room.tokens(metrics.accumulated_token_usage.context_window)

    async def condense(
        self, view: View, metrics: LLMMetrics, on_frame: FrameSink, cause: int, *, overhead: int = 0
    ) -> CondensationAction:
        """The answer to the wish of a view. `overhead` is an estimate of the tokens of instructions and tools.

        Does not raise what a model does wrong. Cancelling cancels the call of the model.
        """
        assert view.request is not None
        asking = _Asking(self._own, self._make_llm, metrics, on_frame, cause)
        events, room = self.shown(view), self.room(metrics)
        await asyncio.sleep(0)  # a long history takes its time, and others have theirs between
        scale = Scale.of(metrics.accumulated_token_usage.per_turn_token, overhead + _size_until_answer(events, room))
        await asyncio.sleep(0)
        left = None if room is None else max(room - scale(overhead), room // 4)
        work = Work(events, view.request, asking.ask if asking else None, left, scale)
        try:
            action = await self._condenser.condense(work)
            if action is None:
                action = half_forgotten(work) if view.request.why == "overflow" else forgetting([])
        except NoSummaryError as error:
            log.warning("there is no summary: %s", error)
            action = half_forgotten(work, note=str(error)[:NOTE_CHARS])
        return action.model_copy(update={"llm_metrics": asking.metrics})


class _Asking:
    """Asks the model that sums up, and adds up what it costs."""

    def __init__(
        self, own: LLM | None, make_llm: MakeLLM | None, metrics: LLMMetrics, on_frame: FrameSink, cause: int
    ) -> None:
        self._own = own
        self._make_llm = make_llm
        self._on_frame = on_frame
        self._cause = cause
        self.metrics = metrics

    def __bool__(self) -> bool:
        return self._own is not None or self._make_llm is not None

    async def ask(self, request: LLMRequest) -> LLMResponse:
        """One call. Raises ModelError."""
        if self._make_llm is None:
            assert self._own is not None
            return await self._call(self._own, request)
        try:
            llm = await self._make_llm()
        except ConfigurationError as error:
            raise ModelError(ModelErrorKind.NOT_FOUND, str(error)) from error
        try:
            return await self._call(llm, request)
        finally:
            await llm.aclose()

    async def _call(self, llm: LLM, request: LLMRequest) -> LLMResponse:
        response = await llm.complete(request, self._show, self._cause)
        self.metrics = add_metrics(self.metrics, add_response(LLMMetrics(accumulated_cost=0.0), response))
        return response

    def _show(self, frame: Frame) -> None:
        """A summary is no answer to the user, so nobody watches it being written."""
        if not isinstance(frame, TokenDelta):
            self._on_frame(frame)


def _size_until_answer(events: Sequence[Envelope], room: int | None) -> int:
    """The estimate of what the provider has counted last: everything up to the newest answer."""
    newest = next((at for at in range(len(events) - 1, -1, -1) if events[at].event.llm_metrics is not None), -1)
    return sum(size_of(envelope.event, room) for envelope in events[: newest + 1])
