"""What a conversation has spent on models: running sums, and the calls between two sums. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from core.events import LLMMetrics, TokenUsage
from core.protocols import LLMResponse


def add_metrics(metrics: LLMMetrics, other: LLMMetrics) -> LLMMetrics:
    """What two conversations have spent together; the context and the model stay those of the first."""
    one, two = metrics.accumulated_token_usage, other.accumulated_token_usage
    total = one.model_copy(update={
        "prompt_tokens": one.prompt_tokens + two.prompt_tokens,
        "completion_tokens": one.completion_tokens + two.completion_tokens,
        "cache_read_tokens": one.cache_read_tokens + two.cache_read_tokens,
        "cache_write_tokens": one.cache_write_tokens + two.cache_write_tokens,
    })  # fmt: skip
    known = metrics.accumulated_cost is not None and other.accumulated_cost is not None
    cost = (metrics.accumulated_cost or 0.0) + (other.accumulated_cost or 0.0) if known else None
    return metrics.model_copy(update={"accumulated_cost": cost, "accumulated_token_usage": total})


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of models, summed."""

    count: int = 0
    cost: float | None = 0.0
    """US dollars of the calls whose price is known; None where there were calls and no price is known."""
    unpriced: int = 0
    """Calls whose price is not known: the first such call of a log and, as its sums say no more, all after it."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Calls) -> Calls:
        count, unpriced = self.count + other.count, self.unpriced + other.unpriced
        return Calls(
            count=count,
            cost=None if count and count == unpriced else (self.cost or 0.0) + (other.cost or 0.0),
            unpriced=unpriced,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


def add_response(metrics: LLMMetrics, response: LLMResponse) -> LLMMetrics:
    """The metrics after one more answer.

    A cost that is unknown once stays unknown: a sum without it would be too low and look exact.
    """
    before, usage = metrics.accumulated_token_usage, response.usage
    known = metrics.accumulated_cost is not None and response.cost is not None
    total = TokenUsage(
        model=usage.model or before.model,
        prompt_tokens=before.prompt_tokens + usage.prompt_tokens,
        completion_tokens=before.completion_tokens + usage.completion_tokens,
        cache_read_tokens=before.cache_read_tokens + usage.cache_read_tokens,
        cache_write_tokens=before.cache_write_tokens + usage.cache_write_tokens,
        context_window=usage.context_window or before.context_window,
        per_turn_token=usage.prompt_tokens + usage.completion_tokens,
        response_id=usage.response_id or response.id,
        **({"is_estimated": True} if usage.is_estimated or before.is_estimated else {}),
    )
    cost = (metrics.accumulated_cost or 0.0) + (response.cost or 0.0) if known else None
    return metrics.model_copy(update={"accumulated_cost": cost, "accumulated_token_usage": total})


def calls_between(before: LLMMetrics, after: LLMMetrics) -> Calls:
    """The one call that led from sums to sums. Sums that went down were begun anew, so they are the call's own."""
    old, new = before.accumulated_token_usage, after.accumulated_token_usage
    was, now = before.accumulated_cost, after.accumulated_cost
    anew = new.prompt_tokens < old.prompt_tokens or new.completion_tokens < old.completion_tokens
    if anew or (was is not None and now is not None and now < was):
        old, was = LLMMetrics().accumulated_token_usage, 0.0
    cost = None if was is None or now is None else max(0.0, now - was)
    return Calls(
        count=1,
        cost=cost,
        unpriced=cost is None,
        prompt_tokens=max(0, new.prompt_tokens - old.prompt_tokens),
        completion_tokens=max(0, new.completion_tokens - old.completion_tokens),
        cache_read_tokens=max(0, new.cache_read_tokens - old.cache_read_tokens),
        cache_write_tokens=max(0, new.cache_write_tokens - old.cache_write_tokens),
    )
