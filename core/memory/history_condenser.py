"""How an agent condenses its history before it asks the model.

Every condensation request is answered by exactly one event, so no request is repeated automatically: if the condenser
returns nothing after the model refused the history, or the model that writes summaries fails, the older half is
forgotten; if nothing can be forgotten, the event forgets nothing. The cost of a summary is added to the conversation's
cost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from core.errors import ConfigurationError, ModelError, ModelErrorKind
from core.events import CondensationAction, Envelope, Frame, LLMMetrics, TokenDelta
from core.llm.metrics import add_metrics, add_response
from core.llm.registry import DEMO, RERUN, LLMRegistry, NamedModels, model_for
from core.llm.settings import LLMSettings
from core.memory.condensers.condenser import Condenser, CondenserPipeline, NoSummaryError, context_limit
from core.memory.condensers.history_cut import NO_CUT, CondensationTask, cut_older_half
from core.memory.context_events import ContextLimit, Scale, size_of
from core.memory.view import View
from core.protocols import LLM, FrameSink, LLMRequest, LLMResponse
from core.settings.sections import CondenserSettings

log = logging.getLogger(__name__)

NOTE_CHARS = 300

MakeLLM = Callable[[], Awaitable[LLM]]
"""Creates the model that writes summaries. Raises ConfigurationError."""


class HistoryCondenser:
    """Condenses the history of one agent.

    Summaries are written by the model of `make_llm`, else by `llm`; by none if both are None.
    """

    def __init__(
        self, condenser: Condenser | None = None, limit: ContextLimit | None = None, *, llm: LLM | None = None,
        make_llm: MakeLLM | None = None,
    ) -> None:  # fmt: skip
        self._condenser = condenser or Condenser()
        self._limit = limit or ContextLimit()
        self._llm = llm
        self._make_llm = make_llm

    def visible_events(self, view: View) -> Sequence[Envelope]:
        """Return the events of a view as the model sees them."""
        return self._condenser.visible_events(view.events)

    def token_limit(self, metrics: LLMMetrics) -> int | None:
        """Return how many tokens a prompt may have, or None for no limit."""
        return self._limit.tokens(metrics.accumulated_token_usage.context_window)

    async def condense(
        self, view: View, metrics: LLMMetrics, on_frame: FrameSink, cause: int, *, overhead: int = 0
    ) -> CondensationAction:
        """Answer the view's condensation request. `overhead` estimates the tokens of instructions and tools.

        Errors of the model do not raise. Cancelling cancels the model call.
        """
        assert view.request is not None
        calls = _SummaryCalls(self._llm, self._make_llm, metrics, on_frame, cause)
        events, limit = self.visible_events(view), self.token_limit(metrics)
        await asyncio.sleep(0)  # sizing a long history takes time; other tasks run in between
        scale = Scale.of(metrics.accumulated_token_usage.per_turn_token, overhead + _size_until_answer(events, limit))
        await asyncio.sleep(0)
        left = None if limit is None else max(limit - scale(overhead), limit // 4)
        task = CondensationTask(events, view.request, calls.ask if calls else None, left, scale)
        try:
            action = await self._condenser.condense(task)
            if action is None:
                action = (cut_older_half(task) if view.request.why == "overflow" else NO_CUT).action()
        except NoSummaryError as error:
            log.warning("no summary: %s", error)
            action = cut_older_half(task).action(note=str(error)[:NOTE_CHARS])
        return action.model_copy(update={"llm_metrics": calls.metrics})


class _SummaryCalls:
    """The model calls of one condensation, and what they cost."""

    def __init__(
        self, llm: LLM | None, make_llm: MakeLLM | None, metrics: LLMMetrics, on_frame: FrameSink, cause: int
    ) -> None:
        self._llm = llm
        self._make_llm = make_llm
        self._on_frame = on_frame
        self._cause = cause
        self.metrics = metrics

    def __bool__(self) -> bool:
        return self._llm is not None or self._make_llm is not None

    async def ask(self, request: LLMRequest) -> LLMResponse:
        """Call the model once. Raises ModelError."""
        if self._make_llm is None:
            assert self._llm is not None
            return await self._call(self._llm, request)
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
        """Drop the text of the summary, which is not an answer to the user."""
        if not isinstance(frame, TokenDelta):
            self._on_frame(frame)


def _size_until_answer(events: Sequence[Envelope], limit: int | None) -> int:
    """Estimate the tokens up to the newest answer, which are those that the provider counted last."""
    newest = next((at for at in range(len(events) - 1, -1, -1) if events[at].event.llm_metrics is not None), -1)
    return sum(size_of(envelope.event, limit) for envelope in events[: newest + 1])


def condenser_maker(
    llms: LLMRegistry, workspace: str, settings: CondenserSettings, llm_settings: LLMSettings, models: NamedModels
) -> Callable[[LLM], HistoryCondenser]:
    """Return a function that makes the condenser of a conversation in this folder for the model of its agent.

    The model of the settings writes the summaries, or else that of the agent. A scripted model is only asked if the
    settings name it, because it would play its next turn.
    """
    name = model_for("summary", "", llm_settings)
    condenser, limit = CondenserPipeline(settings), context_limit(settings)

    async def make_llm() -> LLM:
        return await asyncio.to_thread(llms.create, name, workspace, llm_settings, models)

    def make(llm: LLM) -> HistoryCondenser:
        if name and name != llm.name:
            return HistoryCondenser(condenser, limit, make_llm=make_llm)
        named = models.get(llm.name)
        is_scripted = (named.model if named is not None else llm.name).startswith((DEMO, RERUN, "scripted:"))
        return HistoryCondenser(condenser, limit, llm=None if is_scripted and not name else llm)

    return make
