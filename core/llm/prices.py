"""What an answer costs: from the prices that the user gives a model, and litellm's entry for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MILLION = 1_000_000


def price_of(table: Mapping[str, Any], model: str) -> dict[str, Any] | None:
    """What litellm's table says about a model; None where it has no entry, or one for another provider's."""
    prefix, _, name = model.partition("/")
    for key in (model, name):
        entry = table.get(key)
        if isinstance(entry, dict) and str(entry.get("litellm_provider", "")).startswith(prefix):
            return entry
    return None


def is_priced(facts: Mapping[str, Any]) -> bool:
    """Whether the user gave a model its prices, see `settings.ModelFacts`."""
    return facts["price_in"] is not None and facts["price_out"] is not None


def cost_of(counts: Mapping[str, int], facts: Mapping[str, Any]) -> float:
    """US dollars by the user's prices. What was read from a cache or written to it is a part of the prompt."""
    read, write = counts["cache_read_tokens"], counts["cache_write_tokens"]
    plain = max(0, counts["prompt_tokens"] - read - write)
    price_in = facts["price_in"]
    read_price, write_price = facts["price_cache_read"], facts["price_cache_write"]
    total = (
        plain * price_in
        + read * (price_in if read_price is None else read_price)
        + write * (price_in if write_price is None else write_price)
        + counts["completion_tokens"] * facts["price_out"]
    )
    return float(total / _MILLION)
