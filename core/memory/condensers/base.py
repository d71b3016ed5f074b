"""What a condenser is, and what it works with.

A condenser does one of two things, or both. It may show events otherwise than they are, at each step and without a
trace (`shown`). And where the history is to become shorter for good it may say so, as one CondensationAction that is
stored (`condense`). It never changes an event, and never parts a tool call from its result.

Where a history can be cut: what is kept of it always, and places that part no tool call from its result. Pure.
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
from core.memory.context_events import is_seen, size_of
from core.memory.token_estimate import Scale
from core.protocols import LLMRequest, LLMResponse

Ask = Callable[[LLMRequest], Awaitable[LLMResponse]]
"""Asks the model that sums up. Raises ModelError; cancelling cancels the call."""


class NoSummaryError(Exception):
    """The model that sums up failed, or what it said is of no use; the text says why, for people."""


@dataclass(frozen=True, slots=True)
class Work:
    """One condensation that is to be made."""

    events: Sequence[Envelope]
    """What the model sees, the newest summary included."""
    request: CondensationRequestAction
    """Who wanted it, and what is to be kept."""
    ask: Ask | None = None
    """None where there is no model to ask."""
    room: int | None = None
    """Tokens that all messages may take; None where nothing is known."""
    scale: Scale = Scale()  # noqa: RUF009  # frozen

    def sizes(self) -> list[int]:
        """Tokens of each event, as the model's provider counts them as far as that is known."""
        return [self.scale(size_of(envelope.event, self.room)) for envelope in self.events]

    def count(self) -> int:
        """Events that the model sees."""
        return sum(is_seen(envelope.event) for envelope in self.events)


class Condenser:
    """Shows everything, and condenses nothing: V0's `noop`."""

    def shown(self, events: Sequence[Envelope]) -> Sequence[Envelope]:
        """The events as the model is shown them. Pure, and the same for the same events."""
        return events

    async def condense(self, work: Work) -> CondensationAction | None:
        """What is to be forgotten; None where this one leaves it to the next.

        Raises NoSummaryError. Cancelling cancels the call of the model.
        """
        return None


@dataclass(frozen=True, slots=True)
class Cut:
    """What a condensation forgets, and where a summary of it stands."""

    forgotten: Sequence[Envelope]
    offset: int
    """The place of the summary in the view that is left."""

    def action(self, summary: str | None = None, note: str = "") -> CondensationAction:
        """The condensation that says so, as a range where the ids are one."""
        return forgetting(
            [envelope.id for envelope in self.forgotten], summary, self.offset if summary is not None else None, note
        )


def forgetting(
    ids: Sequence[int], summary: str | None = None, offset: int | None = None, note: str = ""
) -> CondensationAction:
    """A condensation of these ids, which are in order."""
    if ids and ids[-1] - ids[0] == len(ids) - 1:
        return CondensationAction(
            forgotten_events_start_id=ids[0], forgotten_events_end_id=ids[-1],
            summary=summary, summary_offset=offset, note=note,
        )  # fmt: skip
    return CondensationAction(forgotten_event_ids=list(ids), summary=summary, summary_offset=offset, note=note)


def kept_always(events: Sequence[Envelope]) -> set[int]:
    """The ids of what is never forgotten: instructions, the first message of the user with what memory answered to it,
    and the newest message of the user."""
    kept = {e.id for e in events if isinstance(e.event, SystemMessageAction)}
    said = [e.id for e in events if _is_from_user(e)]
    if not said:
        return kept
    recalls = {e.id for e in events if isinstance(e.event, RecallAction) and e.cause == said[0]}
    answers = {e.id for e in events if isinstance(e.event, Observation) and e.cause in recalls}
    return kept | {said[0], said[-1]} | recalls | answers


def places(events: Sequence[Envelope]) -> list[int]:
    """Every place from 0 to the number of events at which nothing is parted, in order."""
    first: dict[object, int] = {}
    reach = list(range(len(events)))
    """How far back each event belongs."""
    for at, envelope in enumerate(events):
        if isinstance(envelope.event, Observation) and envelope.cause is not None:
            reach[at] = first.get(envelope.cause, at)
        elif (answer := _answer_of(envelope.event)) is not None:
            reach[at] = first.setdefault(("answer", answer), at)
        if not isinstance(envelope.event, AgentCondensationObservation):
            first.setdefault(envelope.id, reach[at])
    found: list[int] = []
    earliest = len(events)
    for at in range(len(events), -1, -1):
        if earliest >= at:
            found.append(at)
        if at:
            earliest = min(earliest, reach[at - 1])
    return found[::-1]


def middle(work: Work, *, keep_first: int, max_events: int | None, tokens: int | None) -> Cut | None:
    """What lies between the beginning and the newest part, so that what is left has this size; None where nothing does.

    `keep_first` and `max_events` count events that the model sees; a summary counts as one. The newest answer stays
    where it fits.
    """
    events, sizes = work.events, work.sizes()
    allowed, kept = places(events), kept_always(events)
    begin = _after_first(events, keep_first, allowed)
    head = frozenset(at for at, envelope in enumerate(events) if at < begin or envelope.id in kept)
    if tokens is not None:
        tokens -= sum(sizes[at] for at in head)
    if max_events is not None:
        max_events -= sum(is_seen(events[at].event) for at in head) + 1
    counted = [0 if at in head or not is_seen(events[at].event) else size for at, size in enumerate(sizes)]
    end = _begin_of_tail(counted, [at for at in allowed if at >= begin], max_events, tokens)
    gone = [e for e in events[begin:end] if e.id not in kept and not is_summary(e)]
    if not any(is_seen(envelope.event) for envelope in gone):
        return None
    return Cut(gone, sum(1 for envelope in events[: events.index(gone[0])] if not is_summary(envelope)))


def _after_first(events: Sequence[Envelope], keep_first: int, allowed: Sequence[int]) -> int:
    """The first place behind so many events that the model sees."""
    count = 0
    for at, envelope in enumerate(events):
        if count >= keep_first:
            return next(place for place in allowed if place >= at)
        count += is_seen(envelope.event) and not is_summary(envelope)
    return len(events)


def _begin_of_tail(sizes: Sequence[int], allowed: Sequence[int], max_events: int | None, tokens: int | None) -> int:
    """The earliest allowed place behind which everything fits; the end of all where not even the newest answer does.

    What has no size does not count.
    """
    best, count, size, behind = len(sizes), 0, 0, len(sizes)
    for place in reversed(allowed):
        of_part = [each for each in sizes[place:behind] if each]
        count, size, behind = count + len(of_part), size + sum(of_part), place
        is_newest = count == len(of_part)
        too_many = max_events is not None and count > max_events and not is_newest
        if too_many or (tokens is not None and size > tokens):
            break
        if count:
            best = place
    return best


def is_summary(envelope: Envelope) -> bool:
    """Whether it is a summary, which is no event of the log."""
    return isinstance(envelope.event, AgentCondensationObservation)


def _is_from_user(envelope: Envelope) -> bool:
    return isinstance(envelope.event, MessageAction) and envelope.source is EventSource.USER


def _answer_of(event: Event) -> object:
    """The id of the model's answer that an action is part of; None where it is of none."""
    metadata = event.tool_call_metadata
    return metadata.model_response.get("id") if isinstance(event, Action) and metadata is not None else None
