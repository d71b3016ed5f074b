"""The decisions: `evolve(state, event) -> state` and `react(before, after, event) -> effects`.

No clock, no IO, no randomness, no asyncio. So `fold(log)` is the live state, a restart is a fold, a replay can execute
nothing, and every interleaving can be checked. Invariants: every action that acts gets exactly one observation; never
two model calls at once; RUNNING always waits for something; every message of the user is read; after an interrupt every
action has its observation; the user can always go on after a halt. Behaviour: OpenHands V0,
`openhands/controller/agent_controller.py`, but limits, errors and loops ask the user instead of ending the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from core.controller.exit_reasons import LIMIT_PREFIX, MODEL_PREFIX, RUNTIME_UNAVAILABLE, Halt, HaltKind
from core.controller.limits import (
    count_event,
    extend_limit,
    is_context_full,
    limit_reached,
    with_condensation,
    with_reported_usage,
)
from core.controller.not_executed import LOST, USER_ACTION_LOST, denial_text, observation_for
from core.controller.state import Limits, Owed, Pending, Queued, State, begin_undo, finish_undo
from core.controller.stuck import MAX_STEPS, Step, describe_loop, find_loop
from core.errors import ModelErrorKind
from core.events import (
    PLANNER,
    Action,
    ActionConfirmationStatus,
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentFinishAction,
    AgentRejectAction,
    AgentState,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    CondensationAction,
    CondensationRequestAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    FileEditObservation,
    LoopDetectionObservation,
    LoopRecoveryAction,
    MessageAction,
    NullAction,
    NullObservation,
    Observation,
    PlanAction,
    RecallAction,
    RecallType,
    SystemMessageAction,
    UndoAction,
    UndoObservation,
)
from core.llm.metrics import add_metrics

RESTARTED = "Interrupted by a restart."
"""The reason for stopping an agent that was working when its process ended."""
CONTEXT_WINDOW = MODEL_PREFIX + ModelErrorKind.CONTEXT_WINDOW.upper()


@dataclass(frozen=True, slots=True)
class AskAgent:
    """Ask the agent; its events get `cause`."""

    cause: int


@dataclass(frozen=True, slots=True)
class Execute:
    """Carry out the action with this id."""

    action_id: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the model call or the action with this id. A cancelled action still gets its observation."""

    id: int


@dataclass(frozen=True, slots=True)
class Emit:
    """Append an event to the stream."""

    event: Event
    source: EventSource
    cause: int | None


Effect = AskAgent | Execute | Cancel | Emit

_RESTING = frozenset({AgentState.AWAITING_USER_INPUT, AgentState.FINISHED})
"""States in which a queued message is sent."""
_QUIET = _RESTING | {AgentState.STOPPED, AgentState.REJECTED}
"""States in which nothing runs and no question is open."""
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
    after = _settle(_apply(count_event(state, envelope.event), envelope), envelope)
    after = _release(state, after, envelope)
    was, is_ = state.agent_state is AgentState.RUNNING, after.agent_state is AgentState.RUNNING
    if was and not is_:
        return replace(after, worked_s=after.worked_at(envelope.timestamp), running_since=None)
    return replace(after, running_since=envelope.timestamp) if is_ and not was else after


def _apply(s: State, env: Envelope) -> State:
    match env.event:
        case MessageAction() as message if env.source is EventSource.USER:
            return _user_message(s, env, message)
        case ChangeAgentStateAction():
            return _change_state(s, env, env.event)
        case RecallAction() if env.cause in s.recalls:
            return replace(s, recalls=s.recalls - {env.cause} | {env.id})
        case SystemMessageAction() as instructions if s.agent_state is AgentState.LOADING:
            plans = ((env.id, True),) if instructions.agent_class == PLANNER else ()
            return replace(s, agent_state=AgentState.AWAITING_USER_INPUT, plans=plans)
        case PlanAction() as plan if env.source is EventSource.USER:
            return _decide_plan(s, env, plan)
        case NullAction() if env.source is EventSource.USER and env.cause is not None:
            return replace(s, queued=tuple(queued for queued in s.queued if queued.id != env.cause))
        case UndoAction() as undo:
            return begin_undo(s, env.id, undo)
        case UndoObservation() as undone:
            return finish_undo(s, undone) if s.undoing is not None and env.cause == s.undoing.id else s
        case CondensationRequestAction() if env.source is not EventSource.AGENT:
            return _request_condensation(s, env)
        case CondensationAction() if env.source is not EventSource.AGENT:
            return with_condensation(s, env.event)
        case LoopRecoveryAction(option=option) if s.halt is not None and s.halt.kind is HaltKind.STUCK:
            state = AgentState.STOPPED if option == 3 else AgentState.AWAITING_USER_INPUT
            s = replace(s, halt=None, recent=(), agent_state=state, reason="", ending=None)
            return _drop(s)
        case ErrorObservation(error_id=error_id) as error if error_id.startswith((MODEL_PREFIX, LIMIT_PREFIX)):
            return _fail_model_call(s, error) if env.cause is not None and env.cause == s.asked else s
        case Observation() if env.cause is not None and _is_awaited(s, env.cause):
            return _observe(s, env, env.event)
        case _ if env.source is EventSource.AGENT and env.cause is not None:
            return _agent_event(s, env)
        case Action(acts=True):
            return replace(s, side_actions=s.side_actions | {env.id})
    return s


def _user_message(s: State, env: Envelope, message: MessageAction) -> State:
    """A message of the user: sent now, or queued until the agent rests."""
    if message.queued:
        queued = Queued(env.id, message.content, tuple(message.image_urls or ()), message.context)
        return replace(s, queued=(*s.queued, queued))
    if env.cause is not None:
        s = replace(s, queued=tuple(queued for queued in s.queued if queued.id != env.cause))
    releasing = None if s.releasing == env.cause else s.releasing
    recalls = s.recalls | {env.id}
    first_message_id = env.id if s.first_message_id is None else s.first_message_id
    s = replace(s, first_message_id=first_message_id, recalls=recalls, releasing=releasing, undoing=None, undone=())
    return _begin_turn(s)


def _begin_turn(s: State) -> State:
    """The agent has something new to read. That grants neither an approval nor a limit."""
    s = replace(s, unread=True, recent=())
    if s.agent_state is AgentState.AWAITING_USER_CONFIRMATION or (s.halt and s.halt.kind is HaltKind.LIMIT):
        return s
    return replace(s, agent_state=AgentState.RUNNING, reason="", halt=None)


def _request_condensation(s: State, env: Envelope) -> State:
    """A request to condense: the next model call does that. If the user asks at rest, the call starts now.

    Such a request changes nothing else: the controller returns to the state in which it rested.
    """
    s = replace(s, condensing=False, condensed=True)
    by_hand = env.source is EventSource.USER and s.first_message_id is not None and s.undoing is None
    if not (by_hand and s.agent_state in _QUIET and s.halt is None and not s.is_busy and not s.unread):
        return s
    return replace(s, agent_state=AgentState.RUNNING, resting_state=s.agent_state, reason="", ending=None)


def _decide_plan(s: State, env: Envelope, plan: PlanAction) -> State:
    """The plan is approved, and the agent begins; or another plan is wanted, and pending changes are dropped."""
    if not s.plans or s.planning is not plan.approved:
        return s
    s = replace(s, plans=(*s.plans, (env.id, not plan.approved)), undoing=None, undone=())
    return _begin_turn(s) if plan.approved else _unask(_drop(s, "planned", keep_reads=True))


def _fail_model_call(s: State, error: ErrorObservation) -> State:
    """A model call that failed, or was not made because of a daily limit."""
    s = replace(_after_rate_limit(s), asked=None, resting_state=None)
    if error.error_id == CONTEXT_WINDOW and not s.condensed and s.agent_state is AgentState.RUNNING:
        return replace(s, condensing=True)
    if error.error_id.startswith(LIMIT_PREFIX):
        halt = Halt(HaltKind.LIMIT, error.error_id.removeprefix(LIMIT_PREFIX).lower())
        return replace(s, agent_state=AgentState.PAUSED, reason=error.content, halt=halt)
    halt = Halt(HaltKind.MODEL, error.error_id.removeprefix(MODEL_PREFIX).lower())
    return replace(s, agent_state=AgentState.ERROR, reason=error.content, halt=halt)


def _is_awaited(s: State, cause: int) -> bool:
    return (
        cause in s.recalls
        or cause in s.side_actions
        or any(pending.id == cause for pending in s.queue)
        or any(owed.action_id == cause for owed in s.owed)
    )


def _observe(s: State, env: Envelope, observation: Observation) -> State:
    """An observation that something waits for."""
    cause = env.cause
    step = next((Step(p.id, p.action, observation) for p in s.queue if p.id == cause), None)
    s = replace(
        s,
        recalls=s.recalls - {cause},
        side_actions=s.side_actions - {cause},
        queue=tuple(pending for pending in s.queue if pending.id != cause),
        owed=tuple(owed for owed in s.owed if owed.action_id != cause),
        running=tuple(running for running in s.running if running != cause),
        recent=_with_step(s.recent, step) if step else s.recent,
    )
    if isinstance(observation, AgentDelegateObservation | FileEditObservation) and observation.llm_metrics is not None:
        s = replace(s, metrics=add_metrics(s.metrics, observation.llm_metrics))
        if isinstance(observation, AgentDelegateObservation):
            steps = observation.outputs.get("iterations")
            s = replace(s, iteration=s.iteration + (steps if isinstance(steps, int) else 0))
    s = _unask(s)  # another program may have answered what was asked about
    is_lost = isinstance(observation, ErrorObservation) and observation.error_id == RUNTIME_UNAVAILABLE
    if is_lost and s.agent_state in (AgentState.RUNNING, AgentState.PAUSED):
        halt = Halt(HaltKind.SANDBOX)
        return _drop(replace(s, agent_state=AgentState.ERROR, reason=observation.content, halt=halt))
    return s


def _agent_event(s: State, env: Envelope) -> State:
    """An event of the agent: part of the expected answer, or of a cancelled one."""
    event = env.event
    before = s.metrics.accumulated_cost or 0.0
    if (sums := event.llm_metrics) is not None:
        if s.metrics.accumulated_cost is None:  # it stays unknown, because a late answer carries older sums
            sums = sums.model_copy(update={"accumulated_cost": None})
        s = replace(s, metrics=sums)
    if s.asked is not None and env.cause == s.asked:
        s, metadata = _after_rate_limit(s), event.tool_call_metadata
        total = metadata.total_calls_in_response if metadata else 1
        s = replace(s, asked=None, answer=env.cause, answer_left=total, ending=s.resting_state, resting_state=None)
        if isinstance(event, CondensationAction):
            s = with_condensation(s, event)
        else:
            s = with_reported_usage(s, event.llm_metrics)
            cost = (s.metrics.accumulated_cost or 0.0) - before
            s = replace(s, iteration=s.iteration + 1, last_cost=max(cost, 0.0), condensed=False)
    elif s.answer_left == 0 or env.cause != s.answer:
        if isinstance(event, Action) and event.acts:
            return replace(s, owed=(*s.owed, Owed(env.id, "stopped")))
        return s
    s = replace(s, answer_left=s.answer_left - 1)
    match event:
        case Action(acts=True) if s.planning and not event.only_reads:
            return replace(s, owed=(*s.owed, Owed(env.id, "planned")))
        case Action(acts=True) if event.confirmation is ActionConfirmationStatus.REJECTED:
            owed = Owed(env.id, "denied", denial_text(event))
            step = Step(env.id, event, observation_for(owed)[0])  # repeated attempts are a loop
            return replace(s, owed=(*s.owed, owed), recent=_with_step(s.recent, step))
        case Action(acts=True):
            held = event.confirmation is ActionConfirmationStatus.AWAITING_CONFIRMATION
            return replace(s, queue=(*s.queue, Pending(env.id, event, held)))
        case AgentFinishAction():
            return replace(s, ending=AgentState.FINISHED)
        case AgentRejectAction():
            return replace(s, ending=AgentState.REJECTED)
        case MessageAction(wait_for_response=True):
            return replace(s, ending=AgentState.AWAITING_USER_INPUT)
        case MessageAction() | CondensationAction():
            return replace(s, recent=_with_step(s.recent, Step(env.id, event)))
        case ErrorObservation() if s.answer_left == 0:
            return replace(s, recent=_with_step(s.recent, Step(env.id, NullAction(), event)))
    return s


def _with_step(recent: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    return (*recent, step)[-MAX_STEPS:]


def _change_state(s: State, env: Envelope, action: ChangeAgentStateAction) -> State:
    """A command of the user (or of a restart) to the controller."""
    match action.agent_state:
        case AgentState.STOPPED:
            s = replace(s, releasing=None, condensing=False, resting_state=None, answer_left=0)
            if s.agent_state in _INTERRUPTIBLE or s.halt is not None:
                s = replace(
                    s, agent_state=AgentState.STOPPED, reason=action.thought, asked=None, ending=None, halt=None
                )
                return _drop(s)
        case AgentState.RATE_LIMITED if s.agent_state is AgentState.RUNNING and env.cause == s.asked is not None:
            return replace(s, agent_state=AgentState.RATE_LIMITED)
        case AgentState.RUNNING if env.source is EventSource.ENVIRONMENT:
            return _after_rate_limit(s) if env.cause == s.asked else s
        case AgentState.PAUSED if s.agent_state in (AgentState.RUNNING, AgentState.RATE_LIMITED):
            return replace(s, agent_state=AgentState.PAUSED, reason=action.thought)
        case AgentState.RUNNING if s.agent_state in _RESUMABLE or (s.unread and not s.is_busy):
            if s.halt is not None and s.halt.kind is HaltKind.LIMIT:
                s = extend_limit(s, s.halt.what, env.timestamp.date())
            recent = () if s.halt is not None else s.recent
            return replace(s, agent_state=AgentState.RUNNING, reason="", halt=None, recent=recent)
        case AgentState.USER_CONFIRMED | AgentState.USER_REJECTED if s.awaiting is not None:
            answered = s.awaiting if env.cause is None else env.cause
            if not any(pending.held and pending.id == answered for pending in s.queue):
                return s
            if action.agent_state is AgentState.USER_REJECTED:
                return _reject(s, answered, action.thought)
            queue = tuple(replace(p, held=False) if p.id == answered else p for p in s.queue)
            return replace(s, agent_state=AgentState.RUNNING if answered == s.awaiting else s.agent_state, queue=queue)
    return s


def _after_rate_limit(s: State) -> State:
    return replace(s, agent_state=AgentState.RUNNING) if s.agent_state is AgentState.RATE_LIMITED else s


def _reject(s: State, rejected: int, reason: str) -> State:
    """The user denied an action. With a reason, each action behind it asks, because it may depend on the denied one,
    unless it only reads. Without a reason, none of them is carried out, and the agent rests."""
    asked, at = s.awaiting, next(n for n, pending in enumerate(s.queue) if pending.id == rejected)
    before, behind = s.queue[:at], s.queue[at + 1 :]
    s = replace(s, owed=(*s.owed, Owed(rejected, "rejected", reason)), ending=None)
    if reason:
        asks = tuple(p if p.id in s.running or p.action.only_reads else replace(p, held=True) for p in behind)
        s = replace(s, queue=(*before, *asks))
        return replace(s, agent_state=AgentState.RUNNING) if rejected == asked else s
    after = AgentState.RUNNING if s.unread or s.running else AgentState.AWAITING_USER_INPUT
    return _drop(replace(s, queue=(*before, *behind), agent_state=after), "behind")


def _drop(s: State, why: Literal["stopped", "behind", "planned"] = "stopped", *, keep_reads: bool = False) -> State:
    """Drop the actions that have not begun; with `keep_reads`, only those that may change something."""
    dropped = tuple(p for p in s.queue if p.id not in s.running and not (keep_reads and p.action.only_reads))
    owed = tuple(Owed(pending.id, why) for pending in dropped)
    return replace(s, queue=tuple(p for p in s.queue if p not in dropped), owed=s.owed + owed)


def _unask(s: State) -> State:
    """Go on if what the user was asked about is no longer pending."""
    asks = s.agent_state is AgentState.AWAITING_USER_CONFIRMATION
    return replace(s, agent_state=AgentState.RUNNING) if asks and s.awaiting is None else s


def _settle(s: State, env: Envelope) -> State:
    """What follows without a command: the next actions, the end of an answer, a halt, the next model call."""
    if s.agent_state is not AgentState.RUNNING or s.asked is not None or s.answer_left > 0 or s.condensing:
        return s
    if s.queue:
        candidates = _side_by_side(s)
        startable = tuple(p.id for p in candidates if not p.held and p.id not in s.running)
        s = replace(s, running=s.running + startable)
        asks = any(pending.held for pending in candidates)
        return replace(s, agent_state=AgentState.AWAITING_USER_CONFIRMATION) if asks else s
    if s.recalls or s.owed:
        return s
    if s.ending is not None and not s.unread:
        return replace(s, agent_state=s.ending, ending=None)
    if (loop := find_loop(s.recent)) is not None:
        halt = Halt(HaltKind.STUCK, loop.kind, loop.since)
        return replace(s, agent_state=AgentState.PAUSED, reason=f"The agent {describe_loop(loop)}.", halt=halt)
    if (limit := limit_reached(s, env.timestamp)) is not None:
        return replace(s, agent_state=AgentState.PAUSED, reason=limit.text, halt=Halt(HaltKind.LIMIT, limit.name))
    if is_context_full(s):
        return replace(s, condensing=True)
    return replace(s, asked=env.id, unread=False, ending=None)


def _side_by_side(s: State) -> tuple[Pending, ...]:
    """Actions that may run at the same time: the first one, or the delegates at the head of the queue."""
    delegates = tuple(takewhile(lambda pending: isinstance(pending.action, AgentDelegateAction), s.queue))
    return delegates or s.queue[:1]


def _release(before: State, s: State, env: Envelope) -> State:
    """Send the first queued message when the agent comes to rest, or when it is queued while the agent rests.

    Nothing else sends it: after a restart, queued messages wait until the user does something.
    """
    if not s.queued or s.releasing is not None or s.agent_state not in _RESTING or s.is_busy or s.unread:
        return s
    if s.undoing is not None or isinstance(env.event, UndoObservation):
        return s
    comes_to_rest = before.agent_state not in _RESTING
    is_queued = isinstance(env.event, MessageAction) and env.event.queued
    goes_on = isinstance(env.event, ChangeAgentStateAction) and env.event.agent_state is AgentState.RUNNING
    return replace(s, releasing=s.queued[0].id) if comes_to_rest or is_queued or goes_on else s


# -- react ---------------------------------------------------------------------------------------------------------


def react(before: State, after: State, env: Envelope) -> tuple[Effect, ...]:
    """The effects of the change from `before` to `after`."""
    effects: list[Effect] = []
    if isinstance(env.event, ChangeAgentStateAction) and after.agent_state is AgentState.STOPPED:
        effects += [Cancel(id) for id in (before.asked, *before.running) if id is not None]
    if isinstance(env.event, MessageAction) and env.source is EventSource.USER and not env.event.queued:
        kind = RecallType.WORKSPACE_CONTEXT if before.first_message_id is None else RecallType.KNOWLEDGE
        recall = RecallAction(recall_type=kind, query=env.event.content)
        effects.append(Emit(recall, EventSource.USER, env.id))
    if after.agent_state is not before.agent_state:
        changed = AgentStateChangedObservation(agent_state=after.agent_state, reason=after.reason)
        effects.append(Emit(changed, EventSource.ENVIRONMENT, None))  # a cause would make it an action's result
    effects += [Emit(*observation_for(owed), owed.action_id) for owed in after.owed if owed not in before.owed]
    effects += [Execute(id) for id in after.running if id not in before.running]
    effects += _announcements(before, after, env)
    if after.asked == env.id:
        effects.append(AskAgent(env.id))
    return tuple(effects)


def _announcements(before: State, after: State, env: Envelope) -> list[Effect]:
    """Events of the controller itself: a loop, a request to condense, a queued message."""
    found: list[Effect] = []
    if after.halt != before.halt and after.halt is not None and after.halt.kind is HaltKind.STUCK:
        text = f"{after.reason} Choose how to go on."
        found.append(Emit(LoopDetectionObservation(content=text), EventSource.ENVIRONMENT, None))
    since = before.halt.since if before.halt is not None and after.halt is None else None
    if isinstance(env.event, LoopRecoveryAction) and env.event.option == 1 and since is not None:
        cut = CondensationAction(forgotten_events_start_id=since, forgotten_events_end_id=env.id - 1)
        found.append(Emit(cut, EventSource.ENVIRONMENT, None))
    if after.condensing and not before.condensing:
        why: Literal["full", "overflow"] = "overflow" if isinstance(env.event, ErrorObservation) else "full"
        found.append(Emit(CondensationRequestAction(why=why), EventSource.ENVIRONMENT, None))
    if after.releasing is not None and after.releasing != before.releasing:
        message = next(queued.message() for queued in after.queued if queued.id == after.releasing)
        found.append(Emit(message, EventSource.USER, after.releasing))
    return found


def resume(state: State) -> tuple[Effect, ...]:
    """The effects with which a process that opens a conversation settles what the last one left open.

    Nothing runs again, and no money is spent.
    """
    effects: list[Effect] = []
    in_flight = state.asked is not None or state.releasing is not None or state.answer_left > 0
    if state.agent_state is AgentState.RUNNING or in_flight:
        stop = ChangeAgentStateAction(agent_state=AgentState.STOPPED, thought=RESTARTED)
        effects.append(Emit(stop, EventSource.ENVIRONMENT, None))
    elif state.condensing:
        effects.append(Emit(CondensationRequestAction(why="full"), EventSource.ENVIRONMENT, None))
    effects += [Emit(LOST, EventSource.ENVIRONMENT, id) for id in state.running]
    effects += [Emit(USER_ACTION_LOST, EventSource.ENVIRONMENT, id) for id in sorted(state.side_actions)]
    effects += [Emit(*observation_for(owed), owed.action_id) for owed in state.owed]
    effects += [Emit(NullObservation(), EventSource.ENVIRONMENT, waiting) for waiting in sorted(state.recalls)]
    return tuple(effects)
