"""Which part of a history a condensation forgets. Pure.

A cut never separates a tool call from its result, and never removes the instructions, the user's first message with
the answer of the recall, or the user's newest message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from core.events import (
    Action,
    AgentCondensationObservation,
    CondensationAction,
    CondensationRequestAction,
    Envelope,
    Event,
    EventSource,
    MessageAction,
    Observation,
    RecallAction,
    SystemMessageAction,
)
from core.memory.context_events import Scale, is_seen, size_of
from core.protocols import LLMRequest, LLMResponse

Ask = Callable[[LLMRequest], Awaitable[LLMResponse]]
"""Calls the model that writes summaries. Raises ModelError; cancelling cancels the call."""


@dataclass(frozen=True, slots=True)
class CondensationTask:
    """One requested condensation."""

    events: Sequence[Envelope]
    """The events that the model sees, including the newest summary."""
    request: CondensationRequestAction
    """Says who asked for the condensation, and what to keep."""
    ask: Ask | None = None
    """None if no model can write a summary."""
    token_limit: int | None = None
    """Tokens that all messages may take; None if unknown."""
    scale: Scale = Scale()  # noqa: RUF009  # frozen

    def sizes(self) -> list[int]:
        """The tokens of each event, corrected by what the provider counted."""
        return [self.scale(size_of(envelope.event, self.token_limit)) for envelope in self.events]


@dataclass(frozen=True, slots=True)
class Cut:
    """The events that a condensation forgets, and the place of their summary."""

    forgotten: Sequence[Envelope]
    offset: int
    """The index of the summary in the remaining view."""

    def action(self, summary: str | None = None, note: str = "") -> CondensationAction:
        """Return the condensation as an event. Consecutive ids are stored as a range."""
        ids = [envelope.id for envelope in self.forgotten]
        offset = self.offset if summary is not None else None
        if ids and ids[-1] - ids[0] == len(ids) - 1:
            return CondensationAction(
                forgotten_events_start_id=ids[0], forgotten_events_end_id=ids[-1],
                summary=summary, summary_offset=offset, note=note,
            )  # fmt: skip
        return CondensationAction(forgotten_event_ids=ids, summary=summary, summary_offset=offset, note=note)


NO_CUT = Cut((), 0)


def seen_count(events: Sequence[Envelope]) -> int:
    """Return how many of the events the model sees."""
    return sum(is_seen(envelope.event) for envelope in events)


def is_summary(envelope: Envelope) -> bool:
    """Return whether this is a summary, which is not an event of the log."""
    return isinstance(envelope.event, AgentCondensationObservation)


def protected_ids(events: Sequence[Envelope]) -> set[int]:
    """Return the ids of the events that are never forgotten; the module's docstring lists them."""
    kept = {e.id for e in events if isinstance(e.event, SystemMessageAction)}
    messages = [e.id for e in events if isinstance(e.event, MessageAction) and e.source is EventSource.USER]
    if not messages:
        return kept
    recalls = {e.id for e in events if isinstance(e.event, RecallAction) and e.cause == messages[0]}
    answers = {e.id for e in events if isinstance(e.event, Observation) and e.cause in recalls}
    return kept | {messages[0], messages[-1]} | recalls | answers


def cut_points(events: Sequence[Envelope]) -> list[int]:
    """Return, in order, every index from 0 to the number of events at which a cut separates no call and result."""
    first: dict[object, int] = {}
    reach = list(range(len(events)))
    """The index of the first event that each event belongs to."""
    for at, envelope in enumerate(events):
        if isinstance(envelope.event, Observation) and envelope.cause is not None:
            reach[at] = first.get(envelope.cause, at)
        elif (response := _response_id(envelope.event)) is not None:
            reach[at] = first.setdefault(("response", response), at)
        if not is_summary(envelope):
            first.setdefault(envelope.id, reach[at])
    found: list[int] = []
    earliest = len(events)
    for at in range(len(events), -1, -1):
        if earliest >= at:
            found.append(at)
        if at:
            earliest = min(earliest, reach[at - 1])
    return found[::-1]


def _response_id(event: Event) -> object:
    """Return the id of the model's response that an action is part of, or None."""
    metadata = event.tool_call_metadata
    return metadata.model_response.get("id") if isinstance(event, Action) and metadata is not None else None


def cut_middle(task: CondensationTask, *, keep_first: int, max_events: int | None, tokens: int | None) -> Cut | None:
    """Cut between the first and the newest events so that the rest has this size; None if nothing can be cut.

    `keep_first` and `max_events` count the events that the model sees; a summary counts as one. The newest response
    stays unless it exceeds `tokens` alone.
    """
    events, sizes = task.events, task.sizes()
    allowed, kept = cut_points(events), protected_ids(events)
    begin = _after_first(events, keep_first, allowed)
    head = frozenset(at for at, envelope in enumerate(events) if at < begin or envelope.id in kept)
    if tokens is not None:
        tokens -= sum(sizes[at] for at in head)
    if max_events is not None:
        max_events -= seen_count([events[at] for at in head]) + 1
    counted = [0 if at in head or not is_seen(events[at].event) else size for at, size in enumerate(sizes)]
    end = _tail_start(counted, [at for at in allowed if at >= begin], max_events, tokens)
    gone = [e for e in events[begin:end] if e.id not in kept and not is_summary(e)]
    if not seen_count(gone):
        return None
    return Cut(gone, sum(1 for envelope in events[: events.index(gone[0])] if not is_summary(envelope)))


def _after_first(events: Sequence[Envelope], keep_first: int, allowed: Sequence[int]) -> int:
    """Return the first cut point after `keep_first` events that the model sees."""
    count = 0
    for at, envelope in enumerate(events):
        if count >= keep_first:
            return next(point for point in allowed if point >= at)
        count += is_seen(envelope.event) and not is_summary(envelope)
    return len(events)


def _tail_start(sizes: Sequence[int], allowed: Sequence[int], max_events: int | None, tokens: int | None) -> int:
    """Return the earliest cut point after which everything fits, or the end if even the newest response does not.

    Events of size 0 do not count.
    """
    best, count, size, behind = len(sizes), 0, 0, len(sizes)
    for point in reversed(allowed):
        part = [each for each in sizes[point:behind] if each]
        count, size, behind = count + len(part), size + sum(part), point
        is_newest = count == len(part)
        if (max_events is not None and count > max_events and not is_newest) or (tokens is not None and size > tokens):
            break
        if count:
            best = point
    return best


def cut_to_half(task: CondensationTask, keep_first: int, max_size: int) -> Cut | None:
    """Cut down to half of `max_size` events and half of the token limit; None if nothing can be cut.

    If the user asked for it, cut everything except the newest response.
    """
    if task.request.why == "wanted":
        return cut_middle(task, keep_first=keep_first, max_events=0, tokens=task.token_limit)
    return cut_middle(task, keep_first=keep_first, max_events=max_size // 2, tokens=_half(task.token_limit))


def cut_older_half(task: CondensationTask) -> Cut:
    """Keep the instructions, the task and the newer half of the rest, by events and, if limited, by tokens.

    The cut may be empty.
    """
    most = cut_middle(task, keep_first=0, max_events=0, tokens=0) or NO_CUT
    rest = seen_count(most.forgotten)
    max_events = seen_count(task.events) - rest + max(1, rest // 2) + 1
    return cut_middle(task, keep_first=0, max_events=max_events, tokens=_half(task.token_limit)) or NO_CUT


def _half(tokens: int | None) -> int | None:
    return None if tokens is None else tokens // 2
