"""The metrics of a conversation."""

from __future__ import annotations

from dataclasses import replace

from core.events import LLMMetrics, TokenUsage
from core.llm.metrics import add_response
from core.protocols import LLMResponse


def response(cost: float | None, prompt: int = 10, window: int = 0) -> LLMResponse:
    usage = TokenUsage(
        model="a/b", prompt_tokens=prompt, completion_tokens=5, cache_read_tokens=3, context_window=window
    )
    return LLMResponse("r1", "text", (), usage, cost)


def test_totals_add_up_and_the_latest_call_is_kept_separately() -> None:
    metrics = add_response(add_response(LLMMetrics(), response(0.25, window=1000)), response(0.5, prompt=100))
    assert metrics == LLMMetrics(
        accumulated_cost=0.75,
        accumulated_token_usage=TokenUsage(
            model="a/b",
            prompt_tokens=110,
            completion_tokens=10,
            cache_read_tokens=6,
            context_window=1000,
            per_turn_token=105,
            response_id="r1",
        ),
    )


def test_unknown_cost_makes_the_total_unknown() -> None:
    metrics = add_response(add_response(LLMMetrics(), response(None)), response(0.5))
    assert metrics.accumulated_cost is None


def test_estimate_makes_the_total_an_estimate() -> None:
    counted, made_out = response(0.5), response(0.5)
    usage = TokenUsage.model_validate({**made_out.usage.model_dump(), "is_estimated": True})
    metrics = add_response(add_response(LLMMetrics(), replace(made_out, usage=usage)), counted)
    again = LLMMetrics.model_validate_json(metrics.model_dump_json())
    assert again.accumulated_token_usage.is_estimated, "in a log, too"
    assert not add_response(LLMMetrics(), counted).accumulated_token_usage.is_estimated


def test_limits_are_enforced() -> None:
    assert add_response(LLMMetrics(max_budget_per_task=3.0), response(1.0)).max_budget_per_task == 3.0
