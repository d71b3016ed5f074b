"""What was carried out before an action: a pure fold over a log, as analyzers see it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.events import Action, Envelope, ErrorObservation, Observation, UserRejectObservation
from core.security.facts import Facts, facts_of

MAX_PAST = 500
"""Actions that are kept; a flow over more of them is not seen."""


@dataclass(frozen=True, slots=True)
class Past:
    """An action that was carried out."""

    event: int
    """The action's id."""
    action: Action
    facts: Facts


@dataclass(frozen=True, slots=True)
class History:
    """The actions that were carried out, in order; one that was rejected or never answered is not among them."""

    workspace: str
    read_only: frozenset[str] = frozenset()
    done: tuple[Past, ...] = ()
    waiting: tuple[Past, ...] = ()

    def after(self, envelope: Envelope) -> History:
        """The history after one more event. Events come in the order of their ids."""
        event = envelope.event
        if isinstance(event, Action) and event.acts:
            facts = facts_of(event, workspace=self.workspace, read_only=self.read_only)
            return replace(self, waiting=(*self.waiting, Past(envelope.id, event, facts))[-MAX_PAST:])
        if isinstance(event, Observation) and envelope.cause is not None:
            answered = [past for past in self.waiting if past.event == envelope.cause]
            if not answered:
                return self
            waiting = tuple(past for past in self.waiting if past.event != envelope.cause)
            if isinstance(event, UserRejectObservation | ErrorObservation):
                return replace(self, waiting=waiting)
            return replace(self, waiting=waiting, done=(*self.done, *answered)[-MAX_PAST:])
        return self
