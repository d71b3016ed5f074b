"""Single rules: the should-step table of V0, confirmation, limits, and what an interrupt leaves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from core.controller.decide import AskAgent, Cancel, Effect, Emit, Execute, evolve, fold, react, resume
from core.controller.exit_reasons import Halt, HaltKind, HaltOption
from core.controller.limits import daily_limit_reached
from core.controller.not_executed import NOT_EXECUTED_STOPPED
from core.controller.state import Limits, State
from core.errors import ModelErrorKind
from core.events import (
    ActionConfirmationStatus,
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentFinishAction,
    AgentRejectAction,
    AgentState,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    CmdOutputObservation,
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    LLMMetrics,
    LoopDetectionObservation,
    LoopRecoveryAction,
    MessageAction,
    NullAction,
    NullObservation,
    Observation,
    RecallAction,
    RecallObservation,
    RecallType,
    SystemMessageAction,
    TokenUsage,
    ToolCallMetadata,
    UserRejectObservation,
)
from core.memory.view import View
from core.store.writer import Spent

AGENT, USER, ENVIRONMENT = EventSource.AGENT, EventSource.USER, EventSource.ENVIRONMENT


class Talk:
    """A conversation built event by event; emitted events are appended as in the controller."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.log: list[Envelope] = []
        self.state = State.initial(limits)
        self.add(SystemMessageAction(content=""), AGENT)

    def add(self, event: Event, source: EventSource, cause: int | None = None) -> list[Effect]:
        """Append one event; the answer is every effect that followed, emitted events included."""
        envelope = Envelope(
            conversation_id="c",
            id=len(self.log),
            timestamp=self.now,
            source=source,
            cause=cause,
            event=event,
        )
        self.log.append(envelope)
        before, self.state = self.state, evolve(self.state, envelope)
        effects = list(react(before, self.state, envelope))
        for effect in tuple(effects):
            if isinstance(effect, Emit):
                effects += self.add(effect.event, effect.source, effect.cause)
        return effects

    @property
    def last_id(self) -> int:
        return len(self.log) - 1

    def user_says(self, text: str = "do it") -> int:
        """A message that memory has answered, so that the agent is called. The answer refers to that call."""
        self.add(MessageAction(content=text), USER)
        recall = max(e.id for e in self.log if isinstance(e.event, RecallAction))
        self.add(NullObservation(), ENVIRONMENT, recall)
        assert self.state.asked is not None
        return self.state.asked

    def agent_runs(
        self, *commands: str, held: bool = False, cost: float | None = None, metrics: LLMMetrics | None = None
    ) -> list[int]:
        """One answer with a tool call for each command; the answer is their ids."""
        cause, ids = self.state.asked, []
        status = ActionConfirmationStatus.AWAITING_CONFIRMATION if held else ActionConfirmationStatus.CONFIRMED
        for command in commands:
            metadata = ToolCallMetadata(
                function_name="execute_bash", tool_call_id=command, total_calls_in_response=len(commands)
            )
            metrics = LLMMetrics(accumulated_cost=cost) if cost is not None else metrics
            ids.append(len(self.log))
            self.add(
                CmdRunAction(
                    command=command, confirmation_state=status, tool_call_metadata=metadata, llm_metrics=metrics
                ),
                AGENT,
                cause,
            )
        return ids

    def wish(self, state: AgentState, thought: str = "") -> list[Effect]:
        return self.add(ChangeAgentStateAction(agent_state=state, thought=thought), USER)


def asks(effects: list[Effect]) -> bool:
    return any(isinstance(effect, AskAgent) for effect in effects)


# -- the should-step table -----------------------------------------------------------------------------------------


def test_user_message_triggers_recall_then_model_call() -> None:
    talk = Talk()
    effects = talk.add(MessageAction(content="hello"), USER)
    assert effects[0] == Emit(RecallAction(recall_type=RecallType.WORKSPACE_CONTEXT, query="hello"), USER, 2)
    assert not asks(effects)
    assert asks(talk.add(RecallObservation(recall_type=RecallType.WORKSPACE_CONTEXT), ENVIRONMENT, 3))


def test_later_messages_recall_knowledge() -> None:
    talk = Talk()
    talk.user_says()
    effects = talk.add(MessageAction(content="more"), USER)
    assert isinstance(effects[0], Emit)
    assert effects[0].event == RecallAction(recall_type=RecallType.KNOWLEDGE, query="more")


def test_agent_message_triggers_model_call_unless_it_waits_for_the_user() -> None:
    talk = Talk()
    cause = talk.user_says()
    assert asks(talk.add(MessageAction(content="thinking aloud"), AGENT, cause))
    assert not asks(talk.add(MessageAction(content="which one?", wait_for_response=True), AGENT, talk.state.asked))
    assert talk.state.agent_state is AgentState.AWAITING_USER_INPUT


def test_observation_of_running_action_triggers_model_call() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("ls")
    assert asks(talk.add(CmdOutputObservation(command="ls"), AGENT, action))


@pytest.mark.parametrize("cause", [None, 0, 999])
def test_unrelated_null_observation_has_no_effect(cause: int | None) -> None:
    talk = Talk()
    talk.user_says()
    talk.agent_runs("ls")
    assert talk.add(NullObservation(), ENVIRONMENT, cause) == []


def test_state_change_alone_triggers_no_model_call() -> None:
    talk = Talk()
    talk.user_says()
    talk.agent_runs("ls")
    changed = AgentStateChangedObservation(agent_state=AgentState.RUNNING)
    assert talk.add(changed, ENVIRONMENT) == []


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (AgentFinishAction(), AgentState.FINISHED),
        (AgentRejectAction(), AgentState.REJECTED),
    ],
)
def test_finish_and_reject_end_the_work(event: Event, expected: AgentState) -> None:
    talk = Talk()
    cause = talk.user_says()
    assert not asks(talk.add(event, AGENT, cause))
    assert talk.state.agent_state is expected


# -- messages that come at a bad moment ----------------------------------------------------------------------------


def test_message_during_a_model_call_is_answered_after_it() -> None:
    talk = Talk()
    cause = talk.user_says("first")
    talk.add(MessageAction(content="second"), USER)
    talk.add(NullObservation(), ENVIRONMENT, talk.last_id - (1 if talk.log[-1].event.kind != "recall" else 0))
    assert asks(talk.add(AgentFinishAction(), AGENT, cause))


def test_message_does_not_confirm_a_waiting_action() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("rm -rf x", held=True)
    talk.add(MessageAction(content="hm"), USER)
    assert talk.state.awaiting == action
    assert talk.state.running == ()


# -- several tool calls --------------------------------------------------------------------------------------------


def test_tool_calls_run_in_order_one_at_a_time() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b")
    assert talk.state.running == (first,)
    assert Execute(second) in talk.add(CmdOutputObservation(command="a"), AGENT, first)
    assert asks(talk.add(CmdOutputObservation(command="b"), AGENT, second))
    assert talk.state.iteration == 1


# -- confirmation --------------------------------------------------------------------------------------------------


def test_confirmed_action_keeps_its_id() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("ls", held=True)
    assert talk.state.agent_state is AgentState.AWAITING_USER_CONFIRMATION
    assert Execute(action) in talk.wish(AgentState.USER_CONFIRMED)
    assert sum(isinstance(e.event, CmdRunAction) for e in talk.log) == 1


def test_denied_action_is_answered_and_agent_rests() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b", held=True)
    talk.wish(AgentState.USER_REJECTED)
    answers = {e.cause: e.event for e in talk.log if e.cause in (first, second)}
    assert isinstance(answers[first], UserRejectObservation)
    assert isinstance(answers[second], ErrorObservation)
    assert talk.state.agent_state is AgentState.AWAITING_USER_INPUT
    assert "the user denied an action of the same answer" in str(answers[second])


def test_denial_with_a_reason_lets_the_agent_go_on() -> None:
    talk = Talk()
    talk.user_says()
    talk.agent_runs("a", held=True)
    assert asks(talk.wish(AgentState.USER_REJECTED, "use git rm"))


def test_actions_after_a_denied_one_ask_unless_they_only_read() -> None:
    talk = Talk()
    talk.user_says()
    first, second, third, fourth = talk.agent_runs("a", "b", "grep x", "c", held=True)
    grep = CmdRunAction(command="grep x", tool_call_metadata=ToolCallMetadata(function_name="grep", tool_call_id="g"))
    queue = tuple(replace(p, held=False, action=grep) if p.id == third else p for p in talk.state.queue)
    talk.state = replace(talk.state, queue=queue)
    assert not asks(talk.wish(AgentState.USER_REJECTED, "not that"))
    assert talk.state.awaiting == second
    assert Execute(second) in talk.wish(AgentState.USER_CONFIRMED)
    assert Execute(third) in talk.add(CmdOutputObservation(command="b"), AGENT, second)
    talk.add(CmdOutputObservation(command="grep x"), AGENT, third)
    assert talk.state.awaiting == fourth
    assert asks(talk.wish(AgentState.USER_REJECTED, "nor that"))
    answered = [e.cause for e in talk.log if e.cause in (first, second, third, fourth)]
    assert sorted(answered) == [first, second, third, fourth]


def test_allowed_action_asks_after_a_denied_one() -> None:
    talk = Talk()
    talk.user_says()
    _first, second = talk.agent_runs("a", "b", held=True)
    talk.state = replace(talk.state, queue=tuple(replace(p, held=p.id != second) for p in talk.state.queue))
    talk.wish(AgentState.USER_REJECTED, "not that")
    assert talk.state.awaiting == second


def test_confirmation_of_another_action_is_ignored() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("a", held=True)
    stale = ChangeAgentStateAction(agent_state=AgentState.USER_CONFIRMED)
    assert talk.add(stale, USER, cause=action - 1) == []
    assert talk.state.awaiting == action


# -- interrupt, pause, resume --------------------------------------------------------------------------------------


def test_late_answer_of_a_cancelled_model_call_is_not_run() -> None:
    talk = Talk()
    cause = talk.user_says()
    assert Cancel(cause) in talk.wish(AgentState.STOPPED)
    late = len(talk.log)
    effects = talk.add(CmdRunAction(command="late"), AGENT, cause)
    assert effects[0] == Emit(
        ErrorObservation(
            content="Stop button pressed. The action has not been executed.", error_id=NOT_EXECUTED_STOPPED
        ),
        AGENT,
        late,
    )
    assert talk.state.agent_state is AgentState.STOPPED


def test_interrupt_cancels_running_action_and_answers_queued_ones() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b")
    effects = talk.wish(AgentState.STOPPED)
    assert Cancel(first) in effects
    assert [e.cause for e in effects if isinstance(e, Emit) and e.cause is not None] == [second]
    talk.add(CmdOutputObservation(command="a"), AGENT, first)
    assert (talk.state.queue, talk.state.owed) == ((), ())


def test_pause_starts_nothing_after_the_running_action() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b")
    talk.wish(AgentState.PAUSED)
    assert talk.add(CmdOutputObservation(command="a"), AGENT, first) == []
    assert Execute(second) in talk.wish(AgentState.RUNNING)


def test_interrupt_at_rest_changes_nothing() -> None:
    talk = Talk()
    before = talk.state
    assert talk.wish(AgentState.STOPPED) == []
    assert talk.state == before


# -- limits --------------------------------------------------------------------------------------------------------


def test_iteration_limit_asks_and_can_be_extended() -> None:
    talk = Talk(Limits(max_iterations=1))
    talk.user_says()
    (action,) = talk.agent_runs("a")
    assert not asks(talk.add(CmdOutputObservation(command="a"), AGENT, action))
    assert (talk.state.agent_state, talk.state.halt) == (AgentState.PAUSED, Halt(HaltKind.LIMIT, "iterations"))
    assert talk.state.reason == "Agent reached maximum iteration. Current iteration: 1, max iteration: 1"
    assert asks(talk.wish(AgentState.RUNNING))
    assert talk.state.allowed.max_iterations == 2


def test_budget_asks_and_a_message_does_not_extend_it() -> None:
    talk = Talk(Limits(max_budget=5.0))
    talk.user_says()
    (action,) = talk.agent_runs("a", cost=5.0)
    talk.add(CmdOutputObservation(command="a"), AGENT, action)
    assert talk.state.halt == Halt(HaltKind.LIMIT, "budget")
    assert talk.state.reason == "Agent reached maximum budget for conversation.Current budget: 5.00, max budget: 5.00"
    talk.add(MessageAction(content="go on"), USER)
    assert talk.state.halt == Halt(HaltKind.LIMIT, "budget")
    talk.wish(AgentState.RUNNING)
    extended = talk.state
    assert (extended.halt, extended.allowed.max_budget) == (None, 15.0)


def test_budget_with_unknown_price_asks_and_resuming_removes_it() -> None:
    talk = Talk(Limits(max_budget=0.01))
    talk.user_says()
    (action,) = talk.agent_runs("a")
    talk.state = replace(talk.state, metrics=LLMMetrics(accumulated_cost=None))
    talk.add(CmdOutputObservation(command="a"), AGENT, action)
    assert talk.state.halt == Halt(HaltKind.LIMIT, "unpriced")
    assert "The price of this model is not known" in talk.state.reason
    assert asks(talk.wish(AgentState.RUNNING))
    assert talk.state.allowed.max_budget is None


def test_late_answer_keeps_an_unknown_cost_unknown() -> None:
    talk = Talk(Limits(max_budget=1.0))
    talk.user_says()
    (action,) = talk.agent_runs("a")
    talk.state = replace(talk.state, metrics=LLMMetrics(accumulated_cost=None))
    late = CmdRunAction(command="b", llm_metrics=LLMMetrics(accumulated_cost=0.1))
    talk.add(late, AGENT, 0)
    talk.add(CmdOutputObservation(command="a"), AGENT, action)
    assert talk.state.halt == Halt(HaltKind.LIMIT, "unpriced")


def test_budget_is_checked_before_the_call_that_would_exceed_it() -> None:
    talk = Talk(Limits(max_budget=1.0))
    talk.user_says()
    (action,) = talk.agent_runs("a", cost=0.6)
    talk.add(CmdOutputObservation(command="a"), AGENT, action)
    assert talk.state.halt == Halt(HaltKind.LIMIT, "budget")
    assert talk.state.reason.endswith("max budget: 1.00; the next call is expected to take $0.60")


def test_extension_covers_the_next_call() -> None:
    talk = Talk(Limits(max_budget=0.1))
    talk.user_says()
    (action,) = talk.agent_runs("a", cost=2.0)
    talk.add(CmdOutputObservation(command="a"), AGENT, action)
    assert asks(talk.wish(AgentState.RUNNING))


def test_token_limit_includes_the_next_call() -> None:
    talk = Talk(Limits(max_tokens=1000))
    talk.user_says()
    usage = TokenUsage(prompt_tokens=550, completion_tokens=50, per_turn_token=600)
    (action,) = talk.agent_runs("a", metrics=LLMMetrics(accumulated_token_usage=usage))
    talk.add(CmdOutputObservation(command="a"), AGENT, action)
    assert talk.state.halt == Halt(HaltKind.LIMIT, "tokens")
    assert asks(talk.wish(AgentState.RUNNING))


def test_only_working_time_counts_even_if_the_clock_is_set_back() -> None:
    talk = Talk(Limits(max_seconds=100))
    talk.user_says()
    (action,) = talk.agent_runs("a")
    talk.now += timedelta(seconds=60)
    talk.wish(AgentState.PAUSED)
    assert talk.state.worked_s == 60
    talk.now += timedelta(hours=5)
    talk.wish(AgentState.RUNNING)
    talk.now -= timedelta(days=1)
    asked = talk.add(CmdOutputObservation(command="a"), AGENT, action)
    assert asks(asked)
    talk.now += timedelta(days=1, seconds=50)
    (action,) = talk.agent_runs("b")
    talk.add(CmdOutputObservation(command="b"), AGENT, action)
    assert talk.state.halt == Halt(HaltKind.LIMIT, "time")
    assert asks(talk.wish(AgentState.RUNNING))


def test_daily_limit_extension_is_valid_for_that_day_only() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(ErrorObservation(content="today's", error_id="LIMIT$DAY_BUDGET"), ENVIRONMENT, cause)
    assert (talk.state.agent_state, talk.state.halt) == (AgentState.PAUSED, Halt(HaltKind.LIMIT, "day_budget"))
    talk.add(MessageAction(content="go on"), USER)
    assert talk.state.halt is not None
    talk.wish(AgentState.RUNNING)
    day, today = Limits(max_iterations=None, max_budget=1.0), talk.now.date()
    assert daily_limit_reached(talk.state, day, Spent(cost=1.5), today) is None
    assert daily_limit_reached(talk.state, day, Spent(cost=2.0), today) is not None
    assert daily_limit_reached(talk.state, day, Spent(cost=1.5), today + timedelta(days=1)) is not None


@pytest.mark.parametrize(
    ("day", "spent", "name"),
    [
        (Limits(max_iterations=5), Spent(calls=5), "day_iterations"),
        (Limits(None, max_budget=5.0), Spent(cost=5.0), "day_budget"),
        (Limits(None, max_tokens=5), Spent(tokens=5), "day_tokens"),
        (Limits(None, max_seconds=5), Spent(seconds=5.0), "day_time"),
        (Limits(5, 5.0, 5, 5), Spent(calls=4, cost=4.0, tokens=4, seconds=4.0), None),
    ],
)
def test_every_daily_limit_is_checked(day: Limits, spent: Spent, name: str | None) -> None:
    found = daily_limit_reached(State.initial(), day, spent, date(2026, 1, 1))
    assert (found and found.name) == name


# -- failures and restarts -----------------------------------------------------------------------------------------


def test_failed_model_call_can_be_resumed() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(ErrorObservation(content="503", error_id="LLM$SERVER"), ENVIRONMENT, cause)
    assert (talk.state.agent_state, talk.state.reason) == (AgentState.ERROR, "503")
    assert talk.state.halt == Halt(HaltKind.MODEL, "server")
    assert asks(talk.wish(AgentState.RUNNING))


def test_restart_settles_open_work_and_runs_nothing_again() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b")
    for effect in resume(fold(talk.log)):
        assert isinstance(effect, Emit)
        talk.add(effect.event, effect.source, effect.cause)
    answered = {e.cause for e in talk.log if isinstance(e.event, ErrorObservation)}
    assert answered == {first, second}
    assert talk.state.agent_state is AgentState.STOPPED
    assert asks(talk.wish(AgentState.RUNNING))


def test_restart_keeps_a_waiting_confirmation() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("a", held=True)
    assert resume(fold(talk.log)) == ()
    assert fold(talk.log).awaiting == action


def test_fold_of_every_prefix_equals_the_live_state() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("a", held=True)
    talk.wish(AgentState.USER_CONFIRMED)
    talk.add(CmdOutputObservation(command="a"), AGENT, action)
    state = State.initial()
    for count, envelope in enumerate(talk.log, 1):
        state = evolve(state, envelope)
        assert fold(talk.log[:count]) == state
    assert state == talk.state


# -- halts and the ways out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(ModelErrorKind))
def test_every_model_error_offers_options_including_stop(kind: ModelErrorKind) -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(CondensationRequestAction(), ENVIRONMENT)  # so that a history that is too long asks, too
    talk.add(ErrorObservation(content="no", error_id=f"LLM${kind.upper()}"), ENVIRONMENT, cause)
    assert talk.state.halt == Halt(HaltKind.MODEL, str(kind))
    assert len(talk.state.halt.options) >= 2
    assert talk.state.halt.options[-1] is HaltOption.STOP
    talk.wish(AgentState.STOPPED)
    stopped = talk.state
    assert (stopped.agent_state, stopped.halt) == (AgentState.STOPPED, None)


def test_message_resumes_after_an_error() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(ErrorObservation(content="no", error_id="LLM$CONTENT_POLICY"), ENVIRONMENT, cause)
    talk.user_says("in other words")
    assert (talk.state.agent_state, talk.state.halt) == (AgentState.RUNNING, None)


def test_lost_sandbox_halts_and_answers_queued_actions() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b")
    talk.add(ErrorObservation(content="gone", error_id="RUNTIME$UNAVAILABLE"), AGENT, first)
    assert (talk.state.agent_state, talk.state.halt) == (AgentState.ERROR, Halt(HaltKind.SANDBOX))
    assert [e.cause for e in talk.log if isinstance(e.event, ErrorObservation)] == [first, second]
    assert asks(talk.wish(AgentState.RUNNING))


def test_too_long_history_is_condensed_once_then_asks() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(ErrorObservation(content="too long", error_id="LLM$CONTEXT_WINDOW"), ENVIRONMENT, cause)
    assert isinstance(talk.log[-1].event, CondensationRequestAction)
    assert (talk.state.agent_state, talk.state.asked) == (AgentState.RUNNING, talk.last_id)
    cut = CondensationAction(forgotten_events_start_id=1, forgotten_events_end_id=2)
    assert asks(talk.add(cut, AGENT, talk.state.asked))
    assert talk.state.iteration == 0
    talk.add(ErrorObservation(content="too long", error_id="LLM$CONTEXT_WINDOW"), ENVIRONMENT, talk.state.asked)
    assert talk.state.halt == Halt(HaltKind.MODEL, "context_window")


def test_late_error_of_a_cancelled_call_changes_nothing() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.wish(AgentState.STOPPED)
    before = talk.state
    assert talk.add(ErrorObservation(content="503", error_id="LLM$SERVER"), ENVIRONMENT, cause) == []
    seen = replace(before, view_events=talk.state.view_events, view_tokens=talk.state.view_tokens)
    assert talk.state == seen  # only that the model will see it


def test_error_report_of_a_subscriber_answers_no_action() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(ErrorObservation(content="x", error_id="SUBSCRIBER$FAILED"), ENVIRONMENT, cause)
    assert talk.state.asked == cause


# -- loops ---------------------------------------------------------------------------------------------------------


def loops(talk: Talk, times: int = 4) -> list[int]:
    """The agent does the same again and again; the answer is the ids of its actions."""
    ids: list[int] = []
    for _ in range(times):
        ids += talk.agent_runs("make")
        talk.add(CmdOutputObservation(command="make", content="no rule"), AGENT, ids[-1])
    return ids


def test_loop_pauses_with_a_description_and_four_options() -> None:
    talk = Talk()
    talk.user_says()
    first, *_ = loops(talk)
    assert talk.state.agent_state is AgentState.PAUSED
    assert talk.state.halt == Halt(HaltKind.STUCK, "repeating_action_observation", first)
    assert set(talk.state.halt.options) == {HaltOption.CUT_LOOP, HaltOption.RESEND, HaltOption.TELL, HaltOption.STOP}
    assert isinstance(talk.log[-1].event, LoopDetectionObservation)
    assert "did the same 4 times" in talk.log[-1].event.content


def test_loop_can_be_cut_from_the_history_of_the_model() -> None:
    talk = Talk()
    talk.user_says()
    first, *_ = loops(talk)
    talk.add(LoopRecoveryAction(option=1), USER)
    assert talk.state.agent_state is AgentState.AWAITING_USER_INPUT
    (cut,) = [e.event for e in talk.log if isinstance(e.event, CondensationAction)]
    assert cut.forgotten[0] == first
    seen = [e.id for e in View.of(talk.log).events]
    assert not set(seen) & set(range(first, cut.forgotten[-1] + 1))
    talk.user_says("another way")
    assert talk.state.recent == ()


def test_message_or_resume_clears_the_loop() -> None:
    talk = Talk()
    talk.user_says()
    loops(talk)
    assert asks(talk.wish(AgentState.RUNNING))
    loops(talk, 3)
    assert talk.state.halt is None
    talk.user_says("go on")
    loops(talk, 3)
    assert talk.state.halt is None


def test_third_loop_option_stops() -> None:
    talk = Talk()
    talk.user_says()
    loops(talk)
    talk.add(LoopRecoveryAction(option=3), USER)
    assert (talk.state.agent_state, talk.state.halt) == (AgentState.STOPPED, None)


# -- queued messages -----------------------------------------------------------------------------------------------


def test_queued_messages_are_sent_in_order_when_the_agent_rests() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(MessageAction(content="next", queued=True), USER)
    talk.add(MessageAction(content="last", queued=True), USER)
    assert talk.state.asked == cause
    talk.add(AgentFinishAction(), AGENT, cause)
    said = [e.event.content for e in talk.log if isinstance(e.event, MessageAction) and not e.event.queued]
    assert said == ["do it", "next"]
    assert talk.state.agent_state is AgentState.RUNNING
    assert [queued.text for queued in talk.state.queued] == ["last"]


def test_queued_message_can_be_removed() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(MessageAction(content="next", queued=True), USER)
    talk.add(NullAction(), USER, talk.last_id)
    talk.add(AgentFinishAction(), AGENT, cause)
    assert (talk.state.agent_state, talk.state.queued) == (AgentState.FINISHED, ())


def test_message_queued_at_rest_is_sent_at_once() -> None:
    talk = Talk()
    talk.add(MessageAction(content="now", queued=True), USER)
    assert talk.state.agent_state is AgentState.RUNNING


def test_queue_survives_interrupt_and_restart() -> None:
    talk = Talk()
    talk.user_says()
    talk.add(MessageAction(content="next", queued=True), USER)
    talk.wish(AgentState.STOPPED)
    assert [queued.text for queued in talk.state.queued] == ["next"]
    assert resume(fold(talk.log)) == ()
    assert [queued.text for queued in fold(talk.log).queued] == ["next"]


# -- delegates and commands of the environment -------------------------------------------------------------------------


def delegate(talk: Talk, count: int, *, held: bool = False) -> list[int]:
    """One answer that delegates so many tasks, and runs a command after them."""
    status = ActionConfirmationStatus.AWAITING_CONFIRMATION if held else ActionConfirmationStatus.CONFIRMED
    cause, ids = talk.state.asked, []
    for number in range(count + 1):
        metadata = ToolCallMetadata(function_name="x", tool_call_id=str(number), total_calls_in_response=count + 1)
        ids.append(len(talk.log))
        event = AgentDelegateAction(
            agent="A", inputs={"task": str(number)}, tool_call_metadata=metadata, confirmation_state=status
        )
        last = CmdRunAction(command="after", tool_call_metadata=metadata)
        talk.add(event if number < count else last, AGENT, cause)
    return ids


def test_delegates_run_in_parallel_and_later_actions_wait_for_all() -> None:
    talk = Talk()
    talk.user_says()
    one, two, after = delegate(talk, 2)
    assert talk.state.running == (one, two)
    metrics = LLMMetrics(accumulated_cost=0.5)
    talk.add(AgentDelegateObservation(content="2", outputs={"iterations": 3}, llm_metrics=metrics), AGENT, two)
    left = talk.state.running
    assert list(left) == [one]
    effects = talk.add(AgentDelegateObservation(content="1", llm_metrics=metrics), AGENT, one)
    assert Execute(after) in effects
    assert (talk.state.metrics.accumulated_cost, talk.state.iteration) == (1.0, 4)


def test_delegates_that_need_approval_start_one_by_one() -> None:
    talk = Talk()
    talk.user_says()
    one, two, after = delegate(talk, 2, held=True)
    assert (talk.state.awaiting, talk.state.running) == (one, ())
    assert Execute(one) in talk.wish(AgentState.USER_CONFIRMED)
    assert (talk.state.awaiting, talk.state.running) == (two, (one,))
    assert Execute(two) in talk.wish(AgentState.USER_CONFIRMED)
    talk.add(AgentDelegateObservation(content="1"), AGENT, one)
    assert Execute(after) in talk.add(AgentDelegateObservation(content="2"), AGENT, two)


def test_denying_one_delegate_leaves_the_others_running() -> None:
    talk = Talk()
    talk.user_says()
    one, two, after = delegate(talk, 2, held=True)
    talk.wish(AgentState.USER_CONFIRMED)
    talk.wish(AgentState.USER_REJECTED)
    answered = {e.cause for e in talk.log if isinstance(e.event, Observation)}
    assert {two, after} <= answered
    assert talk.state.running == (one,)
    assert asks(talk.add(AgentDelegateObservation(content="1"), AGENT, one))


def test_observation_from_another_process_ends_the_question() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("a", held=True)
    assert asks(talk.add(CmdOutputObservation(command="a"), AGENT, action))


def test_repeated_unusable_answers_are_a_loop() -> None:
    talk = Talk()
    talk.user_says()
    for _ in range(3):
        talk.add(ErrorObservation(content="Your answer was empty."), AGENT, talk.state.asked)
    assert talk.state.halt is not None
    assert (talk.state.halt.kind, talk.state.halt.what) == (HaltKind.STUCK, "useless_answers")


def test_interrupting_the_parent_interrupts_every_delegate() -> None:
    talk = Talk()
    talk.user_says()
    one, two, after = delegate(talk, 2)
    effects = talk.wish(AgentState.STOPPED)
    assert {Cancel(one), Cancel(two)} <= set(effects)
    assert [e.cause for e in effects if isinstance(e, Emit) and e.cause is not None] == [after]


def test_environment_command_is_answered_after_a_crash() -> None:
    talk = Talk()
    talk.add(CmdRunAction(command="git clone", hidden=True), ENVIRONMENT)
    action = talk.last_id
    assert talk.state.agent_state is AgentState.AWAITING_USER_INPUT
    (effect,) = resume(fold(talk.log))
    assert isinstance(effect, Emit)
    assert effect.cause == action
    talk.add(CmdOutputObservation(command="git clone"), ENVIRONMENT, action)
    assert talk.state.side_actions == frozenset()


# -- the provider's rate limit ---------------------------------------------------------------------------------------


def waits(talk: Talk, state: AgentState = AgentState.RATE_LIMITED, cause: int | None = None) -> list[Effect]:
    """The model call begins or ends to wait."""
    asked = talk.state.asked if cause is None else cause
    return talk.add(ChangeAgentStateAction(agent_state=state), ENVIRONMENT, asked)


def test_wait_for_rate_limit_is_a_state_until_the_answer_arrives() -> None:
    talk = Talk()
    talk.user_says()
    assert Emit(AgentStateChangedObservation(agent_state=AgentState.RATE_LIMITED), ENVIRONMENT, None) in waits(talk)
    assert not talk.state.is_settled
    waits(talk, AgentState.RUNNING)
    assert talk.state.agent_state is AgentState.RUNNING
    waits(talk)
    talk.agent_runs("ls")
    assert talk.state.agent_state is AgentState.RUNNING
    assert talk.state.running


def test_wait_of_an_earlier_call_changes_nothing() -> None:
    talk = Talk()
    asked = talk.user_says()
    talk.agent_runs("ls")
    waits(talk, cause=asked)
    assert talk.state.agent_state is AgentState.RUNNING


def test_end_of_a_wait_does_not_resume_a_paused_or_stopped_agent() -> None:
    for wish in (AgentState.PAUSED, AgentState.STOPPED):
        talk = Talk()
        asked = talk.user_says()
        waits(talk)
        talk.wish(wish)
        waits(talk, AgentState.RUNNING, asked)
        assert talk.state.agent_state is wish


def test_call_that_fails_after_a_wait_is_an_error() -> None:
    talk = Talk()
    asked = talk.user_says()
    waits(talk)
    talk.add(ErrorObservation(content="no", error_id="LLM$RATE_LIMIT"), ENVIRONMENT, asked)
    assert (talk.state.agent_state, talk.state.halt) == (AgentState.ERROR, Halt(HaltKind.MODEL, "rate_limit"))
