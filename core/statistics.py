"""Statistics of a conversation: what its log says about its size, its price and its time.

A pure fold, total on every prefix of every log: the same events give the same figures, live, after a restart and for an
imported trajectory. What the log does not say is None or counted as unknown, never 0. Clocks may jump, so a duration
that would be negative is 0. Memory grows with the actions and answers, not with their texts, so that a long log can be
read by pages. Knows the vocabulary and nothing else; stores nothing.
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

_NOT_SAID = (
    ChangeAgentStateAction,
    CondensationAction,
    LoopRecoveryAction,
    NullAction,
    RecallAction,
    SystemMessageAction,
)
"""Actions that are no part of a model's answer, whoever their source is."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long things took, in seconds. Without any, what is typical of them is None."""

    count: int = 0
    total_s: float = 0.0
    median_s: float | None = None
    p95_s: float | None = None
    """95 of 100 took no longer (the nearest rank)."""
    max_s: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """What is to be said of these; in any order."""
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
    """Carried out without success: an error, or an exit code other than 0."""
    refused: int = 0
    """Never carried out: the user said no, or stopped the agent before their turn."""
    durations: Durations = Durations()
    """Of those that were carried out and answered; without the wait for their turn and for the user's yes."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What can be counted in a conversation."""

    events: int = 0
    user_messages: int = 0
    answers: int = 0
    """Of the model; one may be several events."""
    calls: Calls = field(default_factory=Calls)
    """Of all models, as the events' metrics add them up."""
    calls_by_model: Mapping[str, Calls] = field(default_factory=dict)
    """By the model's name, which is empty where the log does not say it."""
    latency: Durations = Durations()
    """From the event that asked to the answer, where the log says which one asked."""
    actions: Mapping[str, Actions] = field(default_factory=dict)
    """By kind, as `run`: those that a runtime or another agent has to carry out."""
    worked_s: float = 0.0
    """How long the model and the actions took; those at the same time count each."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    """Times of the first and the last event, in the order of ids."""


@dataclass(slots=True)
class _Work:
    """An action without an observation."""

    kind: str
    at: datetime
    in_turn: bool
    """Whether it waits for the ones before it; delegates do not."""
    held: bool
    """Whether it waits for the user's yes."""
    begun_at: datetime | None = None
    """None while it waits, and where nothing says that it did."""


@dataclass(slots=True)
class _Kind:
    """What is known of the actions of one kind so far."""

    count: int = 0
    failed: int = 0
    refused: int = 0
    durations_s: list[float] = field(default_factory=list)


class Tally:
    """Statistics in the making: `add` every event in the order of ids, and ask for `statistics` at any time."""

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
        """Take in the next event. Total: no event is refused."""
        counted, event, at = self._counted, envelope.event, envelope.timestamp
        said = isinstance(event, MessageAction) and envelope.source is EventSource.USER and not event.queued
        begins = self._take_answer(envelope)
        self._counted = replace(
            counted,
            events=counted.events + 1,
            user_messages=counted.user_messages + said,
            answers=counted.answers + begins,
            first_at=counted.first_at or at,
            last_at=at,
        )
        if begins and envelope.cause in self._times:
            self._latencies_s.append(_seconds(self._times[envelope.cause], at))
        self._times[envelope.id] = at
        if isinstance(event, AgentDelegateObservation):
            self._add_delegate(event)
        else:
            self._add_call(event.llm_metrics, begins)
        match event:
            case Action(acts=True):
                self._begin(envelope, event)
            case Observation():
                self._end(envelope, event)
        self._hear(envelope)
        self._go_on(at)

    def statistics(self) -> Statistics:
        """What was counted until now."""
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
        """Note which answer of the model this belongs to; whether it is the first event of it.

        The events of one answer have one cause, or one id at the provider where a trajectory from elsewhere has no
        causes. An error counts where it is what the model's words came to, and not what an action came to.
        """
        event = envelope.event
        if envelope.source is not EventSource.AGENT or isinstance(event, _NOT_SAID):
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
        """Count the call that led to these sums, unless the same sums were seen before.

        An answer without sums is a call all the same: nobody knows what it cost.
        """
        if metrics is None:
            if begins_answer:
                self._add("", Calls(count=1, cost=None, unpriced=1))
        elif begins_answer or metrics != self._metrics:
            self._add(metrics.accumulated_token_usage.model, calls_between(self._metrics, metrics))
            self._metrics = metrics

    def _add_delegate(self, observation: AgentDelegateObservation) -> None:
        """Count the calls of a delegate: its metrics are its own sums, and part of its parent's from then on."""
        if (metrics := observation.llm_metrics) is None:
            return
        answers = observation.outputs.get("iterations")
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
        held = getattr(action, "confirmation_state", None) is ActionConfirmationStatus.AWAITING_CONFIRMATION
        self._works[envelope.id] = _Work(action.kind, envelope.timestamp, action.runnable, held)

    def _end(self, envelope: Envelope, observation: Observation) -> None:
        """The first observation of an action ends it; a second one is none of its."""
        work = self._works.pop(envelope.cause, None) if envelope.cause is not None else None
        if work is None:
            return
        known = self._kinds[work.kind]
        if _refused(observation):
            known.refused += 1
            return
        known.failed += _failed(observation)
        known.durations_s.append(_seconds(work.begun_at or work.at, envelope.timestamp))

    def _hear(self, envelope: Envelope) -> None:
        """What lets actions begin: the end of a pause, and the user's yes, whatever was waited for until then."""
        match envelope.event:
            case AgentStateChangedObservation(agent_state=agent_state):
                self._paused = agent_state is AgentState.PAUSED
            case ChangeAgentStateAction(agent_state=AgentState.USER_CONFIRMED):
                meant = next(iter(self._works), -1) if envelope.cause is None else envelope.cause
                work = self._works.get(meant)
                if work is not None and work.held:
                    work.held, work.begun_at = False, envelope.timestamp

    def _go_on(self, at: datetime) -> None:
        """The first of the actions that wait for their turn begins, unless there is a pause."""
        first = next((work for work in self._works.values() if work.in_turn), None)
        if first is not None and first.begun_at is None and not self._paused:
            first.begun_at = at


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())


_NOT_WANTED = (NOT_EXECUTED_BEHIND, NOT_EXECUTED_STOPPED)


def _refused(observation: Observation) -> bool:
    """Whether an action was not carried out because somebody did not want it."""
    stopped = isinstance(observation, ErrorObservation) and observation.error_id in _NOT_WANTED
    return stopped or isinstance(observation, UserRejectObservation)


def _failed(observation: Observation) -> bool:
    """Whether an action was carried out without success; of a command that still runs nobody knows."""
    if isinstance(observation, CmdOutputObservation) and observation.exit_code == -1:
        return False
    return observation.success is False
