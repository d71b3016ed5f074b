"""The base classes of events, their envelope, and the enums that events share.

An event is an immutable fact. Its envelope has its id, time, source and cause in the conversation. A class becomes part
of the vocabulary by defining its `kind`; the registries, the codec and the event pane follow from that. Events of
unknown kinds are kept and written back unchanged. Implements the event model of OpenHands V0
(`openhands/events/event.py`, `openhands/core/schema`). Nothing here does IO.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class EventSource(StrEnum):
    """Who an event comes from."""

    AGENT = "agent"
    USER = "user"
    ENVIRONMENT = "environment"


class ActionSecurityRisk(IntEnum):
    """How much harm an action could do."""

    UNKNOWN = -1
    LOW = 0
    MEDIUM = 1
    HIGH = 2


class ActionConfirmationStatus(StrEnum):
    """Whether the user has to agree before an action is carried out."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    AWAITING_CONFIRMATION = "awaiting_confirmation"


class AgentState(StrEnum):
    """What the controller of a conversation is doing."""

    LOADING = "loading"
    RUNNING = "running"
    AWAITING_USER_INPUT = "awaiting_user_input"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"
    REJECTED = "rejected"
    ERROR = "error"
    AWAITING_USER_CONFIRMATION = "awaiting_user_confirmation"
    USER_CONFIRMED = "user_confirmed"
    USER_REJECTED = "user_rejected"
    RATE_LIMITED = "rate_limited"


class RecallType(StrEnum):
    """What memory is asked for."""

    WORKSPACE_CONTEXT = "workspace_context"
    KNOWLEDGE = "knowledge"


class FileEditSource(StrEnum):
    """Which editor an edit is written for."""

    LLM_BASED_EDIT = "llm_based_edit"
    OH_ACI = "oh_aci"


class FileReadSource(StrEnum):
    """Which reader a read is written for."""

    OH_ACI = "oh_aci"
    DEFAULT = "default"


CONFIRMATION = frozenset({"confirmation_state"})
"""V0 never asks before these; here every action that acts can wait for the user's yes."""


class ToolCallMetadata(BaseModel):
    """Which tool call of which model answer an action carries out, or an observation answers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    function_name: str
    tool_call_id: str
    model_response: dict[str, JsonValue] = {}
    """The whole answer on its first action; only its `id` on the later ones and on observations."""
    total_calls_in_response: int = 1


class TokenUsage(BaseModel):
    """Tokens of one call, or summed over many. None of them is ever negative."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, JsonValue]

    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    context_window: int = 0
    """Tokens that the model can see at once; 0 where it is not known."""
    per_turn_token: int = 0
    """Tokens of the latest call alone, prompt and answer: what fills the context now."""
    response_id: str = ""

    @property
    def is_estimated(self) -> bool:
        """Whether a provider sent no counts, so that these were made out here; said in a log only where it is so."""
        return (self.__pydantic_extra__ or {}).get("is_estimated") is True


class LLMMetrics(BaseModel):
    """What the conversation has spent on models when the event was made."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, JsonValue]

    accumulated_cost: float | None = 0.0
    """US dollars; None as soon as one call's price was unknown. An unknown price is never 0."""
    max_budget_per_task: float | None = None
    accumulated_token_usage: TokenUsage = TokenUsage()


class Judged(BaseModel):
    """Why an action was held or refused: the rule and its reasons. Handloom's own."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    verdict: Literal["ask", "deny"]
    rule: str = ""
    """As the user finds it again: `policy.toml:3 deny bash(git push *)`."""
    reasons: list[str] = []
    stays: bool = False
    """Whether the rule asks each time, whatever is permitted."""
    risk: Literal["", "unknown", "low", "medium", "high"] = ""
    """The strictest that the rules, the analyzers and the model say of it; empty where it was not kept."""


class Event(BaseModel):
    """A durable fact. Subclasses are frozen; fields that nobody declared are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: ClassVar[str] = "unknown"
    """The name in the stored form: the value of `action` or `observation`. Classes without one are not registered."""
    kinds: ClassVar[dict[str, type[Any]]]
    """Every kind of this branch of the vocabulary, by name."""
    ours: ClassVar[frozenset[str]] = frozenset()
    """Fields that V0 does not have: left out of the stored form while they have their defaults."""
    pictures: ClassVar[tuple[str, ...]] = ()
    """The fields that hold a picture's URL, or a list of them; kept beside the event (`core.store.blobs`)."""

    tool_call_metadata: ToolCallMetadata | None = None
    llm_metrics: LLMMetrics | None = None

    @property
    def message(self) -> str:
        """One line for people. Derived, never stored as a truth of its own."""
        return ""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" not in cls.__dict__:
            return
        taken = cls.kinds.setdefault(cls.kind, cls)
        if taken is not cls:
            raise TypeError(f"the kind {cls.kind!r} of {cls.__name__} is taken by {taken.__name__}")


class Action(Event):
    """A command: something that the agent, the user or the system wants done."""

    kinds: ClassVar[dict[str, type[Action]]] = {}
    runnable: ClassVar[bool] = False
    """Whether a runtime carries it out."""

    delegated: ClassVar[bool] = False
    """Whether another agent carries it out."""

    timeout: float | None = None
    """Seconds until the runtime gives up; None leaves it to the runtime."""
    judgement: Judged | None = None
    """Why it waits for the user's yes or is not carried out; left out of the stored form where it has none."""

    @property
    def acts(self) -> bool:
        """Whether it is carried out. Every action that acts gets exactly one observation."""
        return self.runnable or self.delegated

    @property
    def thought_text(self) -> str:
        """What the model said beside the call; empty where the action has no thought."""
        thought = getattr(self, "thought", "")
        return thought if isinstance(thought, str) else ""


class Observation(Event):
    """A result: what came of an action, or what happened in the environment."""

    kinds: ClassVar[dict[str, type[Observation]]] = {}

    content: str = ""

    @property
    def success(self) -> bool | None:
        """Whether the action worked, where that can be said at all."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """An event at its place in a conversation. Ids start at 0 and have no gaps.

    Not validated: one is made for every event that is stored. What comes from outside passes the codec.
    """

    conversation_id: str
    id: Annotated[int, Field(ge=0)]
    timestamp: datetime
    """Aware, UTC. Order is by id; clocks may jump."""
    source: EventSource
    cause: int | None = None
    """The id of the event that led to this one."""
    event: Event
    carried: dict[str, JsonValue] = field(default_factory=dict)
    """Parts of the stored form that this version does not know, kept and written back unchanged."""


class UnknownAction(Action):
    """An action from another version or another program. Never carried out."""

    raw: dict[str, JsonValue]
    """The whole stored form but for the envelope's fields."""

    @property
    def message(self) -> str:
        return str(self.raw.get("message", ""))


class UnknownObservation(Observation):
    """An observation from another version or another program."""

    raw: dict[str, JsonValue]
    """The whole stored form but for the envelope's fields."""

    @property
    def message(self) -> str:
        return str(self.raw.get("message", ""))


def stored_kind(event: UnknownAction | UnknownObservation) -> str:
    """The kind as it is stored: a name that this version does not know."""
    return str(event.raw.get("action", event.raw.get("observation", "")))
