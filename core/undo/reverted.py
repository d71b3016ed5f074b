"""Which events of a log are undone: the model, the chat and the list of turns leave them out.

Pure. An undo takes effect with its observation, and covers the events from the message that it names to its own action;
one that was redone covers none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from core.events import Envelope, UndoAction, UndoObservation


def undone_spans(log: Iterable[Envelope]) -> list[range]:
    """The ids that are undone by the undo actions and their observations among these events, in order."""
    asked: dict[int | None, UndoAction] = {}
    spans: dict[int, range] = {}
    for envelope in log:
        match envelope.event:
            case UndoAction() as action:
                asked[envelope.id] = action
            case UndoObservation(done=True) if (id := envelope.cause) is not None and id in asked:
                action = asked[id]
                if action.redoes is not None:
                    spans.pop(action.redoes, None)
                elif action.chat:
                    spans[id] = range(action.first, id)
    return list(spans.values())


def without_undone(history: Sequence[Envelope]) -> Sequence[Envelope]:
    """The events that are not undone; the same object if none is."""
    spans = undone_spans(history)
    if not spans:
        return history
    gone = frozenset(chain.from_iterable(spans))
    return [envelope for envelope in history if envelope.id not in gone]
