"""Statistics of a conversation, computed from its log: size, cost and time.

A pure fold over events: the same events give the same figures live, after a restart and for an imported trajectory.
Values that the log does not have are None or counted as unknown, never 0. Clocks may jump, so negative durations count
as 0. Memory grows with the number of actions and answers, not with their texts, so a long log can be read by pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import median
from typing import Self

from core.controller.not_executed import NOT_EXECUTED_BEHIND, NOT_EXECUTED_STOPPED
from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentDelegateObservation,
    AgentState,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    CmdOutputObservation,
    CondensationAction,
    Envelope,
    ErrorObservation,
    EventSource,
    FileEditObservation,
    LLMMetrics,
    LoopRecoveryAction,
    MessageAction,
    NullAction,
    Observation,
    RecallAction,
    SystemMessageAction,
    UserRejectObservation,
)
from core.llm.metrics import Calls, add_metrics, calls_between

_NOT_ANSWERS = (
    ChangeAgentStateAction,
    CondensationAction,
    LoopRecoveryAction,
    NullAction,
    RecallAction,
    SystemMessageAction,
)
"""Actions that are never part of a model's answer."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Summary of durations in seconds. Without any, median, p95 and maximum are None."""

    count: int = 0
    total_s: float = 0.0
    median_s: float | None = None
    p95_s: float | None = None
    """The 95th percentile (nearest rank)."""
    max_s: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The summary of these durations, in any order."""
        if not values:
            return cls()
        ordered = sorted(values)
        p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
        return cls(len(ordered), math.fsum(ordered), median(ordered), p95, ordered[-1])


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of one kind."""

    count: int = 0
    failed: int = 0
    """Failed actions: an error, or an exit code other than 0."""
    refused: int = 0
    """Actions that were not carried out: the user rejected them or stopped the agent."""
    durations: Durations = Durations()
    """Durations of actions with a result, without waiting for their turn and for approval."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The figures of a conversation."""

    events: int = 0
    user_messages: int = 0
    answers: int = 0
    """Model answers; one answer may have several events."""
    calls: Calls = field(default_factory=Calls)
    """Calls of all models, according to the metrics of events."""
    calls_by_model: Mapping[str, Calls] = field(default_factory=dict)
    """By model name, which is empty if the log does not have it."""
    latency: Durations = Durations()
    """From the request to the answer, if the log says which event is the request."""
    actions: Mapping[str, Actions] = field(default_factory=dict)
    """By kind, such as `run`: actions for a runtime or another agent."""
    worked_s: float = 0.0
    """Working time of model and actions; parallel work counts separately."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    """Times of the first and the last event by id."""


@dataclass(slots=True)
class _Work:
    """An action without an observation."""

    kind: str
    at: datetime
    in_turn: bool
    """Whether it waits for earlier actions; delegates do not."""
    held: bool
    """Whether it waits for approval."""
    begun_at: datetime | None = None
    """None while it waits."""


@dataclass(slots=True)
class _Kind:
    """The actions of one kind so far."""

    count: int = 0
    failed: int = 0
    refused: int = 0
    durations_s: list[float] = field(default_factory=list)


class Tally:
    """Computes statistics: `add` every event in the order of ids, and call `statistics` at any time."""

    def __init__(self) -> None:
        self._counted = Statistics()
        self._times: dict[int, datetime] = {}
        self._answer: tuple[int | None, str] = (None, "")
        """The cause of the latest answer, and its id at the provider."""
        self._latencies_s: list[float] = []
        self._metrics = LLMMetrics()
        self._by_model: dict[str, Calls] = {}
        self._works: dict[int, _Work] = {}
        """By the action's id, in order."""
        self._paused = False
        self._kinds: dict[str, _Kind] = {}
        self._acted: set[int] = set()

    def add(self, envelope: Envelope) -> None:
        """Add the next event. No event is refused."""
        counted, event, at = self._counted, envelope.event, envelope.timestamp
        is_user_message = isinstance(event, MessageAction) and envelope.source is EventSource.USER and not event.queued
        begins = self._take_answer(envelope)
        self._counted = replace(
            counted,
            events=counted.events + 1,
            user_messages=counted.user_messages + is_user_message,
            answers=counted.answers + begins,
            first_at=counted.first_at or at,
            last_at=at,
        )
        if begins and envelope.cause in self._times:
            self._latencies_s.append(_seconds(self._times[envelope.cause], at))
        self._times[envelope.id] = at
        if isinstance(event, AgentDelegateObservation) or (
            isinstance(event, FileEditObservation) and event.llm_metrics
        ):
            self._add_calls_of(event)
        else:
            self._add_call(event.llm_metrics, begins)
        match event:
            case Action(acts=True):
                self._begin(envelope, event)
            case Observation():
                self._end(envelope, event)
        self._apply(envelope)
        self._begin_next(at)

    def statistics(self) -> Statistics:
        """The statistics so far."""
        actions = {
            kind: Actions(known.count, known.failed, known.refused, Durations.of(known.durations_s))
            for kind, known in sorted(self._kinds.items())
        }
        latency = Durations.of(self._latencies_s)
        return replace(
            self._counted,
            calls=sum(self._by_model.values(), Calls()),
            calls_by_model=dict(sorted(self._by_model.items())),
            latency=latency,
            actions=actions,
            worked_s=latency.total_s + math.fsum(each.durations.total_s for each in actions.values()),
        )

    # -- answers and what they cost --------------------------------------------------------------------------------

    def _take_answer(self, envelope: Envelope) -> bool:
        """Remember the model answer that the event belongs to. Returns whether it is the answer's first event.

        The events of one answer have the same cause, or the same response id in a trajectory without causes. An error
        counts if it is the result of a model answer and not of an action.
        """
        event = envelope.event
        if envelope.source is not EventSource.AGENT or isinstance(event, _NOT_ANSWERS):
            return False
        if isinstance(event, Observation) and (
            not isinstance(event, ErrorObservation) or envelope.cause in self._acted
        ):
            return False
        metadata = event.tool_call_metadata
        response = str(metadata.model_response.get("id") or "") if metadata else ""
        cause, known = self._answer
        self._answer = (envelope.cause, response)
        return not ((response and response == known) or (envelope.cause is not None and envelope.cause == cause))

    def _add_call(self, metrics: LLMMetrics | None, begins_answer: bool) -> None:
        """Count the call that led to these accumulated metrics, unless they were seen before.

        An answer without metrics is a call with an unknown cost.
        """
        if metrics is None:
            if begins_answer:
                self._add("", Calls(count=1, cost=None, unpriced=1))
        elif begins_answer or metrics != self._metrics:
            self._add(metrics.accumulated_token_usage.model, calls_between(self._metrics, metrics))
            self._metrics = metrics

    def _add_calls_of(self, observation: AgentDelegateObservation | FileEditObservation) -> None:
        """Count the calls of a delegate or of an edit, which the conversation's metrics include from then on."""
        if (metrics := observation.llm_metrics) is None:
            return
        answers = observation.outputs.get("iterations") if isinstance(observation, AgentDelegateObservation) else 1
        count = answers if isinstance(answers, int) and answers > 0 else 1
        calls = calls_between(LLMMetrics(), metrics)
        self._add(metrics.accumulated_token_usage.model, replace(calls, count=count, unpriced=calls.unpriced * count))
        self._metrics = add_metrics(self._metrics, metrics)

    def _add(self, model: str, calls: Calls) -> None:
        self._by_model[model] = self._by_model.get(model, Calls()) + calls

    # -- actions ---------------------------------------------------------------------------------------------------

    def _begin(self, envelope: Envelope, action: Action) -> None:
        self._acted.add(envelope.id)
        self._kinds.setdefault(action.kind, _Kind()).count += 1
        held = action.confirmation is ActionConfirmationStatus.AWAITING_CONFIRMATION
        self._works[envelope.id] = _Work(action.kind, envelope.timestamp, action.runnable, held)

    def _end(self, envelope: Envelope, observation: Observation) -> None:
        """End an action with its first observation; later ones are ignored."""
        work = self._works.pop(envelope.cause, None) if envelope.cause is not None else None
        if work is None:
            return
        known = self._kinds[work.kind]
        if _refused(observation):
            known.refused += 1
            return
        known.failed += _failed(observation)
        known.durations_s.append(_seconds(work.begun_at or work.at, envelope.timestamp))

    def _apply(self, envelope: Envelope) -> None:
        """Apply what lets actions begin: the end of a pause, and the user's approval."""
        match envelope.event:
            case AgentStateChangedObservation(agent_state=agent_state):
                self._paused = agent_state is AgentState.PAUSED
            case ChangeAgentStateAction(agent_state=AgentState.USER_CONFIRMED):
                meant = next(iter(self._works), -1) if envelope.cause is None else envelope.cause
                work = self._works.get(meant)
                if work is not None and work.held:
                    work.held, work.begun_at = False, envelope.timestamp

    def _begin_next(self, at: datetime) -> None:
        """Begin the first action that waits for its turn, unless paused."""
        first = next((work for work in self._works.values() if work.in_turn), None)
        if first is not None and first.begun_at is None and not self._paused:
            first.begun_at = at


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())


_REFUSED_IDS = (NOT_EXECUTED_BEHIND, NOT_EXECUTED_STOPPED)


def _refused(observation: Observation) -> bool:
    """Whether an action was not carried out because the user refused or stopped it."""
    stopped = isinstance(observation, ErrorObservation) and observation.error_id in _REFUSED_IDS
    return stopped or isinstance(observation, UserRejectObservation)


def _failed(observation: Observation) -> bool:
    """Whether an action failed; a command that is still running has not."""
    if isinstance(observation, CmdOutputObservation) and observation.exit_code == -1:
        return False
    return observation.success is False
