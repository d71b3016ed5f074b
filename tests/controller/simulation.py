"""A model check of the controller: random interleavings of user, agent, memory, runtime, delegates, crashes, restarts.

The world around the machine is simulated in a few lines; the machine is the real one, or a mutation of it that a test
hands in. Everything follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

from core.controller import decide
from core.controller.exit_reasons import RUNTIME_UNAVAILABLE
from core.controller.state import Limits, State
from core.events import (
    PLANNER,
    Action,
    ActionConfirmationStatus,
    AgentDelegateAction,
    AgentDelegateObservation,
    AgentFinishAction,
    AgentState,
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
    LoopRecoveryAction,
    MessageAction,
    NullAction,
    NullObservation,
    Observation,
    PlanAction,
    RecallAction,
    SystemMessageAction,
    TokenUsage,
    ToolCallMetadata,
    UndoAction,
    UndoObservation,
)
from core.memory.context_events import ContextLimit
from core.undo.reverted import undone_spans

PRICE = 0.1
"""US dollars of every call."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
AGENT, USER, ENVIRONMENT = EventSource.AGENT, EventSource.USER, EventSource.ENVIRONMENT
HELD = ActionConfirmationStatus.AWAITING_CONFIRMATION
RESTING = {
    AgentState.AWAITING_USER_INPUT,
    AgentState.FINISHED,
    AgentState.STOPPED,
    AgentState.PAUSED,
    AgentState.ERROR,
    AgentState.AWAITING_USER_CONFIRMATION,
}


def is_said(envelope: Envelope) -> bool:
    """Whether the user says this to the agent."""
    event = envelope.event
    return isinstance(event, MessageAction) and envelope.source is USER and not event.queued


class Violation(AssertionError):
    """An invariant does not hold."""


def set_aside(s: State, span: range) -> State:
    """The part of the state that an undo removes and a redo restores, beside initial values."""
    return replace(
        State.initial(),
        first_message_id=s.first_message_id,
        queued=tuple(queued for queued in s.queued if queued.id in span),
        agent_state=s.agent_state,
        reason=s.reason,
        halt=s.halt,
        unread=s.unread,
        plans=s.plans,
    )


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


REAL: Any = SimpleNamespace(evolve=decide.evolve, react=decide.react, resume=decide.resume)


@dataclass
class World:
    """One conversation with everything around it. `machine` has `evolve`, `react` and `resume`."""

    seed: int
    machine: Any = field(default_factory=lambda: REAL)
    reached: set[str] = field(default_factory=set)
    """Situations that occurred, by kind and name, so that a test can check that all of them did."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.limits = self.rng.choice(
            [
                Limits(4, max_budget=0.6, max_tokens=60, max_seconds=30),
                Limits(None, max_budget=0.45),
                Limits(None, max_tokens=45),
                Limits(None, max_seconds=9),
                Limits(None),
            ]
        )
        if self.rng.random() < 0.3:
            self.limits = replace(
                self.limits, context=ContextLimit(max_events=self.rng.choice([6, 12]), max_tokens=200)
            )
        self.monotonous = self.rng.random() < 0.4
        self.log: list[Envelope] = []
        self.inbox: list[Envelope] = []  # committed, but the controller has not seen them yet
        self.state = State.initial(self.limits)
        self.thinking: dict[int, bool] = {}  # cause -> cancelled
        self.acting: dict[int, bool] = {}  # action id -> cancelled
        self.recalling: list[int] = []
        self.side_actions: list[int] = []
        self.now = NOW
        self.crashed = False
        self.cost = 0.0
        self.tokens = 0
        self.executed: list[int] = []
        self.agreed: set[int | None] = set()
        """The actions to which the user said yes."""
        self.behind: set[int] = set()
        """The actions after one that the user denied, which had not begun."""
        self.reading: set[int] = set()
        """The actions that only read."""
        self.found: dict[int, State] = {}
        """The state that an undo found, by the id of its action."""
        self.condensed = False
        """Whether the controller has had the history condensed since the last answer."""
        self.at_rest: int | None = None
        """The newest wish of the user to condense while nothing was under way."""
        self.plans_first = self.rng.random() < 0.4
        self.append(SystemMessageAction(content="be good", agent_class=PLANNER if self.plans_first else "A"), AGENT)

    # -- the stream ------------------------------------------------------------------------------------------------

    def append(self, event: Event, source: EventSource, cause: int | None = None) -> None:
        self.now += timedelta(seconds=self.rng.choice([0, 0, 0, 1, 5, -3600]))  # clocks jump
        envelope = Envelope(
            conversation_id="c", id=len(self.log), timestamp=self.now, source=source, cause=cause, event=event
        )
        self.log.append(envelope)
        self.inbox.append(envelope)
        if isinstance(event, RecallAction):
            self.recalling.append(envelope.id)

    def controller_sees_one(self) -> None:
        envelope = self.inbox.pop(0)
        self.seen = envelope.id
        before = self.state
        self.note_yes(before, envelope)
        self.state = after = self.machine.evolve(before, envelope)
        self.check_condensation(before, envelope)
        for effect in self.machine.react(before, after, envelope):
            self.perform(effect)
        self.check_step()

    def perform(self, effect: decide.Effect) -> None:
        match effect:
            case decide.AskAgent(cause=cause):
                check(not [k for k, dead in self.thinking.items() if not dead], "two model calls in flight")
                self.thinking[cause] = False
            case decide.Execute(action_id=action_id):
                check(action_id not in self.executed, "an action is carried out twice")
                if self.plans:
                    self.reached.add("read while planning")
                    check(action_id in self.reading, "something changes before the plan is approved")
                denied = getattr(self.log[action_id].event, "confirmation_state", None)
                check(denied is not ActionConfirmationStatus.REJECTED, "what a rule forbids is carried out")
                check(denied is not HELD or action_id in self.agreed, "carried out by the yes to another action")
                behind = action_id in self.behind and action_id not in self.agreed
                check(not behind, "what stands behind a denied action is carried out unasked")
                self.executed.append(action_id)
                self.acting[action_id] = False
            case decide.Cancel(id=id):
                for table in (self.thinking, self.acting):
                    if id in table:
                        table[id] = True
            case decide.Emit(event=event, source=source, cause=cause):
                if isinstance(event, CondensationRequestAction):
                    check(not self.condensed, "condensed twice without an answer in between")
                    self.condensed = True
                self.append(event, source, cause)

    # -- the others ------------------------------------------------------------------------------------------------

    def agent_answers(self, cause: int) -> None:
        cancelled = self.thinking.pop(cause)
        if cancelled and self.rng.random() < 0.6:
            return  # the cancellation came in time; otherwise the answer was committed already
        asked_by = self.log[cause].event
        if isinstance(asked_by, CondensationRequestAction):
            self.reached.add(f"condensed because {asked_by.why}")
            gone = [] if self.rng.random() < 0.3 else [e.id for e in self.log[3:cause]]
            self.append(CondensationAction(forgotten_event_ids=gone), AGENT, cause)
            return
        if self.rng.random() < 0.15:
            error_id = self.rng.choice(["LLM$SERVER", "LLM$CONTEXT_WINDOW", "LIMIT$DAY_BUDGET"])
            self.append(ErrorObservation(content="no", error_id=error_id), ENVIRONMENT, cause)
            return
        self.cost += PRICE
        self.tokens += 10
        self.condensed = False
        usage = TokenUsage(prompt_tokens=self.tokens, per_turn_token=10)
        unknown = self.rng.random() < 0.05
        metrics = LLMMetrics(accumulated_cost=None if unknown else self.cost, accumulated_token_usage=usage)
        kind = self.rng.random()
        if kind < 0.2:
            self.append(MessageAction(content="done?", wait_for_response=True, llm_metrics=metrics), AGENT, cause)
            return
        count = self.rng.choice([1, 1, 2, 3])
        for index in range(count):
            metadata = ToolCallMetadata(
                function_name="f", tool_call_id=f"{cause}-{index}", total_calls_in_response=count
            )
            if self.rng.random() < (0.5 if self.plans_first else 0.1):
                metadata = metadata.model_copy(update={"function_name": "grep"})
                self.reading.add(len(self.log))
                self.append(
                    CmdRunAction(command="grep", tool_call_metadata=metadata, llm_metrics=metrics), AGENT, cause
                )
            else:
                self.append(self._call(index == count - 1, metadata, metrics), AGENT, cause)

    def model_waits(self, cause: int) -> None:
        """The provider's rate limit: a wait begins, or ends."""
        now = self.rng.choice([AgentState.RATE_LIMITED, AgentState.RUNNING])
        self.append(ChangeAgentStateAction(agent_state=now), ENVIRONMENT, cause)

    def _call(self, last: bool, metadata: ToolCallMetadata, metrics: LLMMetrics) -> Event:
        dice = self.rng.random()
        if dice < 0.12:
            return ErrorObservation(content="no such tool", tool_call_metadata=metadata, llm_metrics=metrics)
        if last and dice < 0.3:
            return AgentFinishAction(tool_call_metadata=metadata, llm_metrics=metrics)
        state = HELD if dice > 0.8 else ActionConfirmationStatus.CONFIRMED
        if 0.45 < dice < 0.5:  # a rule forbids it
            state = ActionConfirmationStatus.REJECTED
            self.reached.add("denied")
        if 0.3 < dice < 0.45 or dice > 0.95:
            return AgentDelegateAction(
                agent="A", confirmation_state=state, tool_call_metadata=metadata, llm_metrics=metrics
            )
        return CmdRunAction(
            command="x" if self.monotonous else self.rng.choice("xyz"),
            confirmation_state=state,
            tool_call_metadata=metadata,
            llm_metrics=metrics,
        )

    def runtime_answers(self, action_id: int) -> None:
        self.acting.pop(action_id)
        dice = self.rng.random()
        if isinstance(self.log[action_id].event, AgentDelegateAction) and dice < 0.9:
            self.cost += 0.05
            metrics = LLMMetrics(accumulated_cost=0.05)
            result = AgentDelegateObservation(content="done", outputs={"iterations": 1}, llm_metrics=metrics)
            self.append(result, AGENT, action_id)
        elif dice < 0.05:
            gone = ErrorObservation(content="gone", error_id=RUNTIME_UNAVAILABLE)
            self.append(gone, AGENT, action_id)
        else:
            self.append(CmdOutputObservation(command="x"), AGENT, action_id)

    def memory_answers(self) -> None:
        self.append(NullObservation(), ENVIRONMENT, self.recalling.pop(0))

    def user_wants(self, wish: AgentState, thought: str = "") -> None:
        """A random answer, for an action that waits, one that no longer waits, or none."""
        cause = None
        if wish in (AgentState.USER_CONFIRMED, AgentState.USER_REJECTED):
            waiting = [pending.id for pending in self.state.queue if pending.held]
            cause = self.rng.choice([None, self.state.awaiting, *waiting, *self.executed[-1:]])
        self.append(ChangeAgentStateAction(agent_state=wish, thought=thought), USER, cause)

    def note_yes(self, before: State, envelope: Envelope) -> None:
        """Record which action the user approved, and the actions after those that were denied."""
        event = envelope.event
        if isinstance(event, ChangeAgentStateAction) and event.agent_state is AgentState.USER_CONFIRMED:
            if before.awaiting is not None and envelope.cause not in (None, before.awaiting):
                self.reached.add("agreed to ahead")
            self.agreed.add(before.awaiting if envelope.cause is None else envelope.cause)
        if isinstance(event, ChangeAgentStateAction) and event.agent_state is AgentState.USER_REJECTED:
            denied = before.awaiting if envelope.cause is None else envelope.cause
            ids = [pending.id for pending in before.queue]
            waits = before.awaiting is not None and any(p.held and p.id == denied for p in before.queue)
            if waits and denied is not None:
                behind = set(ids[ids.index(denied) + 1 :]) - {*before.running} - self.reading
                self.behind |= behind
                self.agreed -= behind
                self.reached |= {"denied one of several"} if behind and event.thought else set()

    def user_does_something_else(self) -> None:
        """A queued message, a removed one, a way out of a loop, a compaction, or a command of the environment."""
        match self.rng.randrange(6 + 2 * self.plans_first):
            case 6 | 7:
                self.append(PlanAction(approved=self.rng.random() < 0.6), USER)
            case 0:
                self.append(MessageAction(content="later", queued=True), USER)
            case 1 if self.state.queued:
                self.append(NullAction(), USER, self.state.queued[0].id)
            case 2:
                self.append(LoopRecoveryAction(option=self.rng.choice([1, 2, 3])), USER)
            case 3:
                self.append(CondensationRequestAction(), USER)
            case 4:
                self.append(CmdRunAction(command="git", hidden=True), ENVIRONMENT)
                self.side_actions.append(len(self.log) - 1)
            case 5 if self.side_actions:
                self.append(CmdOutputObservation(command="git"), ENVIRONMENT, self.side_actions.pop())

    def user_undoes(self) -> None:
        """An undo of a turn, or a redo; the session starts one only while the controller rests."""
        undone = self.state.undone
        if undone and self.rng.random() < 0.5:
            action = UndoAction(first=undone[-1].first, chat=undone[-1].chat, redoes=undone[-1].id)
        else:
            turns = [e.id for e in self.log if is_said(e) and not self.is_undone(e.id)]
            if not turns:
                return
            action = UndoAction(first=self.rng.choice(turns), chat=self.rng.random() < 0.8)
            self.found[len(self.log)] = self.state
        self.append(action, USER)

    def undo_ends(self) -> None:
        """The files are restored, or cannot be; after a crash the next owner says which."""
        assert self.state.undoing is not None
        undoing, before = self.state.undoing, self.state
        done = self.rng.random() < 0.8
        self.append(UndoObservation(done=done), ENVIRONMENT, undoing.id)
        self.condensed = False
        self.controller_sees_one()
        if done and undoing.redoes is None and undoing.chat:
            self.reached.add("undone")
            check(self.state.agent_state is AgentState.AWAITING_USER_INPUT, "an undo leaves the agent at work")
            self.check_undone(undoing.first)
        elif done and undoing.redoes is not None:
            self.reached.add("had again")
            if undoing.chat:
                self.check_had_again(range(undoing.first, undoing.redoes))
        elif not done:
            check(
                replace(self.state, undone=()) == replace(before, undoing=None, undone=()), "a failed undo does a thing"
            )

    @property
    def plans(self) -> bool:
        """Whether the plan still needs approval, according to the controller's events."""
        seen = [e for e in self.log if e.id <= self.seen]
        spans = undone_spans(seen)
        said = [e.event.approved for e in seen if isinstance(e.event, PlanAction) and e.source is USER
                and not any(e.id in span for span in spans)]  # fmt: skip
        return self.plans_first and not (said and said[-1])

    def is_undone(self, event_id: int) -> bool:
        return any(event_id in span for span in undone_spans(self.log))

    def check_undone(self, first: int) -> None:
        """Undoing a turn restores the controller's state before it, except for costs."""
        s = self.state
        said = [e.id for e in self.log if is_said(e) and not self.is_undone(e.id)]
        check(s.first_message_id == (said[0] if said else None), "greeted by a message that is undone")
        check(all(queued.id < first for queued in s.queued), "an undone message is still queued")
        check(not (s.unread or s.recent or s.halt), "something of an undone turn is left")

    def check_had_again(self, span: range) -> None:
        check(
            set_aside(self.state, span) == set_aside(self.found[span.stop], span), "a redo is not what the undo found"
        )

    def crash_and_restart(self) -> None:
        """The process dies, and work in flight is lost. Another process folds the log and settles what is open."""
        self.crashed = True
        self.inbox.clear()
        self.thinking.clear()
        self.acting.clear()
        self.recalling.clear()
        self.side_actions.clear()
        self.state = State.initial(self.limits)
        for envelope in self.log:
            self.note_yes(self.state, envelope)
            self.state = self.machine.evolve(self.state, envelope)
        for effect in self.machine.resume(self.state):
            self.perform(effect)

    # -- one random step --------------------------------------------------------------------------------------------

    def moves(self, *, user: bool, crashes: bool) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        if self.inbox:
            found += [self.controller_sees_one] * 6
        found += [lambda k=k: self.agent_answers(k) for k in self.thinking] * 3
        found += [lambda k=k: self.runtime_answers(k) for k in self.acting] * 3
        if user:
            found += [partial(self.model_waits, k) for k in self.thinking]
        if self.recalling:
            found += [self.memory_answers] * 3
        if self.state.undoing is not None:
            if not self.inbox:
                found += [self.undo_ends] * 3
        elif user and not self.inbox and self.state.can_undo:
            found += [self.user_undoes]
        if user and self.state.undoing is None and not self.undo_is_asked:
            found.append(lambda: self.append(MessageAction(content="m"), USER))
            wishes = [AgentState.STOPPED, AgentState.PAUSED, AgentState.RUNNING, AgentState.USER_REJECTED]
            wishes += [AgentState.USER_CONFIRMED] * 3
            wish, thought = self.rng.choice(wishes), self.rng.choice(["", "because"])
            found.append(lambda: self.user_wants(wish, thought))
            found += [self.user_does_something_else]
        if crashes and self.rng.random() < 0.1:
            found.append(self.crash_and_restart)
        return found

    @property
    def undo_is_asked(self) -> bool:
        """While one is on its way, the session lets the user say nothing else."""
        return any(isinstance(envelope.event, UndoAction) for envelope in self.inbox)

    def run(self, steps: int = 80, *, crashes: bool = True) -> None:
        for _ in range(steps):
            if found := self.moves(user=True, crashes=crashes):
                self.rng.choice(found)()
        while self.side_actions:
            self.append(CmdOutputObservation(command="git"), ENVIRONMENT, self.side_actions.pop())
        for _ in range(4000):  # no more wishes: everything comes to rest
            if not (found := self.moves(user=False, crashes=False)):
                break
            self.rng.choice(found)()
        self.check_rest()

    # -- the invariants ---------------------------------------------------------------------------------------------

    def check_step(self) -> None:
        s = self.state
        check(not (s.asked is not None and s.running), "thinking and acting at once")
        acts = [p for p in s.queue if p.id in s.running]
        alone = len(acts) <= 1 or all(isinstance(p.action, AgentDelegateAction) for p in acts)
        check(alone, "two actions at once that are not both delegates")
        if s.agent_state is AgentState.RUNNING and not self.inbox:
            outstanding = s.is_busy or s.owed or s.condensing
            check(bool(outstanding), "RUNNING with nothing outstanding")
        if s.agent_state is AgentState.RATE_LIMITED:
            self.reached.add("rate limited")
            check(s.asked is not None, "waits for the rate limit of no call")
        if s.agent_state is AgentState.AWAITING_USER_CONFIRMATION:
            check(any(pending.held for pending in s.queue), "asks for a confirmation of nothing")
        for pending in s.queue:
            check(not (pending.held and pending.id in self.executed), "carried out without the user's yes")
        if s.agent_state is AgentState.ERROR:
            check(s.halt is not None, "an error without a way out")
        if s.halt is not None:
            self.reached.add(f"{s.halt.kind}:{s.halt.what}")
            check(len(s.halt.options) >= 2, "a halt without a way out")
            check(s.agent_state in (AgentState.PAUSED, AgentState.ERROR), f"a halt in {s.agent_state}")
        self.check_limits()

    def check_condensation(self, before: State, envelope: Envelope) -> None:
        """A compaction at rest wakes no agent."""
        if isinstance(envelope.event, ChangeAgentStateAction) and envelope.event.agent_state is AgentState.STOPPED:
            self.condensed = False  # a wish that is on its way may be given up, and comes again
        if isinstance(envelope.event, CondensationRequestAction) and self.state.asked == envelope.id:
            self.at_rest = envelope.id if before.agent_state is not AgentState.RUNNING else None
        if isinstance(envelope.event, CondensationAction) and envelope.cause == self.at_rest is not None:
            self.at_rest = None
            self.reached.add("condensed at rest")
            if envelope.cause == before.asked and not before.unread:
                check(self.state.asked is None, "the model is asked because of a condensation")

    def check_limits(self) -> None:
        """A call that begins is within the user's limits."""
        s = self.state
        if s.asked == self.seen:
            most = s.allowed.max_iterations
            check(most is None or s.iteration < most, "asked beyond the limit of iterations")
            cost, allowed = s.metrics.accumulated_cost, s.allowed.max_budget
            if allowed is not None:
                expected = PRICE if s.iteration else 0.0
                check(cost is not None and cost + expected <= allowed + 1e-9, "asked beyond the budget")

    def check_rest(self) -> None:
        s = self.state
        check(not self.moves(user=False, crashes=False), "does not come to rest")
        check(s.agent_state in RESTING, f"rests in {s.agent_state}")
        answers = [e.cause for e in self.log if isinstance(e.event, Observation) and e.cause is not None]
        for envelope in self.log:
            waiting_ids = [pending.id for pending in s.queue]
            if isinstance(envelope.event, Action) and envelope.event.acts and envelope.id not in waiting_ids:
                count = answers.count(envelope.id)
                check(count == 1, f"action {envelope.id} has {count} observations")
        stands = [e for e in self.log if not self.is_undone(e.id)]
        later = {e.id for e in stands if isinstance(e.event, MessageAction) and e.event.queued}
        gone = {e.cause for e in self.log if is_said(e) or isinstance(e.event, NullAction)}
        check(later - gone == {queued.id for queued in s.queued}, "a queued message is lost")
        if s.queue:
            waiting = s.agent_state in (AgentState.AWAITING_USER_CONFIRMATION, AgentState.PAUSED)
            check(waiting, f"an action is left behind in {s.agent_state}")
        if s.agent_state in (AgentState.AWAITING_USER_INPUT, AgentState.FINISHED):
            asked = max((e.cause or 0 for e in self.log if e.source is AGENT and e.cause is not None), default=0)
            said = max((e.id for e in stands if is_said(e)), default=0)
            may_wait = self.crashed or self.found
            check(not s.queued or bool(may_wait), "a queued message is not said")
            is_answer_undone = any(said < span.start for span in undone_spans(self.log))
            check(not s.unread and (asked >= said or is_answer_undone), "a message of the user stays unread")
        again = State.initial(self.limits)
        for envelope in self.log:
            again = self.machine.evolve(again, envelope)
        check(again == s, "the fold of the log is not the live state")
