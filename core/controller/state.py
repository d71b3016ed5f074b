"""The state of a controller: a value, computed from the log alone; and how an undo changes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Literal

from core.controller.exit_reasons import Halt
from core.controller.stuck import Step
from core.events import Action, AgentState, LLMMetrics, MessageAction, UndoAction, UndoObservation
from core.memory.context_events import ContextLimit

_NOTHING_SPENT = LLMMetrics()


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the agent goes before it asks; None means no limit. An extension adds the same amount again."""

    max_iterations: int | None = 500
    """Model calls; V0's default."""
    max_budget: float | None = None
    """US dollars."""
    max_tokens: int | None = None
    """Tokens of all calls, prompts and answers."""
    max_seconds: float | None = None
    """Seconds that the agent works; waiting for the user does not count."""
    context: ContextLimit = ContextLimit()  # noqa: RUF009  # frozen
    """How much the model may see; beyond that the history is condensed without asking."""


NO_LIMITS = Limits(max_iterations=None)


@dataclass(frozen=True, slots=True)
class Pending:
    """An action that has no observation yet."""

    id: int
    action: Action
    held: bool = False
    """Whether it waits for approval."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An action that will not be carried out, and whose observation is still to be written."""

    action_id: int
    why: Literal["stopped", "behind", "rejected", "planned", "denied"]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that is sent when the agent rests."""

    id: int
    text: str
    image_urls: tuple[str, ...] = ()
    context: str = ""

    def message(self) -> MessageAction:
        """The message that is sent."""
        return MessageAction(content=self.text, image_urls=list(self.image_urls) or None, context=self.context)


@dataclass(frozen=True, slots=True)
class Undoing:
    """An undo or a redo that was begun, and has no observation yet."""

    id: int
    first: int
    chat: bool
    redoes: int | None = None


@dataclass(frozen=True, slots=True)
class Undone:
    """An undo that can be redone, with the parts of the state that it reverted."""

    id: int
    """The id of its action."""
    first: int
    chat: bool
    first_message_id: int | None
    queued: tuple[Queued, ...]
    agent_state: AgentState
    reason: str
    halt: Halt | None
    unread: bool
    plans: tuple[tuple[int, bool], ...] = ()
    """The approvals of plans since."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of one conversation: the fold of its log."""

    limits: Limits = Limits()
    agent_state: AgentState = AgentState.LOADING
    reason: str = ""
    """Why the agent is in this state, for people; empty if that is obvious."""
    halt: Halt | None = None
    """What stopped the agent, and the choices of the user."""

    asked: int | None = None
    """The id of the event that the agent is answering: a model call is running."""
    answer: int | None = None
    """The cause of the answer that is arriving, while `answer_left` of its events are missing."""
    answer_left: int = 0
    queue: tuple[Pending, ...] = ()
    """Actions without an observation, in order."""
    running: tuple[int, ...] = ()
    """Actions of the queue that are running: the first one, or several delegates at its head."""
    owed: tuple[Owed, ...] = ()
    recalls: frozenset[int] = frozenset()
    """Messages and recalls that memory has not answered yet."""
    side_actions: frozenset[int] = frozenset()
    """Actions of the user or the environment that have no observation yet; nothing waits for them."""
    ending: AgentState | None = None
    """The state that follows the last answer when its actions are done."""
    unread: bool = False
    """Whether there is a message of the user that no model call has seen."""
    first_message_id: int | None = None
    """The id of the first message of the user."""
    queued: tuple[Queued, ...] = ()
    releasing: int | None = None
    """The queued message that is being sent."""
    condensing: bool = False
    """The history was too long for the model, and a request to condense it was made."""
    condensed: bool = False
    """Whether that was requested since the last answer of the model."""
    resting_state: AgentState | None = None
    """The state to return to after a condensation that the user requested at rest."""
    view_events: int = 0
    """The estimated number of events that the model sees."""
    view_tokens: int = 0
    """The estimated tokens of the next prompt: reported for the last answer, estimated for later events."""
    recent: tuple[Step, ...] = ()
    """The last steps of the agent since the last message of the user, to detect loops."""
    plans: tuple[tuple[int, bool], ...] = ()
    """From which event on the agent only plans (True) or works; the last one holds. Empty: it never plans."""
    undoing: Undoing | None = None
    undone: tuple[Undone, ...] = ()
    """The undos since the last message of the user, which can be redone, newest last."""

    iteration: int = 0
    metrics: LLMMetrics = _NOTHING_SPENT
    last_cost: float = 0.0
    """US dollars of the last call; the next one is expected to cost at least as much."""
    worked_s: float = 0.0
    """Seconds in RUNNING until `running_since`."""
    running_since: datetime | None = None
    allowed: Limits = Limits()
    """The limits, with the extensions by the user."""
    daily_extensions: tuple[date, int] | None = None
    """The day (UTC) and how often its limits were extended."""

    @classmethod
    def initial(cls, limits: Limits | None = None) -> State:
        """The state before the first event."""
        limits = limits or Limits()
        return cls(limits=limits, allowed=limits)

    @property
    def planning(self) -> bool:
        """Whether a plan has to be approved before anything changes."""
        return bool(self.plans) and self.plans[-1][1]

    @property
    def tokens(self) -> int:
        """Tokens of all calls so far."""
        usage = self.metrics.accumulated_token_usage
        return usage.prompt_tokens + usage.completion_tokens

    def worked_at(self, now: datetime) -> float:
        """Seconds that the agent has worked by then; setting the clock back adds nothing."""
        if self.running_since is None:
            return self.worked_s
        return self.worked_s + max((now - self.running_since).total_seconds(), 0.0)

    @property
    def awaiting(self) -> int | None:
        """The id of the action that waits for the user's confirmation."""
        if self.agent_state is not AgentState.AWAITING_USER_CONFIRMATION:
            return None
        return next((pending.id for pending in self.queue if pending.held), None)

    @property
    def can_undo(self) -> bool:
        """Whether nothing is running, waiting or owed, so that turns can be undone."""
        waits = self.queue or self.owed or self.condensing or self.releasing is not None or self.undoing is not None
        return not (self.is_busy or waits) and self.agent_state not in (AgentState.LOADING, AgentState.RUNNING)

    @property
    def is_settled(self) -> bool:
        """Whether the agent rests: it finished, asks, failed or was stopped, and no observation is owed."""
        return not self.is_busy and not self.owed and self.agent_state is not AgentState.RUNNING

    @property
    def is_busy(self) -> bool:
        """Whether a model call, an action or a recall is running."""
        return self.asked is not None or bool(self.running) or bool(self.recalls) or self.answer_left > 0


def begin_undo(s: State, action_id: int, action: UndoAction) -> State:
    """The state with an undo or a redo begun; unchanged if it is not possible: it begins only while nothing runs."""
    if not s.can_undo or (action.redoes is not None and (not s.undone or s.undone[-1].id != action.redoes)):
        return s
    return replace(s, undoing=Undoing(action_id, action.first, action.chat, action.redoes))


def finish_undo(s: State, observation: UndoObservation) -> State:
    """The state after the end of an undo or a redo, which restores the state before the undo.

    Costs and extended limits are not reverted, and nothing is sent or run.
    """
    undoing, s = s.undoing, replace(s, undoing=None)
    if undoing is None or not observation.done:
        return s
    return _undo(s, undoing) if undoing.redoes is None else _redo(s)


def _undo(s: State, undoing: Undoing) -> State:
    first = undoing.first
    aside = Undone(
        undoing.id, first, undoing.chat, s.first_message_id, s.queued, s.agent_state, s.reason, s.halt, s.unread,
        tuple(plan for plan in s.plans if plan[0] >= first),
    )  # fmt: skip
    s = replace(s, undone=(*s.undone, aside))
    if not undoing.chat:
        return s
    return replace(
        s,
        first_message_id=s.first_message_id if s.first_message_id is not None and s.first_message_id < first else None,
        queued=tuple(queued for queued in s.queued if queued.id < first),
        agent_state=AgentState.AWAITING_USER_INPUT,
        reason="",
        halt=None,
        unread=False,
        plans=tuple(plan for plan in s.plans if plan[0] < first),
        ending=None,
        condensed=False,
        recent=(),
    )


def _redo(s: State) -> State:
    *left, aside = s.undone
    s = replace(s, undone=tuple(left))
    if not aside.chat:
        return s
    return replace(
        s,
        first_message_id=aside.first_message_id,
        queued=(*s.queued, *(queued for queued in aside.queued if queued.id >= aside.first)),
        agent_state=aside.agent_state,
        reason=aside.reason,
        halt=aside.halt,
        unread=aside.unread,
        plans=(*s.plans, *aside.plans),
        recent=(),
    )
