"""View: the events of a history that the model sees, without what was undone or condensed.

Pure. The log itself never changes: a CondensationAction names the events that are no longer seen, and may contain a
summary that replaces them. Only the newest summary is shown. Ids without an event are ignored, because a log may be
imported. Follows `openhands/memory/view.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.events import (
    AgentCondensationObservation,
    CondensationAction,
    CondensationRequestAction,
    Envelope,
    EventSource,
    UndoAction,
    UndoObservation,
)
from core.memory.context_events import is_answer
from core.undo.reverted import without_undone


@dataclass(frozen=True, slots=True)
class View:
    """The events that the model sees, in order."""

    events: Sequence[Envelope]
    request: CondensationRequestAction | None = None
    """A request to condense that is newer than the newest condensation."""

    @property
    def wants_condensation(self) -> bool:
        """V0's `unhandled_condensation_request`."""
        return self.request is not None

    @classmethod
    def of(cls, history: Sequence[Envelope]) -> View:
        """Return the view of a whole history."""
        return GrowingView().update(history)


class GrowingView:
    """The view of a growing history. Visits each event once; an undo starts it again from the beginning.

    `update` returns the same view as `View.of` for the same history.
    """

    def __init__(self) -> None:
        self._count = 0
        self._last: Envelope | None = None
        self.ids: set[str] = set()
        """The ids of all responses and tool calls, including those that are no longer seen."""
        self._responses: set[str] = set()
        self._answers = 0
        """The model's answers, including undone ones: a scripted model does not repeat them."""
        self._reset()

    def _reset(self) -> None:
        self._seen: list[Envelope] = []
        self._summary: Envelope | None = None
        """The newest condensation with a summary."""
        self._request: CondensationRequestAction | None = None

    def update(self, history: Sequence[Envelope]) -> View:
        """Return the view of this history, which continues the one of the last call; if it does not, start again.

        The list of events is not shared.
        """
        if len(history) < self._count or (self._count and history[self._count - 1] is not self._last):
            self.__init__()  # type: ignore[misc]
        new = history[self._count :]
        for envelope in new:
            self._answers += is_answer(envelope, self._responses)
            if (metadata := envelope.event.tool_call_metadata) is not None:
                self.ids.update((metadata.tool_call_id, str(metadata.model_response.get("id", ""))))
        if any(isinstance(envelope.event, UndoAction | UndoObservation) for envelope in new):
            self._reset()
            new = without_undone(history)
        for envelope in new:
            self._take(envelope)
        self._count, self._last = len(history), history[-1] if history else None
        return View(self._shown(), self._request)

    def _take(self, envelope: Envelope) -> None:
        event = envelope.event
        if isinstance(event, CondensationAction):
            self._forget(event.forgotten)
            self._request = None
            if event.summary is not None:
                self._summary = envelope
        elif isinstance(event, CondensationRequestAction):
            self._request = event
        else:
            self._seen.append(envelope)

    def _forget(self, ids: Sequence[int]) -> None:
        gone = ids if isinstance(ids, range) else frozenset(ids)
        self._seen = [envelope for envelope in self._seen if envelope.id not in gone]

    def _shown(self) -> list[Envelope]:
        """Return the remaining events, with the newest summary in its place."""
        shown, step = list(self._seen), self._summary
        if step is not None and isinstance(step.event, CondensationAction):
            summary = AgentCondensationObservation(content=step.event.summary or "")
            place = min(max(0, step.event.summary_offset or 0), len(shown))
            shown.insert(place, replace(step, event=summary, source=EventSource.ENVIRONMENT, cause=None))
        return shown

    def forgotten_answers(self, view: View) -> int:
        """Return how many answers of the model are missing in the view that `update` returned last."""
        responses: set[str] = set()
        return self._answers - sum(is_answer(envelope, responses) for envelope in view.events)
