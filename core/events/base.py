"""The base classes of events, their envelope, the enums that events share, and live frames.

An event is an immutable fact. Its envelope has its id, time, source and cause in the conversation. A class becomes part
of the vocabulary by defining its `kind`; the registries, the codec and the event pane follow from that. Events of
unknown kinds are kept and written back unchanged. Implements the event model of OpenHands V0
(`openhands/events/event.py`, `openhands/core/schema`).

Frames (streamed tokens, terminal output, pages, notices) are shown live and not stored. They are a separate type, so
that the type checker decides what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.plugin import _loader

_loader._plugins = {}  # looking for plugins reads about every installed package, and none may watch events


class EventSource(StrEnum):
    """Where an event comes from."""

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
    """Whether the user must approve an action before it is carried out."""

    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    AWAITING_CONFIRMATION = "awaiting_confirmation"


class AgentState(StrEnum):
    """The state of a conversation's controller."""

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
    """What memory should look up."""

    WORKSPACE_CONTEXT = "workspace_context"
    KNOWLEDGE = "knowledge"


class FileEditSource(StrEnum):
    """The editor that an edit is written for."""

    LLM_BASED_EDIT = "llm_based_edit"
    OH_ACI = "oh_aci"


class FileReadSource(StrEnum):
    """The reader that a read is written for."""

    OH_ACI = "oh_aci"
    DEFAULT = "default"


CONFIRMATION = frozenset({"confirmation_state"})
"""The confirmation field of actions that V0 never asks about; here every action can wait for approval."""


class ToolCallMetadata(BaseModel):
    """The tool call, and its model answer, that an action carries out or an observation answers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=(), defer_build=True
    )

    function_name: str
    tool_call_id: str
    model_response: dict[str, JsonValue] = {}
    """The whole answer on its first action; only its `id` on later actions and on observations."""
    total_calls_in_response: int = 1


class TokenUsage(BaseModel):
    """Tokens of one call, or summed over many calls. Never negative."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False, defer_build=True)
    __pydantic_extra__: dict[str, JsonValue]

    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    context_window: int = 0
    """The model's context window in tokens; 0 if unknown."""
    per_turn_token: int = 0
    """Tokens of the latest call alone, prompt and answer: the current context usage."""
    response_id: str = ""

    @property
    def is_estimated(self) -> bool:
        """Whether the counts are estimates because the provider sent none. Stored only if true."""
        return (self.__pydantic_extra__ or {}).get("is_estimated") is True


class LLMMetrics(BaseModel):
    """What the conversation had spent on models when the event was made."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False, defer_build=True)
    __pydantic_extra__: dict[str, JsonValue]

    accumulated_cost: float | None = 0.0
    """US dollars; None as soon as the price of one call was unknown."""
    max_budget_per_task: float | None = None
    accumulated_token_usage: TokenUsage = Field(default_factory=TokenUsage)


class Judged(BaseModel):
    """Why an action needs approval or was refused: the rule and its reasons. Not part of V0."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True)

    verdict: Literal["ask", "deny"]
    rule: str = ""
    """The rule and where it is: `policy.toml:3 deny bash(git push *)`."""
    reasons: list[str] = []
    stays: bool = False
    """Whether the rule always asks, even if a permission would allow the action."""
    risk: Literal["", "unknown", "low", "medium", "high"] = ""
    """The highest risk according to rules, analyzers and model; empty if it was not recorded."""


class Event(BaseModel):
    """A durable fact. Subclasses are frozen and refuse undeclared fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    kind: ClassVar[str] = "unknown"
    """The name in the stored form, as `action` or `observation`. Classes without their own kind are not registered."""
    kinds: ClassVar[dict[str, type[Any]]]
    """All kinds of this branch (actions or observations), by name."""
    ours: ClassVar[frozenset[str]] = frozenset()
    """Fields that V0 does not have. They are left out of the stored form if they have their defaults."""
    pictures: ClassVar[tuple[str, ...]] = ()
    """Fields with a picture URL or a list of them; pictures are stored separately (`core.store.blobs`)."""

    tool_call_metadata: ToolCallMetadata | None = None
    llm_metrics: LLMMetrics | None = None

    @property
    def message(self) -> str:
        """One line for people, derived from the fields."""
        return ""

    @property
    def thought_text(self) -> str:
        """What the model said with its call; empty if the event has no thought."""
        thought = getattr(self, "thought", "")
        return thought if isinstance(thought, str) else ""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" not in cls.__dict__:
            return
        taken = cls.kinds.setdefault(cls.kind, cls)
        if taken is not cls:
            raise TypeError(f"the kind {cls.kind!r} of {cls.__name__} is taken by {taken.__name__}")


class Action(Event):
    """A command: what the agent, the user or the system wants done."""

    kinds: ClassVar[dict[str, type[Action]]] = {}
    runnable: ClassVar[bool] = False
    """Whether a runtime carries it out."""

    delegated: ClassVar[bool] = False
    """Whether another agent carries it out."""

    timeout: float | None = None
    """Seconds until the runtime gives up; None for its default."""
    judgement: Judged | None = None
    """Why it waits for approval or was refused. Left out of the stored form if None."""

    @property
    def acts(self) -> bool:
        """Whether it is carried out. Every action that acts gets exactly one observation."""
        return self.runnable or self.delegated

    @property
    def only_reads(self) -> bool:
        """Whether it changes nothing, so that it may run before a plan is approved and needs no checkpoint."""
        return False

    @property
    def confirmation(self) -> ActionConfirmationStatus:
        """Whether the user must approve it: from its field `confirmation_state`, else from its judgement."""
        stored = getattr(self, "confirmation_state", None)
        if isinstance(stored, ActionConfirmationStatus):
            return stored
        if self.judgement is None:
            return ActionConfirmationStatus.CONFIRMED
        asks = self.judgement.verdict == "ask"
        return ActionConfirmationStatus.AWAITING_CONFIRMATION if asks else ActionConfirmationStatus.REJECTED


class Refusal(BaseModel):
    """Something that the isolation of the sandbox refused an action. Not part of V0.

    Made on this machine from what the isolation knows, never by the sandbox.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    text: str
    """One line for the user and the agent."""
    host: str = ""
    """HOST or HOST:PORT that the sandbox's own proxy refused and the user can allow; else empty."""


class Observation(Event):
    """The result of an action, or something that happened in the environment."""

    kinds: ClassVar[dict[str, type[Observation]]] = {}

    content: str = ""
    refusals: tuple[Refusal, ...] = ()
    """What the isolation refused meanwhile. Left out of the stored form if empty."""

    @property
    def success(self) -> bool | None:
        """Whether the action worked; None if that is unknown."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """An event with its place in a conversation. Ids start at 0 and have no gaps.

    Not validated, because one is made for every stored event. Data from outside passes the codec.
    """

    conversation_id: str
    id: Annotated[int, Field(ge=0)]
    timestamp: datetime
    """Aware, UTC. Events are ordered by id, because clocks may jump."""
    source: EventSource
    cause: int | None = None
    """The id of the event that led to this one."""
    event: Event
    carried: dict[str, JsonValue] = field(default_factory=dict)
    """Parts of the stored form that this version does not know, written back unchanged."""


class UnknownAction(Action):
    """An action from another version or another program. Never carried out."""

    raw: dict[str, JsonValue]
    """The whole stored form without the envelope's fields."""

    @property
    def message(self) -> str:
        return str(self.raw.get("message", ""))


class UnknownObservation(Observation):
    """An observation from another version or another program."""

    raw: dict[str, JsonValue]
    """The whole stored form without the envelope's fields."""

    @property
    def message(self) -> str:
        return str(self.raw.get("message", ""))


def stored_kind(event: UnknownAction | UnknownObservation) -> str:
    """The stored kind, a name that this version does not know."""
    return str(event.raw.get("action", event.raw.get("observation", "")))


CONVERSATION_TITLE = "STATUS$CONVERSATION_TITLE"
"""Id of the notice that carries a new title: updates lists and tabs, and is not shown as a notice."""


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """A streamed piece of the model's answer. The following event has the whole text."""

    cause: int
    """The id of the event that the agent is answering."""
    text: str
    channel: Literal["answer", "reasoning"] = "answer"


@dataclass(frozen=True, slots=True)
class TerminalOutput:
    """Raw terminal output with its escape sequences, not sanitised."""

    cause: int
    """The id of the action that prints; -1 for output of the shell itself."""
    data: bytes
    is_echo: bool = False
    """Whether it is typed input shown to the user, not output of a program."""


@dataclass(frozen=True, slots=True)
class Status:
    """A notice about a retry, a start or a problem. It replaces an older notice with the same id."""

    level: Literal["info", "error"]
    id: str
    """As in V0: `STATUS$LLM_RETRY`, `STATUS$READY`, ..."""
    message: str
    """Text for the user; an empty one removes the notice."""


@dataclass(frozen=True, slots=True)
class PageShown:
    """The current page in the browser. Its title and address are untrusted."""

    cause: int
    """The id of the current or last browser action; -1 before the first."""
    url: str
    title: str
    data: bytes
    """A JPEG."""
    width: int
    """Width of the viewport in pixels, in BrowserGym's coordinates; `height` is the same."""
    height: int
    look: Mapping[str, Any] = field(default_factory=dict)
    """As `BrowserOutputObservation.look`; empty if the page is too large to be read repeatedly."""


Frame = TokenDelta | TerminalOutput | Status | PageShown
