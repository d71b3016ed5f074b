"""A recorded session and its rerun side by side, action by action. Pure.

Computed from the two logs alone, so that it is the same during the run and later. The n-th action of the run's agent
belongs to the n-th of the recording; the same for commands of the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from core.controller.not_executed import NOT_EXECUTED_BEHIND, NOT_EXECUTED_ERROR, NOT_EXECUTED_STOPPED
from core.events import (
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    EventSource,
    MessageAction,
    Observation,
    UserRejectObservation,
)
from core.rerun.comparison import Comparison, Line, Outcome, compare, lines_of
from core.rerun.normalization import Origin
from core.rerun.recipe import Step, is_given, result_of

_NOT_EXECUTED = frozenset({NOT_EXECUTED_BEHIND, NOT_EXECUTED_ERROR, NOT_EXECUTED_STOPPED})


@dataclass(frozen=True, slots=True)
class Pair:
    """One recorded action that acts, and its result in the run."""

    step: Step
    new: Envelope | None = None
    """The action in the run, or a message that says why it is not run."""
    result: Envelope | None = None
    """The new observation."""
    comparison: Comparison | None = None
    """None while it is unknown."""

    @property
    def outcome(self) -> Outcome | None:
        return self.comparison.outcome if self.comparison else None


class Pairing:
    """The pairs of a recording. The events of its run are added one by one."""

    def __init__(self, steps: Sequence[Step], then: Origin, now: Origin) -> None:
        self.pairs: list[Pair] = []
        """In the order of the recording."""
        self.version = 0
        """Incremented with every change."""
        self.is_over = False
        """Whether the run has ended."""
        self._then, self._now = then, now
        self._agents: list[int | None] = []
        """The pair of each action of the recorded agent; None if it does not act."""
        self._users: list[int] = []
        self._places: dict[int, int] = {}
        self.given = 0
        """How many actions the agent of the run has given."""
        self._ran = 0
        self.next_id = 0
        """The id of the next event of the run."""
        for step in steps:
            index = None
            if step.acts:
                index = len(self.pairs)
                self.pairs.append(Pair(step, comparison=_not_run(step, "") if step.is_users and step.why_not else None))
            if not step.is_users:
                self._agents.append(index)
            elif index is not None and not step.why_not:
                self._users.append(index)
        self._host_then = next((_host(step.result) for step in steps if _host(step.result)), "")

    def take(self, envelope: Envelope) -> int | None:
        """Add the next event of the run, and return the pair that it changed. An event that was added already changes
        none."""
        if envelope.id < self.next_id:
            return None
        self.next_id = envelope.id + 1
        if is_given(envelope):
            return self._take_action(envelope)
        if isinstance(envelope.event, CmdRunAction) and envelope.source is EventSource.USER:
            self._ran += 1
            return self._begin(self._users[self._ran - 1], envelope) if self._ran <= len(self._users) else None
        index = result_of(envelope, self._places)
        if index is None or self.pairs[index].result is not None:
            return None
        return self._put(index, self._finished(self.pairs[index], envelope))

    def take_all(self, log: Iterable[Envelope]) -> None:
        """Add several events of the run, in order."""
        for envelope in log:
            self.take(envelope)

    def _take_action(self, envelope: Envelope) -> int | None:
        self.given += 1
        index = self._agents[self.given - 1] if self.given <= len(self._agents) else None
        return self._begin(index, envelope) if index is not None else None

    def _begin(self, index: int, envelope: Envelope) -> int:
        pair = replace(self.pairs[index], new=envelope)
        if isinstance(envelope.event, MessageAction):
            return self._put(index, replace(pair, comparison=_not_run(pair.step, envelope.event.content)))
        self._places[envelope.id] = index
        return self._put(index, pair)

    def _finished(self, pair: Pair, envelope: Envelope) -> Pair:
        new = envelope.event
        assert isinstance(new, Observation)
        pair = replace(pair, result=envelope)
        if isinstance(new, UserRejectObservation) or (
            isinstance(new, ErrorObservation) and new.error_id in _NOT_EXECUTED
        ):
            return replace(pair, comparison=replace(_not_run(pair.step, new.content), outcome=Outcome.MISSING))
        recorded = pair.step.result.event if pair.step.result else None
        assert recorded is None or isinstance(recorded, Observation)
        then, now = replace(self._then, host=self._host_then), replace(self._now, host=_host(envelope))
        return replace(pair, comparison=compare(recorded, new, then, now))

    def _put(self, index: int, pair: Pair) -> int:
        self.pairs[index] = pair
        self.version += 1
        return index

    def end(self) -> None:
        """The run has ended: pairs without a result get none."""
        self.is_over = True
        self.version += 1
        for index, pair in enumerate(self.pairs):
            if pair.comparison is None:
                recorded = pair.step.result.event if pair.step.result else None
                assert recorded is None or isinstance(recorded, Observation)
                self.pairs[index] = replace(pair, comparison=compare(recorded, None))

    # -- what it comes to ----------------------------------------------------------------------------------------------

    def counts(self) -> Counter[Outcome]:
        """How many pairs there are of each outcome."""
        return Counter(pair.outcome for pair in self.pairs if pair.outcome is not None)

    @property
    def is_same(self) -> bool:
        """Whether every action that could be run gave the recorded result."""
        return all(pair.outcome is not None and pair.outcome.is_good for pair in self.pairs)

    def next_difference(self, index: int, step: int = 1) -> int | None:
        """The next pair from here, or the previous one with -1, that differs; None if there is none."""
        order = range(index + 1, len(self.pairs)) if step > 0 else range(index - 1, -1, -1)
        return next((at for at in order if _differs(self.pairs[at])), None)


def _differs(pair: Pair) -> bool:
    return pair.outcome is not None and not pair.outcome.is_good


def _not_run(step: Step, told: str) -> Comparison:
    """The recorded lines, with the reason why there are no new ones."""
    recorded = lines_of(step.result.event) if step.result and isinstance(step.result.event, Observation) else []
    said = told.split("\n", 1)[0] or not_run(step.why_not)
    lines = [Line(line, None, Outcome.NOT_RUN) for line in recorded] or [Line(None, None, Outcome.NOT_RUN)]
    lines[0] = replace(lines[0], new=said)
    return Comparison(Outcome.NOT_RUN, tuple(lines))


def not_run(why: str) -> str:
    """The reason why an action is not run again."""
    return f"[Not run again: {why}.]"


def _host(envelope: Envelope | None) -> str:
    event = envelope.event if envelope else None
    return (event.metadata.hostname or "") if isinstance(event, CmdOutputObservation) else ""
