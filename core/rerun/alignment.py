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
from core.rerun.comparison import Comparison, Line, Origin, Outcome, compare, result_lines
from core.rerun.recipe import Step, answered_step, is_agent_step

_NOT_EXECUTED = frozenset({NOT_EXECUTED_BEHIND, NOT_EXECUTED_ERROR, NOT_EXECUTED_STOPPED})


@dataclass(frozen=True, slots=True)
class Pair:
    """One recorded action with an effect, and its result in the run."""

    step: Step
    new: Envelope | None = None
    """The action in the run, or the message that says why it was skipped."""
    result: Envelope | None = None
    comparison: Comparison | None = None
    """None while it is unknown."""

    @property
    def outcome(self) -> Outcome | None:
        return self.comparison.outcome if self.comparison else None


class Pairing:
    """The pairs of a recording, completed by the events of its run."""

    def __init__(self, steps: Sequence[Step], then: Origin, now: Origin) -> None:
        self.pairs: list[Pair] = []
        self.has_ended = False
        self._recorded_origin, self._new_origin = then, now
        self._agent_pairs: list[int | None] = []
        """The pair of each action of the recorded agent; None if it does not act."""
        self._user_pairs: list[int] = []
        self._places: dict[int, int] = {}
        self.agent_steps = 0
        """How many actions the agent of the run has given."""
        self._user_commands = 0
        self.next_id = 0
        for step in steps:
            index = None
            if step.acts:
                index = len(self.pairs)
                skipped = _skipped(step, "") if step.is_users and step.skip_reason else None
                self.pairs.append(Pair(step, comparison=skipped))
            if not step.is_users:
                self._agent_pairs.append(index)
            elif index is not None and not step.skip_reason:
                self._user_pairs.append(index)
        self._recorded_host = next((host for step in steps if (host := _host(step.observation))), "")

    def add(self, envelope: Envelope) -> int | None:
        """Add the next event of the run. Returns the pair that it changed; None for an event that was added before."""
        if envelope.id < self.next_id:
            return None
        self.next_id = envelope.id + 1
        if is_agent_step(envelope):
            return self._add_agent_action(envelope)
        if isinstance(envelope.event, CmdRunAction) and envelope.source is EventSource.USER:
            self._user_commands += 1
            number = self._user_commands - 1
            return self._begin(self._user_pairs[number], envelope) if number < len(self._user_pairs) else None
        index = answered_step(envelope, self._places)
        if index is None or self.pairs[index].result is not None:
            return None
        return self._put(index, self._finished(self.pairs[index], envelope))

    def add_all(self, log: Iterable[Envelope]) -> None:
        for envelope in log:
            self.add(envelope)

    def _add_agent_action(self, envelope: Envelope) -> int | None:
        self.agent_steps += 1
        index = self._agent_pairs[self.agent_steps - 1] if self.agent_steps <= len(self._agent_pairs) else None
        return self._begin(index, envelope) if index is not None else None

    def _begin(self, index: int, envelope: Envelope) -> int:
        pair = replace(self.pairs[index], new=envelope)
        if isinstance(envelope.event, MessageAction):
            return self._put(index, replace(pair, comparison=_skipped(pair.step, envelope.event.content)))
        self._places[envelope.id] = index
        return self._put(index, pair)

    def _finished(self, pair: Pair, envelope: Envelope) -> Pair:
        new = envelope.event
        assert isinstance(new, Observation)
        pair = replace(pair, result=envelope)
        if isinstance(new, UserRejectObservation) or (
            isinstance(new, ErrorObservation) and new.error_id in _NOT_EXECUTED
        ):
            return replace(pair, comparison=replace(_skipped(pair.step, new.content), outcome=Outcome.MISSING))
        recorded_origin = replace(self._recorded_origin, host=self._recorded_host)
        new_origin = replace(self._new_origin, host=_host(new))
        return replace(pair, comparison=compare(pair.step.observation, new, recorded_origin, new_origin))

    def _put(self, index: int, pair: Pair) -> int:
        self.pairs[index] = pair
        return index

    def end(self) -> None:
        """The run has ended: the other pairs get no result."""
        self.has_ended = True
        for index, pair in enumerate(self.pairs):
            if pair.comparison is None:
                self.pairs[index] = replace(pair, comparison=compare(pair.step.observation, None))

    # -- results -------------------------------------------------------------------------------------------------------

    def counts(self) -> Counter[Outcome]:
        return Counter(pair.outcome for pair in self.pairs if pair.outcome is not None)

    @property
    def is_same(self) -> bool:
        """Whether every action that could be run gave the recorded result."""
        return all(pair.outcome is not None and pair.outcome.is_match for pair in self.pairs)

    def next_difference(self, index: int, step: int = 1) -> int | None:
        """The next pair that differs, or the previous one with -1; None if there is none."""
        order = range(index + 1, len(self.pairs)) if step > 0 else range(index - 1, -1, -1)
        return next((at for at in order if _differs(self.pairs[at])), None)


def _differs(pair: Pair) -> bool:
    return pair.outcome is not None and not pair.outcome.is_match


def _skipped(step: Step, reason: str) -> Comparison:
    """The recorded lines, with the reason why there are no new ones."""
    recorded = result_lines(step.observation) if step.observation else []
    user_done = reason.split("\n", 1)[0] or skip_text(step.skip_reason)
    lines = [Line(line, None, Outcome.NOT_RUN) for line in recorded] or [Line(None, None, Outcome.NOT_RUN)]
    lines[0] = replace(lines[0], new=user_done)
    return Comparison(Outcome.NOT_RUN, tuple(lines))


def skip_text(why: str) -> str:
    return f"[Not run again: {why}.]"


def _host(event: Observation | None) -> str:
    return (event.metadata.hostname or "") if isinstance(event, CmdOutputObservation) else ""
