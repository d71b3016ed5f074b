"""View: what the model sees of a history, after what was undone and what was condensed is left out.

Pure. The log itself is never changed: a CondensationAction names the events that are no longer seen, and may say what
stands in for them. Only the newest summary is shown. Ids that no event has are forgotten without a word: a log may come
from elsewhere. Follows `openhands/memory/view.py`.
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
    """A wish to condense that is newer than the newest condensation."""

    @property
    def wants_condensation(self) -> bool:
        """V0's `unhandled_condensation_request`."""
        return self.request is not None

    @classmethod
    def of(cls, history: Sequence[Envelope]) -> View:
        """The view of a whole history."""
        return Watched().look(history)


class Watched:
    """The view of a history that grows: each event is looked at once, and a step costs what the view holds.

    An undo has it begun anew. What it says is what `View.of` says of the same history.
    """

    def __init__(self) -> None:
        self._count = 0
        self._last: Envelope | None = None
        self.ids: set[str] = set()
        """The ids of all answers and tool calls, those included that are no longer seen."""
        self._told: set[str] = set()
        self._answers = 0
        """Of the model, those included that were undone: a scripted model does not say them again."""
        self._begin()

    def _begin(self) -> None:
        self._seen: list[Envelope] = []
        self._summary: Envelope | None = None
        """The newest condensation with a summary."""
        self._request: CondensationRequestAction | None = None

    def look(self, history: Sequence[Envelope]) -> View:
        """The view of this history, which goes on where the one of the last look ended; another one is looked at anew.

        The events of the view are a list that nobody else has.
        """
        if len(history) < self._count or (self._count and history[self._count - 1] is not self._last):
            self.__init__()  # type: ignore[misc]
        news = history[self._count :]
        for envelope in news:
            self._answers += is_answer(envelope, self._told)
            if (metadata := envelope.event.tool_call_metadata) is not None:
                self.ids.update((metadata.tool_call_id, str(metadata.model_response.get("id", ""))))
        if any(isinstance(envelope.event, UndoAction | UndoObservation) for envelope in news):
            self._begin()
            news = without_undone(history)
        for envelope in news:
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
        """What is left, with the newest summary at its place."""
        shown, step = list(self._seen), self._summary
        if step is not None and isinstance(step.event, CondensationAction):
            summary = AgentCondensationObservation(content=step.event.summary or "")
            place = min(max(0, step.event.summary_offset or 0), len(shown))
            shown.insert(place, replace(step, event=summary, source=EventSource.ENVIRONMENT, cause=None))
        return shown

    def forgotten(self, view: View) -> int:
        """How many answers of the model are left out by the view, which is the one of the last look."""
        told: set[str] = set()
        return self._answers - sum(is_answer(envelope, told) for envelope in view.events)
