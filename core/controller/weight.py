"""How full the model's context is, as the controller knows it: a sum over events, so that it is the same after a fold.

What the provider said of the last answer counts for all before it; only what came since is estimated. Pure, a part of
the decisions (`decide`).
"""

from __future__ import annotations

from dataclasses import replace

from core.controller.state import State
from core.events import CondensationAction, Envelope, LLMMetrics, SystemMessageAction
from core.memory.seen import is_seen, json_size, size_of


def weighed(s: State, env: Envelope) -> State:
    """The state with one more event in view."""
    if not is_seen(env.event):
        return s
    size = size_of(env.event, _room(s))
    if isinstance(env.event, SystemMessageAction):
        size += json_size(env.event.tools or [])
    return replace(s, view_events=s.view_events + 1, view_tokens=s.view_tokens + size)


def told(s: State, metrics: LLMMetrics | None) -> State:
    """The state after an answer whose provider may have said how large prompt and answer were."""
    used = metrics.accumulated_token_usage.per_turn_token if metrics is not None else 0
    return replace(s, view_tokens=used) if used > 0 else s


def condensed(s: State, action: CondensationAction) -> State:
    """The state after some were forgotten: the tokens of those that are left by their share, until the next answer."""
    left = max(0, s.view_events - len(action.forgotten))
    tokens = s.view_tokens * left // max(1, s.view_events)
    return replace(s, view_events=left, view_tokens=tokens)


def is_full(s: State) -> bool:
    """Whether the history is to be condensed before the next call of the model."""
    room, most = s.limits.room, _room(s)
    if s.condensed or s.first_said is None:
        return False
    too_many = room.max_events is not None and s.view_events > room.max_events
    return too_many or (most is not None and s.view_tokens > most)


def _room(s: State) -> int | None:
    return s.limits.room.tokens(s.metrics.accumulated_token_usage.context_window)
