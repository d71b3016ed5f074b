"""What the controller of a conversation knows: a value, computed from the log and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.events import AgentState, LLMMetrics

Limit = Literal["iterations", "budget"]
_NOTHING_SPENT = LLMMetrics()


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the agent goes before it asks. An extension adds the same amount again."""

    max_iterations: int = 500
    """Answers of the model; V0's default."""
    max_budget: float | None = None
    """US dollars; None is no limit."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An action that will not be carried out, and whose observation the controller still has to write."""

    action_id: int
    why: Literal["stopped", "rejected"]
    note: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The state of one conversation. `fold` of its log gives it; restart is a fold."""

    limits: Limits = Limits()
    agent_state: AgentState = AgentState.LOADING
    reason: str = ""
    """Why the state is what it is, for people; empty where that is plain."""

    asked: int | None = None
    """The id of the event that the agent is answering: one model call is in flight."""
    answer: int | None = None
    """What the answer that comes in now answers, while `answer_left` of its events are still to come."""
    answer_left: int = 0
    queue: tuple[int, ...] = ()
    """Actions without an observation, in order; the first is the one in hand."""
    held: frozenset[int] = frozenset()
    """Those of the queue that wait for the user's yes."""
    running: int | None = None
    """The first of the queue while the runtime has it."""
    owed: tuple[Owed, ...] = ()
    recalls: frozenset[int] = frozenset()
    """Messages and recalls for which memory has not answered yet."""
    ending: AgentState | None = None
    """Where the agent's last answer leads once its actions are done."""
    unread: bool = False
    """A message of the user that no model call has seen."""
    greeted: bool = False
    """The user has said something before."""

    iteration: int = 0
    max_iterations: int = 500
    max_budget: float | None = None
    limit: Limit | None = None
    """The limit that was reached and asks to be extended."""
    metrics: LLMMetrics = _NOTHING_SPENT

    @classmethod
    def initial(cls, limits: Limits | None = None) -> State:
        """The state before the first event."""
        limits = limits or Limits()
        return cls(limits=limits, max_iterations=limits.max_iterations, max_budget=limits.max_budget)

    @property
    def awaiting(self) -> int | None:
        """The id of the action that waits for the user's confirmation."""
        return self.queue[0] if self.agent_state is AgentState.AWAITING_USER_CONFIRMATION else None

    @property
    def is_busy(self) -> bool:
        """Something is under way: a model call, an action, a recall."""
        return self.asked is not None or self.running is not None or bool(self.recalls) or self.answer_left > 0
