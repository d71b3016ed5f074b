"""View: what the model sees of a history, after what was undone and what was condensed is left out.

Pure. The log itself is never changed: a CondensationAction names the events that are no longer seen, and may say what
stands in for them. Only the newest summary is shown. Follows `openhands/memory/view.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from core.undone import without_undone


@dataclass(frozen=True, slots=True)
class View:
    """The events that the model sees, in order."""

    events: Sequence[Envelope]
    wants_condensation: bool = False
    """A request to condense is newer than the newest condensation."""

    @classmethod
    def of(cls, history: Sequence[Envelope]) -> View:
        """The view of a whole history."""
        history = without_undone(history)
        kinds = (CondensationAction, CondensationRequestAction)
        steps = [envelope for envelope in history if isinstance(envelope.event, kinds)]
        if not steps:
            return cls(history)
        forgotten = {step.id for step in steps}
        newest: Envelope | None = None
        for step in steps:
            if isinstance(step.event, CondensationAction):
                forgotten.update(step.event.forgotten)
                newest = step if step.event.summary is not None else newest
        seen = [envelope for envelope in history if envelope.id not in forgotten]
        if newest is not None and isinstance(newest.event, CondensationAction):
            summary = AgentCondensationObservation(content=newest.event.summary or "")
            shown = replace(newest, event=summary, source=EventSource.ENVIRONMENT, cause=None)
            seen.insert(min(newest.event.summary_offset or 0, len(seen)), shown)
        return cls(seen, isinstance(steps[-1].event, CondensationRequestAction))


def condense_window(view: View) -> CondensationAction:
    """Forget the older half: V0's `conversation_window`.

    Kept are the system message, the first message of the user with what memory answered to it, and the newer half of
    the rest, from the beginning of an answer on, so that no tool call is parted from its result.
    """
    head = _head(view.events)
    rest = [envelope for envelope in view.events if envelope.id not in head]
    cut = max(0, len(rest) - max(1, len(rest) // 2))
    while cut < len(rest) and _belongs_to_what_was_before(rest, cut):
        cut += 1
    forgotten = [envelope.id for envelope in rest[:cut]]
    if forgotten and forgotten[-1] - forgotten[0] == len(forgotten) - 1:
        return CondensationAction(forgotten_events_start_id=forgotten[0], forgotten_events_end_id=forgotten[-1])
    return CondensationAction(forgotten_event_ids=forgotten)


def _head(events: Sequence[Envelope]) -> set[int]:
    """What is always kept."""
    kept = {envelope.id for envelope in events if isinstance(envelope.event, SystemMessageAction)}
    first = next((e for e in events if _is_from_user(e)), None)
    if first is None:
        return kept
    recalls = {e.id for e in events if isinstance(e.event, RecallAction) and e.cause == first.id}
    answers = {e.id for e in events if isinstance(e.event, Observation) and e.cause in recalls}
    return kept | {first.id} | recalls | answers


def _is_from_user(envelope: Envelope) -> bool:
    return isinstance(envelope.event, MessageAction) and envelope.source is EventSource.USER


def _belongs_to_what_was_before(rest: Sequence[Envelope], cut: int) -> bool:
    """Whether the event is a result of what is forgotten, or a later call of an answer that is."""
    envelope, before = rest[cut], {earlier.id for earlier in rest[:cut]}
    if isinstance(envelope.event, Observation):
        return envelope.cause in before
    answer = _answer_of(envelope.event)
    return bool(answer) and any(_answer_of(earlier.event) == answer for earlier in rest[:cut])


def _answer_of(event: Event) -> object:
    """The id of the model's answer that an action is part of; None where it is of none."""
    metadata = event.tool_call_metadata
    return metadata.model_response.get("id") if isinstance(event, Action) and metadata is not None else None
