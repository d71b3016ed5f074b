"""What the sessions of other agents cost: prices for those that do not say, and sums for people.

Many agents store tokens and no cost. Then the cost is computed from litellm's table of prices, which is read from its
file: importing litellm takes a second. A model that the table lacks has no price, and its cost stays unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from core.import_export.agents.transcript import Transcript
from core.library.records import Record

_TABLE = "model_prices_and_context_window_backup.json"
_PREFIXES = ("", "gemini/", "openai/", "anthropic/", "xai/", "deepseek/", "mistral/")
_PROMPT, _COMPLETION = "input_cost_per_token", "output_cost_per_token"
_READ, _WRITE = "cache_read_input_token_cost", "cache_creation_input_token_cost"
UNKNOWN = "unknown"


def add_costs(transcript: Transcript) -> None:
    """Add the cost to every event that has tokens of a model with a known price and no cost."""
    for form in transcript.forms:
        metrics = form.get("llm_metrics")
        if isinstance(metrics, dict) and metrics.get("accumulated_cost") is None:
            metrics["accumulated_cost"] = _price(metrics.get("accumulated_token_usage") or {})
    if transcript.usage.cost is None:
        spent = transcript.usage
        tokens = {"model": spent.model, "prompt_tokens": spent.prompt, "completion_tokens": spent.completion}
        cached = {"cache_read_tokens": spent.cache_read, "cache_write_tokens": spent.cache_write}
        transcript.usage = replace(spent, cost=_price({**tokens, **cached}))


def _price(usage: Mapping[str, Any]) -> float | None:
    entry = _entry(str(usage.get("model") or ""))
    if entry is None:
        return None
    read, write = usage.get("cache_read_tokens", 0), usage.get("cache_write_tokens", 0)
    plain = max(0, usage.get("prompt_tokens", 0) - read - write)
    prompt, completion = entry[_PROMPT], entry[_COMPLETION]
    cached = read * entry.get(_READ, prompt) + write * entry.get(_WRITE, prompt)
    return float(plain * prompt + cached + usage.get("completion_tokens", 0) * completion)


@cache
def _entry(model: str) -> Mapping[str, float] | None:
    """The prices of a model in US dollars a token; None if they are unknown."""
    for prefix in _PREFIXES if model else ():
        entry = _prices().get(prefix + model)
        if isinstance(entry, dict) and all(isinstance(entry.get(key), int | float) for key in (_PROMPT, _COMPLETION)):
            return {key: value for key, value in entry.items() if isinstance(value, int | float)}
    return None


@cache
def _prices() -> Mapping[str, Any]:
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        try:
            table = json.loads(Path(folder, _TABLE).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(table, dict):
            return table
    return {}


@dataclass(frozen=True, slots=True)
class Total:
    """The sum over some sessions."""

    sessions: int = 0
    tokens: int = 0
    cost: float = 0.0
    """US dollars, without the sessions of unknown cost."""
    unpriced: int = 0
    """Sessions with tokens whose cost is unknown."""

    def plus(self, record: Record) -> Total:
        is_unpriced = record.cost is None and record.tokens > 0
        cost = self.cost + (record.cost or 0.0)
        return Total(self.sessions + 1, self.tokens + record.tokens, cost, self.unpriced + is_unpriced)


def totals(records: Iterable[Record], name: Callable[[Record], str]) -> dict[str, Total]:
    """The totals of the sessions with the same name, the most expensive first."""
    found: dict[str, Total] = {}
    for record in records:
        key = name(record) or UNKNOWN
        found[key] = found.get(key, Total()).plus(record)
    return dict(sorted(found.items(), key=lambda each: (-each[1].cost, -each[1].tokens, each[0])))


def day_of(record: Record) -> str:
    """The day (UTC) on which a session was last active."""
    at = record.session.updated_at
    return at.date().isoformat() if at is not None else ""
