"""Which limit the next model call would exceed, how an extension moves it, and how full the model's context is. Pure.

Limits are checked before each call. The cost of a call is estimated from the last one, because it sends at least the
same prompt again. A budget cannot be checked for a model without a known price; that is a limit too.

How full the context is, is a sum over events, so that it is the same after a fold. What the provider reported for the
last answer counts for all events before it; only later events are estimated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime

from core.controller.state import Limits, State
from core.events import CondensationAction, Event, LLMMetrics, Observation, SystemMessageAction
from core.memory.context_events import (
    MAX_OBSERVATION_CHARS,
    MESSAGE_TOKENS,
    is_seen,
    json_size,
    result_tokens,
    size_of,
    tokens_of,
)
from core.store.writer import Spent

UNPRICED = "unpriced"
"""The limit that is reached if there is a budget and the price of the model is unknown."""
DAY = "day_"
"""Start of the names of daily limits."""


@dataclass(frozen=True, slots=True)
class ReachedLimit:
    """A limit that the next call would exceed: its name, and the text for the user."""

    name: str
    text: str


def limit_reached(s: State, now: datetime) -> ReachedLimit | None:
    """The limit of the conversation that the next call would exceed."""
    allowed = s.allowed
    if allowed.max_iterations is not None and s.iteration >= allowed.max_iterations:
        text = f"Agent reached maximum iteration. Current iteration: {s.iteration}, max iteration: "
        return ReachedLimit("iterations", text + str(allowed.max_iterations))
    if allowed.max_budget is not None:
        cost = s.metrics.accumulated_cost
        if cost is None:
            return ReachedLimit(UNPRICED, _unpriced(allowed.max_budget))
        if cost + s.last_cost > allowed.max_budget or cost >= allowed.max_budget:
            text = (
                "Agent reached maximum budget for conversation."
                f"Current budget: {cost:.2f}, max budget: {allowed.max_budget:.2f}"
            )
            return ReachedLimit("budget", text + _expected(f"${s.last_cost:.2f}", cost < allowed.max_budget))
    tokens, next_tokens = s.tokens, s.metrics.accumulated_token_usage.per_turn_token
    if allowed.max_tokens is not None and tokens and tokens + next_tokens > allowed.max_tokens:
        text = f"The limit of {allowed.max_tokens:,} tokens is reached: {tokens:,} are used"
        return ReachedLimit("tokens", text + _expected(f"{next_tokens:,}", tokens < allowed.max_tokens))
    if allowed.max_seconds is not None and s.worked_at(now) >= allowed.max_seconds:
        text = f"The agent has worked for {s.worked_at(now):.0f} s; the limit is {allowed.max_seconds:.0f} s."
        return ReachedLimit("time", text)
    return None


def daily_limit_reached(s: State, day: Limits, spent: Spent, today: date) -> ReachedLimit | None:
    """The daily limit, for all conversations together, that the next call would exceed."""
    times = 1 + _extensions(s, today)
    for name, used, expected, limit in (
        ("iterations", spent.calls, 1, day.max_iterations),
        ("budget", spent.cost, s.last_cost, day.max_budget),
        ("tokens", spent.tokens, s.metrics.accumulated_token_usage.per_turn_token, day.max_tokens),
        ("time", spent.seconds, 0.0, day.max_seconds),
    ):
        if limit is not None and (used >= limit * times or used + expected > limit * times):
            return ReachedLimit(DAY + name, f"Today's limit of {_amount(name, limit * times)} is reached: all "
                           f"conversations together have used {_amount(name, used)}.")  # fmt: skip
    if day.max_budget is not None and s.metrics.accumulated_cost is None and times == 1:
        return ReachedLimit(DAY + UNPRICED, _unpriced(day.max_budget))
    return None


def extend_limit(s: State, name: str, today: date) -> State:
    """The state with this limit extended by its amount, and at least beyond the next call."""
    allowed, limits = s.allowed, s.limits
    usage = s.metrics.accumulated_token_usage
    if name.startswith(DAY):
        return replace(s, daily_extensions=(today, _extensions(s, today) + 1))
    match name:
        case "iterations":
            allowed = replace(allowed, max_iterations=s.iteration + (limits.max_iterations or 1))
        case "budget":
            spent = s.metrics.accumulated_cost or 0.0
            allowed = replace(allowed, max_budget=spent + max(limits.max_budget or 0.0, 2 * s.last_cost))
        case "tokens":
            allowed = replace(allowed, max_tokens=s.tokens + max(limits.max_tokens or 0, 2 * usage.per_turn_token))
        case "time":
            allowed = replace(allowed, max_seconds=s.worked_s + (limits.max_seconds or 0.0))
        case "unpriced":
            allowed = replace(allowed, max_budget=None)
    return replace(s, allowed=allowed)


def _extensions(s: State, today: date) -> int:
    """How often the limits of this day were extended."""
    return s.daily_extensions[1] if s.daily_extensions is not None and s.daily_extensions[0] == today else 0


def _unpriced(budget: float) -> str:
    return f"The price of this model is not known, so the budget of ${budget:.2f} cannot be watched."


def _expected(amount: str, matters: bool) -> str:
    return f"; the next call is expected to take {amount}" if matters else ""


def _amount(name: str, value: float) -> str:
    match name:
        case "budget":
            return f"${value:.2f}"
        case "time":
            return f"{value:.0f} s"
        case "iterations":
            return f"{value:,.0f} answers"
    return f"{value:,.0f} {name}"


def count_event(s: State, event: Event) -> State:
    """The state with one more event, if the model sees it."""
    if not is_seen(event):
        return s
    return replace(s, view_events=s.view_events + 1, view_tokens=s.view_tokens + _size(event, _token_limit(s)))


def _size(event: Event, token_limit: int | None) -> int:
    """As `size_of`, but fast: opening a long conversation asks for each of its events."""
    if isinstance(event, Observation):
        size = MESSAGE_TOKENS + tokens_of(event.content[:MAX_OBSERVATION_CHARS])
        max_size = result_tokens(event, token_limit)
        return size if max_size is None else min(size, max_size)
    size = size_of(event, token_limit)
    return size + json_size(event.tools or []) if isinstance(event, SystemMessageAction) else size


def with_reported_usage(s: State, metrics: LLMMetrics | None) -> State:
    """The state after an answer whose provider may have reported the size of prompt and answer."""
    used = metrics.accumulated_token_usage.per_turn_token if metrics is not None else 0
    return replace(s, view_tokens=used) if used > 0 else s


def with_condensation(s: State, action: CondensationAction) -> State:
    """The state after events were forgotten: a proportional share of the tokens remains, until the next answer."""
    left = max(0, s.view_events - len(action.forgotten))
    tokens = s.view_tokens * left // max(1, s.view_events)
    return replace(s, view_events=left, view_tokens=tokens)


def is_context_full(s: State) -> bool:
    """Whether the history is to be condensed before the next model call."""
    limit, max_tokens = s.limits.context, _token_limit(s)
    if s.condensed or s.first_message_id is None:
        return False
    too_many = limit.max_events is not None and s.view_events > limit.max_events
    return too_many or (max_tokens is not None and s.view_tokens > max_tokens)


def _token_limit(s: State) -> int | None:
    return s.limits.context.tokens(s.metrics.accumulated_token_usage.context_window)
