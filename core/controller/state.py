"""What the controller of a conversation knows: a value, computed from the log and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from core.controller.exit_reasons import Halt
from core.controller.stuck import Step
from core.events import Action, AgentState, LLMMetrics, MessageAction
from core.memory.token_estimate import Room

_NOTHING_SPENT = LLMMetrics()


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the agent goes before it asks; None is no limit. An extension adds the same amount again."""

    max_iterations: int | None = 500
    """Answers of the model; V0's default."""
    max_budget: float | None = None
    """US dollars."""
    max_tokens: int | None = None
    """Tokens of all calls, prompts and answers."""
    max_seconds: float | None = None
    """Seconds that the agent works; waiting for the user does not count."""
    room: Room = Room()  # noqa: RUF009  # frozen
    """How much the model may see; what is beyond is condensed, and nobody is asked."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An action that has no observation yet."""

    id: int
    action: Action
    held: bool = False
    """It waits for the user's yes."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An action that will not be carried out, and whose observation the controller still has to write."""

    action_id: int
    why: Literal["stopped", "behind", "rejected", "planned", "denied"]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that the user wants said once the agent rests."""

    id: int
    text: str
    image_urls: tuple[str, ...] = ()
    context: str = ""

    def said(self) -> MessageAction:
        """The message with which it is said."""
        return MessageAction(content=self.text, image_urls=list(self.image_urls) or None, context=self.context)


@dataclass(frozen=True, slots=True)
class Undoing:
    """An undo that was begun, or a redo, and whose observation is still to come."""

    id: int
    first: int
    chat: bool
    redoes: int | None = None


@dataclass(frozen=True, slots=True)
class Undone:
    """An undo that can be taken back, and what its events had made of the state."""

    id: int
    """Of its action."""
    first: int
    chat: bool
    first_said: int | None
    queued: tuple[Queued, ...]
    agent_state: AgentState
    reason: str
    halt: Halt | None
    unread: bool
    plans: tuple[tuple[int, bool], ...] = ()
    """What was said of the plan since."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of one conversation. `fold` of its log gives it; restart is a fold."""

    limits: Limits = Limits()
    agent_state: AgentState = AgentState.LOADING
    reason: str = ""
    """Why the state is what it is, for people; empty where that is plain."""
    halt: Halt | None = None
    """What stands in the way, and the ways out of it; the user chooses one."""

    asked: int | None = None
    """The id of the event that the agent is answering: one model call is in flight."""
    answer: int | None = None
    """What the answer that comes in now answers, while `answer_left` of its events are still to come."""
    answer_left: int = 0
    queue: tuple[Pending, ...] = ()
    """Actions without an observation, in order."""
    running: tuple[int, ...] = ()
    """Those of the queue that are being carried out: the first one, or several delegates at its head."""
    owed: tuple[Owed, ...] = ()
    recalls: frozenset[int] = frozenset()
    """Messages and recalls for which memory has not answered yet."""
    errands: frozenset[int] = frozenset()
    """Actions of the user's or the environment's own that have no observation yet; nobody waits for them."""
    ending: AgentState | None = None
    """Where the agent's last answer leads once its actions are done."""
    unread: bool = False
    """A message of the user that no model call has seen."""
    first_said: int | None = None
    """The id of the first message of the user."""
    queued: tuple[Queued, ...] = ()
    releasing: int | None = None
    """The queued message that is being said."""
    condensing: bool = False
    """The history was too long for the model, and a request to condense it is on its way."""
    condensed: bool = False
    """It has been asked for since the model's last real answer."""
    rests: AgentState | None = None
    """Where the controller goes back to after a condensation that the user wanted while it rested."""
    view_events: int = 0
    """Events that the model sees, about."""
    view_tokens: int = 0
    """Tokens of its next prompt, about: what its provider said of the last answer, and an estimate of the rest."""
    recent: tuple[Step, ...] = ()
    """The agent's last steps since the user spoke, for finding loops."""
    plans: tuple[tuple[int, bool], ...] = ()
    """From which event on the agent only plans, or carries out; the last one holds. Empty: it never plans."""
    undoing: Undoing | None = None
    undone: tuple[Undone, ...] = ()
    """The undos since the user spoke, which can be taken back, the latest first of all: it is the last one here."""

    iteration: int = 0
    metrics: LLMMetrics = _NOTHING_SPENT
    last_cost: float = 0.0
    """US dollars of the last call, which the next one is expected to cost at least."""
    worked_s: float = 0.0
    """Seconds in RUNNING until `running_since`."""
    running_since: datetime | None = None
    allowed: Limits = Limits()
    """The limits as the user has extended them."""
    day_grants: tuple[date, int] | None = None
    """How often the limits of this day (UTC) were extended."""

    @classmethod
    def initial(cls, limits: Limits | None = None) -> State:
        """The state before the first event."""
        limits = limits or Limits()
        return cls(limits=limits, allowed=limits)

    @property
    def planning(self) -> bool:
        """Whether a plan is to be approved before anything changes."""
        return bool(self.plans) and self.plans[-1][1]

    @property
    def tokens(self) -> int:
        """Tokens of all calls so far."""
        usage = self.metrics.accumulated_token_usage
        return usage.prompt_tokens + usage.completion_tokens

    def worked_at(self, now: datetime) -> float:
        """Seconds that the agent has worked by then; a clock that was set back adds nothing."""
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
        """Nothing is under way, held back or owed, so that what was said can be taken back."""
        waits = self.queue or self.owed or self.condensing or self.releasing is not None or self.undoing is not None
        return not (self.is_busy or waits) and self.agent_state not in (AgentState.LOADING, AgentState.RUNNING)

    @property
    def is_settled(self) -> bool:
        """The agent rests: it finished, asks, failed or was stopped, and nothing is owed any more."""
        return not self.is_busy and not self.owed and self.agent_state is not AgentState.RUNNING

    @property
    def is_busy(self) -> bool:
        """Something is under way: a model call, an action, a recall."""
        return self.asked is not None or bool(self.running) or bool(self.recalls) or self.answer_left > 0
