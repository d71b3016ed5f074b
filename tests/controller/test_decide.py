"""The rules one by one: V0's should-step table, confirmation, limits, and what an interrupt leaves behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from core.controller.decide import (
    MODEL_FAILED,
    NOT_EXECUTED_STOPPED,
    AskAgent,
    Cancel,
    Effect,
    Emit,
    Execute,
    evolve,
    fold,
    react,
    resume,
)
from core.controller.state import Limits, State
from core.events import (
    ActionConfirmationStatus,
    AgentFinishAction,
    AgentRejectAction,
    AgentState,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    CmdOutputObservation,
    CmdRunAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    LLMMetrics,
    MessageAction,
    NullObservation,
    RecallAction,
    RecallObservation,
    RecallType,
    SystemMessageAction,
    ToolCallMetadata,
    UserRejectObservation,
)

AGENT, USER, ENVIRONMENT = EventSource.AGENT, EventSource.USER, EventSource.ENVIRONMENT


class Talk:
    """A conversation told event by event; emitted events are appended as the shell would."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits
        self.log: list[Envelope] = []
        self.state = State.initial(limits)
        self.add(SystemMessageAction(content=""), AGENT)

    def add(self, event: Event, source: EventSource, cause: int | None = None) -> list[Effect]:
        """Append one event; the answer is every effect that followed, emitted events included."""
        envelope = Envelope(
            conversation_id="c",
            id=len(self.log),
            timestamp=datetime(2026, 1, 1, tzinfo=UTC),
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
        """A message that memory has answered; the agent has been asked. The answer is what it was asked about."""
        self.add(MessageAction(content=text), USER)
        recall = max(e.id for e in self.log if isinstance(e.event, RecallAction))
        self.add(NullObservation(), ENVIRONMENT, recall)
        assert self.state.asked is not None
        return self.state.asked

    def agent_runs(self, *commands: str, held: bool = False, cost: float | None = None) -> list[int]:
        """One answer with a tool call for each command; the answer is their ids."""
        cause, ids = self.state.asked, []
        status = ActionConfirmationStatus.AWAITING_CONFIRMATION if held else ActionConfirmationStatus.CONFIRMED
        for command in commands:
            metadata = ToolCallMetadata(
                function_name="execute_bash", tool_call_id=command, total_calls_in_response=len(commands)
            )
            metrics = LLMMetrics(accumulated_cost=cost) if cost is not None else None
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


def test_a_message_of_the_user_leads_to_a_recall_and_then_to_a_step() -> None:
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


def test_a_message_of_the_agent_leads_to_a_step_unless_it_waits_for_the_user() -> None:
    talk = Talk()
    cause = talk.user_says()
    assert asks(talk.add(MessageAction(content="thinking aloud"), AGENT, cause))
    assert not asks(talk.add(MessageAction(content="which one?", wait_for_response=True), AGENT, talk.state.asked))
    assert talk.state.agent_state is AgentState.AWAITING_USER_INPUT


def test_an_observation_of_the_action_in_hand_leads_to_a_step() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("ls")
    assert asks(talk.add(CmdOutputObservation(command="ls"), AGENT, action))


@pytest.mark.parametrize("cause", [None, 0, 999])
def test_a_null_observation_without_a_cause_that_waits_leads_to_nothing(cause: int | None) -> None:
    talk = Talk()
    talk.user_says()
    talk.agent_runs("ls")
    assert talk.add(NullObservation(), ENVIRONMENT, cause) == []


def test_a_change_of_state_leads_to_no_step_by_itself() -> None:
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
def test_the_agent_can_end_its_work(event: Event, expected: AgentState) -> None:
    talk = Talk()
    cause = talk.user_says()
    assert not asks(talk.add(event, AGENT, cause))
    assert talk.state.agent_state is expected


# -- messages that come at a bad moment ----------------------------------------------------------------------------


def test_a_message_that_arrives_while_the_agent_thinks_is_answered_after_it() -> None:
    talk = Talk()
    cause = talk.user_says("first")
    talk.add(MessageAction(content="second"), USER)
    talk.add(NullObservation(), ENVIRONMENT, talk.last_id - (1 if talk.log[-1].event.kind != "recall" else 0))
    assert asks(talk.add(AgentFinishAction(), AGENT, cause))


def test_a_message_does_not_confirm_an_action_that_waits() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("rm -rf x", held=True)
    talk.add(MessageAction(content="hm"), USER)
    assert talk.state.awaiting == action
    assert talk.state.running is None


# -- several tool calls --------------------------------------------------------------------------------------------


def test_several_tool_calls_run_one_after_the_other_in_order() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b")
    assert talk.state.running == first
    assert Execute(second) in talk.add(CmdOutputObservation(command="a"), AGENT, first)
    assert asks(talk.add(CmdOutputObservation(command="b"), AGENT, second))
    assert talk.state.iteration == 1


# -- confirmation --------------------------------------------------------------------------------------------------


def test_a_confirmed_action_keeps_its_identity() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("ls", held=True)
    assert talk.state.agent_state is AgentState.AWAITING_USER_CONFIRMATION
    assert Execute(action) in talk.wish(AgentState.USER_CONFIRMED)
    assert sum(isinstance(e.event, CmdRunAction) for e in talk.log) == 1


def test_a_rejected_action_is_answered_and_the_user_is_asked() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b", held=True)
    talk.wish(AgentState.USER_REJECTED)
    answers = {e.cause: e.event for e in talk.log if e.cause in (first, second)}
    assert isinstance(answers[first], UserRejectObservation)
    assert isinstance(answers[second], ErrorObservation)
    assert talk.state.agent_state is AgentState.AWAITING_USER_INPUT


def test_a_rejection_with_a_reason_lets_the_agent_go_on() -> None:
    talk = Talk()
    talk.user_says()
    talk.agent_runs("a", held=True)
    assert asks(talk.wish(AgentState.USER_REJECTED, "use git rm"))


def test_a_confirmation_of_another_action_is_ignored() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("a", held=True)
    stale = ChangeAgentStateAction(agent_state=AgentState.USER_CONFIRMED)
    assert talk.add(stale, USER, cause=action - 1) == []
    assert talk.state.awaiting == action


# -- interrupt, pause, resume --------------------------------------------------------------------------------------


def test_an_interrupt_cancels_the_model_call_and_its_late_answer_is_not_carried_out() -> None:
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


def test_an_interrupt_cancels_the_running_action_and_answers_those_behind_it() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b")
    effects = talk.wish(AgentState.STOPPED)
    assert Cancel(first) in effects
    assert [e.cause for e in effects if isinstance(e, Emit) and e.cause is not None] == [second]
    talk.add(CmdOutputObservation(command="a"), AGENT, first)
    assert (talk.state.queue, talk.state.owed) == ((), ())


def test_a_pause_lets_the_running_action_end_and_starts_nothing_after_it() -> None:
    talk = Talk()
    talk.user_says()
    first, second = talk.agent_runs("a", "b")
    talk.wish(AgentState.PAUSED)
    assert talk.add(CmdOutputObservation(command="a"), AGENT, first) == []
    assert Execute(second) in talk.wish(AgentState.RUNNING)


def test_an_interrupt_when_nothing_goes_on_changes_nothing() -> None:
    talk = Talk()
    before = talk.state
    assert talk.wish(AgentState.STOPPED) == []
    assert talk.state == before


# -- limits --------------------------------------------------------------------------------------------------------


def test_reaching_the_iteration_limit_asks_and_one_wish_extends_it() -> None:
    talk = Talk(Limits(max_iterations=1))
    talk.user_says()
    (action,) = talk.agent_runs("a")
    assert not asks(talk.add(CmdOutputObservation(command="a"), AGENT, action))
    assert (talk.state.agent_state, talk.state.limit) == (AgentState.PAUSED, "iterations")
    assert talk.state.reason == "Agent reached maximum iteration. Current iteration: 1, max iteration: 1"
    assert asks(talk.wish(AgentState.RUNNING))
    assert talk.state.max_iterations == 2


def test_reaching_the_budget_asks_and_a_message_does_not_extend_it() -> None:
    talk = Talk(Limits(max_budget=5.0))
    talk.user_says()
    (action,) = talk.agent_runs("a", cost=5.0)
    talk.add(CmdOutputObservation(command="a"), AGENT, action)
    assert talk.state.limit == "budget"
    assert talk.state.reason == "Agent reached maximum budget for conversation.Current budget: 5.00, max budget: 5.00"
    talk.add(MessageAction(content="go on"), USER)
    assert talk.state.limit == "budget"
    talk.wish(AgentState.RUNNING)
    extended = talk.state
    assert (extended.limit, extended.max_budget) == (None, 10.0)


def test_an_unknown_price_reaches_no_budget() -> None:
    talk = Talk(Limits(max_budget=0.01))
    talk.user_says()
    (action,) = talk.agent_runs("a")
    talk.state = replace(talk.state, metrics=LLMMetrics(accumulated_cost=None))
    assert asks(talk.add(CmdOutputObservation(command="a"), AGENT, action))


# -- failures and restarts -----------------------------------------------------------------------------------------


def test_a_model_that_fails_leaves_a_conversation_that_goes_on_when_asked() -> None:
    talk = Talk()
    cause = talk.user_says()
    talk.add(ErrorObservation(content="503", error_id=MODEL_FAILED), ENVIRONMENT, cause)
    assert (talk.state.agent_state, talk.state.reason) == (AgentState.ERROR, "503")
    assert asks(talk.wish(AgentState.RUNNING))


def test_a_restart_settles_what_was_in_flight_and_runs_nothing_again() -> None:
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


def test_a_restart_keeps_a_question_that_waits_for_the_user() -> None:
    talk = Talk()
    talk.user_says()
    (action,) = talk.agent_runs("a", held=True)
    assert resume(fold(talk.log)) == ()
    assert fold(talk.log).awaiting == action


def test_the_fold_of_every_prefix_is_the_state_that_was_live() -> None:
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
