"""What a conversation took, in the protocol's words. Pure."""

from __future__ import annotations

from acp.schema import Cost, Usage, UsageUpdate

from core.events import LLMMetrics, TokenUsage


def usage_update(metrics: LLMMetrics) -> UsageUpdate | None:
    """How much of the model's context is in use, and what all cost; None where the context's size is not known."""
    usage = metrics.accumulated_token_usage
    if usage.context_window <= 0:
        return None
    cost = metrics.accumulated_cost
    return UsageUpdate(
        session_update="usage_update",
        used=min(usage.per_turn_token, usage.context_window),
        size=usage.context_window,
        cost=None if cost is None else Cost(amount=cost, currency="USD"),
    )


def usage_between(before: TokenUsage, after: TokenUsage) -> Usage | None:
    """What one prompt took; None where its model counts nothing."""
    read = after.prompt_tokens - before.prompt_tokens
    written = after.completion_tokens - before.completion_tokens
    if read <= 0 and written <= 0:
        return None
    return Usage(
        total_tokens=read + written,
        input_tokens=read,
        output_tokens=written,
        cached_read_tokens=after.cache_read_tokens - before.cache_read_tokens,
        cached_write_tokens=after.cache_write_tokens - before.cache_write_tokens,
    )
