"""What a conversation has spent on models: sums that an answer adds to. Pure."""

from __future__ import annotations

from core.events import LLMMetrics, TokenUsage
from core.ports import LLMResponse


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
    )
    cost = (metrics.accumulated_cost or 0.0) + (response.cost or 0.0) if known else None
    return metrics.model_copy(update={"accumulated_cost": cost, "accumulated_token_usage": total})
