"""The decisions: `evolve(state, event) -> state` and `react(before, after, event) -> effects`.

No clock, no IO, no randomness, no asyncio, so that `fold(log)` is the live state, a restart is a fold, a replay can
execute nothing, and every interleaving can be checked by a model. Invariants: every runnable action gets exactly one
observation; never two model calls in flight; RUNNING always has something outstanding; no message of the user stays
unread; after an interrupt no action is left without its observation. Behaviour: OpenHands V0,
`openhands/controller/agent_controller.py`, but limits ask instead of ending the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from core.controller.state import Limits, Owed, State
from core.events import (
    Action,
    ActionConfirmationStatus,
    AgentFinishAction,
    AgentRejectAction,
    AgentState,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    MessageAction,
    NullObservation,
    Observation,
    RecallAction,
    RecallType,
    SystemMessageAction,
    UserRejectObservation,
)

MODEL_FAILED = "LLM$FAILED"
"""Error id of the observation that stands for a model call without an answer."""
RUNTIME_UNAVAILABLE = "RUNTIME$UNAVAILABLE"
"""Error id of an observation that says that the sandbox is gone."""
NOT_EXECUTED_STOPPED = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"
NOT_EXECUTED_ERROR = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_ERROR"
STOPPED_TEXT = "Stop button pressed. The action has not been executed."
RESTART_TEXT = (
    "The action has not been executed due to a runtime error. The runtime system may have crashed and restarted due to "
    "resource constraints. Any previously established system state, dependencies, or environment variables may have "
    "been lost."
)
REJECTED_TEXT = "Action has been rejected by the user!"


@dataclass(frozen=True, slots=True)
class AskAgent:
    """Let the agent answer; its events get `cause`."""

    cause: int


@dataclass(frozen=True, slots=True)
class Execute:
    """Have the runtime carry out the action with this id."""

    action_id: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the model call or the action that carries this id. What is cancelled still answers, if it is an action."""

    id: int


@dataclass(frozen=True, slots=True)
class Emit:
    """Append an event to the stream."""

    event: Event
    source: EventSource
    cause: int | None


Effect = AskAgent | Execute | Cancel | Emit

_INTERRUPTIBLE = frozenset(
    {AgentState.RUNNING, AgentState.PAUSED, AgentState.AWAITING_USER_CONFIRMATION, AgentState.RATE_LIMITED}
)
_RESUMABLE = frozenset({AgentState.PAUSED, AgentState.STOPPED, AgentState.ERROR, AgentState.REJECTED})


def fold(log: Iterable[Envelope], limits: Limits | None = None) -> State:
    """The state after a log."""
    state = State.initial(limits)
    for envelope in log:
        state = evolve(state, envelope)
    return state


# -- evolve --------------------------------------------------------------------------------------------------------


def evolve(state: State, envelope: Envelope) -> State:
    """The state after one more event. Total: every event in every state gives a state."""
    return _settle(_apply(state, envelope), envelope)


def _apply(s: State, env: Envelope) -> State:
    match env.event:
        case MessageAction() if env.source is EventSource.USER:
            s = replace(s, unread=True, greeted=True, recalls=s.recalls | {env.id})
            # neither an approval nor a limit is granted by a message
            if s.agent_state is AgentState.AWAITING_USER_CONFIRMATION or s.limit is not None:
                return s
            return replace(s, agent_state=AgentState.RUNNING, reason="")
        case ChangeAgentStateAction():
            return _change_state(s, env, env.event)
        case RecallAction() if env.cause in s.recalls:
            return replace(s, recalls=s.recalls - {env.cause} | {env.id})
        case SystemMessageAction() if s.agent_state is AgentState.LOADING:
            return replace(s, agent_state=AgentState.AWAITING_USER_INPUT)
        case ErrorObservation(error_id=error_id, content=text) if error_id == MODEL_FAILED:
            failed = replace(s, asked=None, agent_state=AgentState.ERROR, reason=text)
            return failed if env.cause is not None and env.cause == s.asked else s
        case Observation() if env.cause is not None and _waits_for(s, env.cause):
            return _answered(s, env, env.event)
        case _ if env.source is EventSource.AGENT and env.cause is not None:
            return _from_agent(s, env)
    return s


def _waits_for(s: State, cause: int) -> bool:
    return cause in s.recalls or cause in s.queue or any(owed.action_id == cause for owed in s.owed)


def _answered(s: State, env: Envelope, observation: Observation) -> State:
    """An observation for which something waits."""
    cause = env.cause
    s = replace(
        s,
        recalls=s.recalls - {cause},
        queue=tuple(waiting for waiting in s.queue if waiting != cause),
        held=s.held - {cause},
        owed=tuple(owed for owed in s.owed if owed.action_id != cause),
        running=None if s.running == cause else s.running,
    )
    gone = isinstance(observation, ErrorObservation) and observation.error_id == RUNTIME_UNAVAILABLE
    if gone and s.agent_state in (AgentState.RUNNING, AgentState.PAUSED):
        return _drop(replace(s, agent_state=AgentState.ERROR, reason=observation.content))
    return s


def _from_agent(s: State, env: Envelope) -> State:
    """An event of the agent: part of the answer that is awaited, or of one that nobody awaits any more."""
    event = env.event
    s = replace(s, metrics=event.llm_metrics or s.metrics)
    if s.asked is not None and env.cause == s.asked:
        metadata = event.tool_call_metadata
        total = metadata.total_calls_in_response if metadata else 1
        s = replace(s, asked=None, answer=env.cause, answer_left=total, ending=None, iteration=s.iteration + 1)
    elif s.answer_left == 0 or env.cause != s.answer:
        if isinstance(event, Action) and event.runnable:
            return replace(s, owed=(*s.owed, Owed(env.id, "stopped")))
        return s
    s = replace(s, answer_left=s.answer_left - 1)
    match event:
        case Action() if event.runnable:
            held = getattr(event, "confirmation_state", None) is ActionConfirmationStatus.AWAITING_CONFIRMATION
            return replace(s, queue=(*s.queue, env.id), held=s.held | {env.id} if held else s.held)
        case AgentFinishAction():
            return replace(s, ending=AgentState.FINISHED)
        case AgentRejectAction():
            return replace(s, ending=AgentState.REJECTED)
        case MessageAction(wait_for_response=True):
            return replace(s, ending=AgentState.AWAITING_USER_INPUT)
    return s


def _change_state(s: State, env: Envelope, action: ChangeAgentStateAction) -> State:
    """What the user (or the restart) wants of the controller."""
    match action.agent_state:
        case AgentState.STOPPED if s.agent_state in _INTERRUPTIBLE:
            s = replace(s, agent_state=AgentState.STOPPED, reason=action.thought, asked=None, ending=None, limit=None)
            return _drop(s)
        case AgentState.PAUSED if s.agent_state is AgentState.RUNNING:
            return replace(s, agent_state=AgentState.PAUSED, reason=action.thought)
        case AgentState.RUNNING if s.agent_state in _RESUMABLE or (s.unread and not s.is_busy):
            return replace(_extended(s), agent_state=AgentState.RUNNING, reason="")
        case AgentState.USER_CONFIRMED if s.awaiting is not None and env.cause in (None, s.awaiting):
            return replace(s, agent_state=AgentState.RUNNING, held=s.held - {s.awaiting})
        case AgentState.USER_REJECTED if s.awaiting is not None and env.cause in (None, s.awaiting):
            rejected = Owed(s.awaiting, "rejected", action.thought)
            s = replace(s, queue=s.queue[1:], held=s.held - {s.awaiting}, owed=(*s.owed, rejected))
            goes_on = bool(action.thought) or s.unread
            after = AgentState.RUNNING if goes_on else AgentState.AWAITING_USER_INPUT
            return _drop(replace(s, agent_state=after, ending=None))
    return s


def _extended(s: State) -> State:
    """The limit that was reached, moved on by the same amount again."""
    match s.limit:
        case "iterations":
            return replace(s, limit=None, max_iterations=s.iteration + s.limits.max_iterations)
        case "budget":
            spent = s.metrics.accumulated_cost or 0.0
            return replace(s, limit=None, max_budget=spent + (s.limits.max_budget or 0.0))
    return s


def _drop(s: State) -> State:
    """What the runtime does not have yet will not be carried out."""
    dropped = tuple(Owed(waiting, "stopped") for waiting in s.queue if waiting != s.running)
    kept = tuple(waiting for waiting in s.queue if waiting == s.running)
    return replace(s, queue=kept, held=frozenset(), owed=s.owed + dropped)


def _settle(s: State, env: Envelope) -> State:
    """What follows by itself: the next action of the queue, the end of an answer, a limit, the next model call."""
    if s.agent_state is not AgentState.RUNNING or s.asked is not None or s.answer_left > 0:
        return s
    if s.queue:
        if s.queue[0] in s.held:
            return replace(s, agent_state=AgentState.AWAITING_USER_CONFIRMATION)
        return replace(s, running=s.queue[0])
    if s.recalls or s.owed:
        return s
    if s.ending is not None and not s.unread:
        return replace(s, agent_state=s.ending, ending=None)
    if (reached := _limit_reached(s)) is not None:
        return reached
    return replace(s, asked=env.id, unread=False, ending=None)


def _limit_reached(s: State) -> State | None:
    if s.iteration >= s.max_iterations:
        text = f"Agent reached maximum iteration. Current iteration: {s.iteration}, max iteration: {s.max_iterations}"
        return replace(s, agent_state=AgentState.PAUSED, limit="iterations", reason=text)
    spent = s.metrics.accumulated_cost
    if s.max_budget is not None and spent is not None and spent >= s.max_budget:
        text = (
            f"Agent reached maximum budget for conversation.Current budget: {spent:.2f}, max budget: {s.max_budget:.2f}"
        )
        return replace(s, agent_state=AgentState.PAUSED, limit="budget", reason=text)
    return None


# -- react ---------------------------------------------------------------------------------------------------------


def react(before: State, after: State, env: Envelope) -> tuple[Effect, ...]:
    """What has to be done because `env` took the controller from `before` to `after`."""
    effects: list[Effect] = []
    if isinstance(env.event, ChangeAgentStateAction) and after.agent_state is AgentState.STOPPED:
        effects += [Cancel(id) for id in (before.asked, before.running) if id is not None]
    if isinstance(env.event, MessageAction) and env.source is EventSource.USER:
        kind = RecallType.KNOWLEDGE if before.greeted else RecallType.WORKSPACE_CONTEXT
        recall = RecallAction(recall_type=kind, query=env.event.content)
        effects.append(Emit(recall, EventSource.USER, env.id))
    if after.agent_state is not before.agent_state:
        changed = AgentStateChangedObservation(agent_state=after.agent_state, reason=after.reason)
        effects.append(Emit(changed, EventSource.ENVIRONMENT, None))  # a cause would make it an action's result
    effects += [_settlement(owed) for owed in after.owed if owed not in before.owed]
    if after.running is not None and after.running != before.running:
        effects.append(Execute(after.running))
    if after.asked == env.id:
        effects.append(AskAgent(env.id))
    return tuple(effects)


def _settlement(owed: Owed) -> Emit:
    """The observation of an action that is not carried out."""
    if owed.why == "rejected":
        text = REJECTED_TEXT + (f" Reason: {owed.note}" if owed.note else " Waiting for further user input.")
        return Emit(UserRejectObservation(content=text), EventSource.USER, owed.action_id)
    refused = ErrorObservation(content=STOPPED_TEXT, error_id=NOT_EXECUTED_STOPPED)
    return Emit(refused, EventSource.AGENT, owed.action_id)


def resume(state: State) -> tuple[Effect, ...]:
    """What a process that opens a conversation still owes it.

    Whatever was in flight when the last owner died is settled and said; nothing is run again, no money is spent.
    """
    effects: list[Effect] = []
    if state.agent_state is AgentState.RUNNING or state.asked is not None:
        stop = ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought="Interrupted by a restart.")
        effects.append(Emit(stop, EventSource.ENVIRONMENT, None))
    if state.running is not None:
        lost = ErrorObservation(content=RESTART_TEXT, error_id=NOT_EXECUTED_ERROR)
        effects.append(Emit(lost, EventSource.ENVIRONMENT, state.running))
    effects += [_settlement(owed) for owed in state.owed]
    effects += [Emit(NullObservation(), EventSource.ENVIRONMENT, waiting) for waiting in sorted(state.recalls)]
    return tuple(effects)
