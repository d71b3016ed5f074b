"""Statistics are a fold of the log: known figures for known logs, on every prefix, with any clock."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from core.controller.not_executed import NOT_EXECUTED_STOPPED
from core.events import (
    ActionConfirmationStatus,
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentFinishAction,
    AgentState,
    AgentStateChangedObservation,
    AgentThinkAction,
    ChangeAgentStateAction,
    CmdOutputMetadata,
    CmdOutputObservation,
    CmdRunAction,
    CondensationRequestAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileReadAction,
    FileReadObservation,
    LLMMetrics,
    MessageAction,
    NullAction,
    NullObservation,
    SystemMessageAction,
    TokenUsage,
    ToolCallMetadata,
    UserRejectObservation,
)
from core.llm.metrics import Calls
from core.statistics import Actions, Durations, Statistics, Tally

USER, AGENT, ENVIRONMENT = EventSource.USER, EventSource.AGENT, EventSource.ENVIRONMENT
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Log:
    """A log built event by event, with times in seconds after the first one."""

    def __init__(self) -> None:
        self.events: list[Envelope] = []

    def add(self, at_s: float, event: Event, source: EventSource = AGENT, cause: int | None = None) -> int:
        """Append one event; the answer is its id."""
        id, timestamp = len(self.events), BEGIN + timedelta(seconds=at_s)
        self.events.append(
            Envelope(conversation_id="c", id=id, timestamp=timestamp, source=source, cause=cause, event=event)
        )
        return id

    @property
    def statistics(self) -> Statistics:
        return statistics_of(self.events)


def statistics_of(log: Iterable[Envelope]) -> Statistics:
    """The statistics of a log, counted from its first event."""
    tally = Tally()
    for envelope in log:
        tally.add(envelope)
    return tally.statistics()


def spent(cost: float | None, prompt: int, completion: int, model: str = "m", read: int = 0) -> LLMMetrics:
    usage = TokenUsage(model=model, prompt_tokens=prompt, completion_tokens=completion, cache_read_tokens=read)
    return LLMMetrics(accumulated_cost=cost, accumulated_token_usage=usage)


def run(metrics: LLMMetrics | None = None, *, held: bool = False) -> CmdRunAction:
    state = ActionConfirmationStatus.AWAITING_CONFIRMATION if held else ActionConfirmationStatus.CONFIRMED
    return CmdRunAction(command="x", llm_metrics=metrics, confirmation_state=state)


def ran(exit_code: int = 0) -> CmdOutputObservation:
    return CmdOutputObservation(command="x", metadata=CmdOutputMetadata(exit_code=exit_code))


def worked() -> Log:
    """A task with two calls of tools in one answer, a read that fails, and a second model."""
    log = Log()
    log.add(0, SystemMessageAction(content="be good"))
    asked = log.add(10, MessageAction(content="go"), USER)
    first, second = (log.add(12, run(spent(0.5, 100, 10)), cause=asked) for _ in range(2))
    log.add(15, ran(), cause=first)
    done = log.add(16, ran(exit_code=1), cause=second)
    read = log.add(20, FileReadAction(path="f", llm_metrics=spent(0.75, 250, 15, "n", read=40)), cause=done)
    done = log.add(20.5, ErrorObservation(content="no such file"), cause=read)
    finish = AgentFinishAction(final_thought="done", llm_metrics=spent(1.0, 450, 20, read=90))
    log.add(30.5, finish, cause=done)
    log.add(30.5, AgentStateChangedObservation(agent_state=AgentState.FINISHED), ENVIRONMENT)
    return log


def test_log_has_the_expected_figures() -> None:
    assert worked().statistics == Statistics(
        events=10,
        user_messages=1,
        answers=3,
        calls=Calls(3, 1.0, 0, 450, 20, 90, 0),
        calls_by_model={"m": Calls(2, 0.75, 0, 300, 15, 50, 0), "n": Calls(1, 0.25, 0, 150, 5, 40, 0)},
        latency=Durations(3, 16.0, 4.0, 10.0, 10.0),
        actions={
            "read": Actions(1, 1, 0, Durations(1, 0.5, 0.5, 0.5, 0.5)),
            "run": Actions(2, 1, 0, Durations(2, 4.0, 2.0, 3.0, 3.0)),
        },
        worked_s=20.5,
        first_at=BEGIN,
        last_at=BEGIN + timedelta(seconds=30.5),
    )


def test_empty_log_has_no_figures() -> None:
    assert statistics_of([]) == Statistics()
    assert Durations.of([]) == Durations(0, 0.0, None, None, None)


def test_percentile_95_is_the_nearest_rank() -> None:
    assert Durations.of([float(n) for n in range(100, 0, -1)]) == Durations(100, 5050.0, 50.5, 95.0, 100.0)


# -- what calls cost -------------------------------------------------------------------------------------------------


def answers(*metrics: LLMMetrics | None) -> Statistics:
    """The statistics of a conversation whose answers report these accumulated costs."""
    log = Log()
    for sums in metrics:
        asked = log.add(0, MessageAction(content="go"), USER)
        log.add(1, MessageAction(content="done", llm_metrics=sums), cause=asked)
    return log.statistics


def test_cost_of_a_call_is_the_difference_of_the_sums() -> None:
    assert answers(spent(0.25, 10, 1), spent(0.75, 30, 2)).calls == Calls(2, 0.75, 0, 30, 2)


def test_unknown_cost_is_counted_and_never_0() -> None:
    known_then_not = answers(spent(0.25, 10, 1), spent(None, 20, 2), spent(None, 30, 3)).calls
    assert (known_then_not.count, known_then_not.cost, known_then_not.unpriced) == (3, 0.25, 2)
    assert known_then_not.prompt_tokens == 30
    assert answers(spent(None, 10, 1)).calls.cost is None
    assert answers(spent(0.0, 10, 1)).calls.cost == 0.0


def test_answer_without_cost_has_an_unknown_cost() -> None:
    assert answers(None).calls == Calls(1, None, 1)
    assert answers(None).calls_by_model == {"": Calls(1, None, 1)}


def test_equal_calls_without_cost_are_counted_separately() -> None:
    assert answers(spent(0.0, 0, 0), spent(0.0, 0, 0)).calls.count == 2


def test_sums_that_restart_belong_to_the_call() -> None:
    assert answers(spent(0.5, 100, 10), spent(0.25, 20, 5)).calls == Calls(2, 0.75, 0, 120, 15)
    assert answers(spent(None, 100, 10), spent(None, 20, 5)).calls.prompt_tokens == 120


def test_answers_without_causes_are_distinguished_by_their_ids() -> None:
    log = Log()
    for response, call in (("one", "a"), ("one", "b"), ("two", "c")):
        metadata = ToolCallMetadata(function_name="x", tool_call_id=call, model_response={"id": response})
        action = log.add(
            0, run(spent(0.5 if response == "one" else 0.75, 1, 1)).model_copy(update={"tool_call_metadata": metadata})
        )
        log.add(1, ran(), cause=action)
    assert (log.statistics.answers, log.statistics.calls.count, log.statistics.latency.count) == (2, 2, 0)
    assert log.statistics.calls.cost == 0.75


def test_answer_without_action_counts_but_failed_action_does_not() -> None:
    log = Log()
    asked = log.add(0, MessageAction(content="go"), USER)
    log.add(1, ErrorObservation(content="no such tool", llm_metrics=spent(0.5, 1, 1)), cause=asked)
    action = log.add(2, run(spent(1.0, 2, 2)), cause=1)
    log.add(3, ErrorObservation(content="boom"), cause=action)
    assert (log.statistics.answers, log.statistics.calls.cost) == (2, 1.0)


# -- how long actions took -------------------------------------------------------------------------------------------


def durations(log: Log, kind: str = "run") -> Actions:
    return log.statistics.actions[kind]


def test_waiting_for_approval_is_not_working_time() -> None:
    log = Log()
    action = log.add(0, run(held=True))
    log.add(100, ChangeAgentStateAction(agent_state=AgentState.USER_CONFIRMED), USER, action)
    log.add(102, ran(), cause=action)
    assert durations(log) == Actions(1, 0, 0, Durations(1, 2.0, 2.0, 2.0, 2.0))


def test_pause_is_not_working_time() -> None:
    log = Log()
    first, second = log.add(0, run()), log.add(0, run())
    log.add(1, AgentStateChangedObservation(agent_state=AgentState.PAUSED), ENVIRONMENT)
    log.add(2, ran(), cause=first)
    log.add(50, AgentStateChangedObservation(agent_state=AgentState.RUNNING), ENVIRONMENT)
    log.add(51, ran(), cause=second)
    assert durations(log).durations == Durations(2, 3.0, 1.5, 2.0, 2.0)


def test_action_that_never_ran_has_no_duration_and_did_not_fail() -> None:
    log = Log()
    first, second, third = (log.add(0, run(held=held)) for held in (False, True, False))
    log.add(5, ran(exit_code=130), cause=first)
    log.add(6, UserRejectObservation(content="no"), USER, second)
    log.add(7, ErrorObservation(content="Stop button pressed.", error_id=NOT_EXECUTED_STOPPED), cause=third)
    assert durations(log) == Actions(3, 1, 2, Durations(1, 5.0, 5.0, 5.0, 5.0))


def test_parallel_delegates_are_counted_separately() -> None:
    log = Log()
    first, second = (log.add(0, AgentDelegateAction(agent="CodeActAgent")) for _ in range(2))
    log.add(4, AgentDelegateObservation(content="x"), cause=first)
    log.add(6, AgentDelegateObservation(content="y"), cause=second)
    assert durations(log, "delegate").durations == Durations(2, 10.0, 5.0, 6.0, 6.0)
    assert log.statistics.worked_s == 10.0


def test_duplicate_late_or_stray_observations_count_once() -> None:
    log = Log()
    action = log.add(0, run())
    log.add(1, ran(), cause=action)
    log.add(9, ran(exit_code=1), cause=action)
    log.add(9, ran(exit_code=1), cause=77)
    assert durations(log) == Actions(1, 0, 0, Durations(1, 1.0, 1.0, 1.0, 1.0))


def test_running_command_has_not_failed() -> None:
    log = Log()
    log.add(10, ran(exit_code=-1), cause=log.add(0, run()))
    assert durations(log).failed == 0


def test_clock_set_back_adds_no_time() -> None:
    log = Log()
    asked = log.add(100, MessageAction(content="go"), USER)
    action = log.add(50, run(spent(0.0, 1, 1)), cause=asked)
    log.add(20, ran(), cause=action)
    found = log.statistics
    assert (found.latency, found.worked_s) == (Durations(1, 0.0, 0.0, 0.0, 0.0), 0.0)
    assert durations(log).durations == Durations(1, 0.0, 0.0, 0.0, 0.0)
    assert (found.first_at, found.last_at) == (BEGIN + timedelta(seconds=100), BEGIN + timedelta(seconds=20))


# -- any log ---------------------------------------------------------------------------------------------------------


def test_counts_never_decrease_while_events_are_folded() -> None:
    log, tally, before = worked(), Tally(), Statistics()
    for length, envelope in enumerate(log.events, 1):
        tally.add(envelope)
        found = tally.statistics()
        assert found == statistics_of(log.events[:length])
        assert found.events == length
        assert found.answers >= before.answers
        assert (found.calls.cost or 0) >= (before.calls.cost or 0)
        assert found.worked_s >= before.worked_s
        before = found
    assert before == log.statistics


SOME_EVENTS: list[Event] = [
    *(cls() for cls in (NullAction, NullObservation, AgentThinkAction, CondensationRequestAction)),
    *(MessageAction(content="x", llm_metrics=spent(cost, tokens, 1)) for cost in (None, 0.5) for tokens in (3, 9)),
    *(ChangeAgentStateAction(agent_state=state) for state in AgentState),
    *(AgentStateChangedObservation(agent_state=state) for state in AgentState),
    SystemMessageAction(content="x"),
    AgentDelegateAction(agent="x"),
    run(),
    run(held=True),
    ran(),
    ran(1),
    FileReadObservation(path="f"),
    UserRejectObservation(content="no"),
    ErrorObservation(content="no"),
]


def test_any_order_of_events_gives_consistent_figures(seed: int) -> None:
    """Half stories, causes that are not there, clocks that jump: there are figures all the same, and they add up."""
    rng = random.Random(seed)
    for _ in range(300):
        log = Log()
        for _ in range(rng.randrange(40)):
            cause = rng.choice([None, rng.randrange(40)])
            log.add(rng.uniform(-1e6, 1e6), rng.choice(SOME_EVENTS), rng.choice(list(EventSource)), cause)
        found = log.statistics
        assert found.calls.count >= found.answers
        assert sum(calls.count for calls in found.calls_by_model.values()) == found.calls.count
        assert (found.calls.cost is None) == (found.calls.count == found.calls.unpriced > 0)
        for actions in found.actions.values():
            assert actions.durations.count + actions.refused <= actions.count
            assert actions.failed <= actions.durations.count
        assert found.worked_s >= 0
