"""How full the context of the model is: a sum over events, so that it is the same after a fold.

What the provider reported for the last answer counts for all events before it; only later events are estimated. Pure, a
part of the decisions (`decide`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.controller.state import State
from core.events import CondensationAction, Envelope, Event, LLMMetrics, Observation, SystemMessageAction
from core.memory.context_events import (
    MAX_OBSERVATION_CHARS,
    MESSAGE_TOKENS,
    is_seen,
    json_size,
    result_tokens,
    size_of,
    tokens_of,
)


def count_event(s: State, event: Event) -> dict[str, Any]:
    """The changed fields of the state after one more visible event. For callers that replace the state anyway."""
    if not is_seen(event):
        return {}
    size = _size(event, _token_limit(s))
    return {"view_events": s.view_events + 1, "view_tokens": s.view_tokens + size}


def with_event(before: State, after: State, env: Envelope) -> State:
    """The state with this event counted, if it was not yet."""
    if after.view_events != before.view_events or not (fields := count_event(after, env.event)):
        return after
    return replace(after, **fields)


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


def is_full(s: State) -> bool:
    """Whether the history is to be condensed before the next model call."""
    limit, max_tokens = s.limits.context, _token_limit(s)
    if s.condensed or s.first_message_id is None:
        return False
    too_many = limit.max_events is not None and s.view_events > limit.max_events
    return too_many or (max_tokens is not None and s.view_tokens > max_tokens)


def _token_limit(s: State) -> int | None:
    return s.limits.context.tokens(s.metrics.accumulated_token_usage.context_window)
