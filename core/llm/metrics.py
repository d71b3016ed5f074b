"""The tokens and costs of a conversation: accumulated metrics, and the calls between two of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from core.events import LLMMetrics, TokenUsage
from core.protocols import LLMResponse


def add_metrics(metrics: LLMMetrics, other: LLMMetrics) -> LLMMetrics:
    """Return the sum of two conversations' metrics. Context and model stay those of the first."""
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
    """Totals of model calls."""

    count: int = 0
    cost: float | None = 0.0
    """US dollars of the calls with a known price; None if all calls have an unknown price."""
    unpriced: int = 0
    """Calls with an unknown price: the first such call of a log and all later ones, because the cost stays unknown."""
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
    """Return the metrics after one more answer.

    An unknown cost makes the total unknown: a sum without it would be too low and look exact.
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
    """Return the call between two accumulated metrics. If the totals went down, they were reset before the call."""
    old, new = before.accumulated_token_usage, after.accumulated_token_usage
    old_cost, new_cost = before.accumulated_cost, after.accumulated_cost
    is_reset = new.prompt_tokens < old.prompt_tokens or new.completion_tokens < old.completion_tokens
    if is_reset or (old_cost is not None and new_cost is not None and new_cost < old_cost):
        old, old_cost = LLMMetrics().accumulated_token_usage, 0.0
    cost = None if old_cost is None or new_cost is None else max(0.0, new_cost - old_cost)
    return Calls(
        count=1,
        cost=cost,
        unpriced=cost is None,
        prompt_tokens=max(0, new.prompt_tokens - old.prompt_tokens),
        completion_tokens=max(0, new.completion_tokens - old.completion_tokens),
        cache_read_tokens=max(0, new.cache_read_tokens - old.cache_read_tokens),
        cache_write_tokens=max(0, new.cache_write_tokens - old.cache_write_tokens),
    )
