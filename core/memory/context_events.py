"""Which events the model sees, as which text, and how many tokens each of them takes. Pure.

The notes in texts are those of OpenHands V0, which models are tuned to. Tokens are estimated without a tokenizer,
slightly above what models count for prose and code, so that what fits by the estimate fits. `Scale` corrects the
estimate by what the provider counted in an earlier request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.events import (
    MAX_CMD_OUTPUT_CHARS,
    Action,
    AgentCondensationObservation,
    AgentFinishAction,
    AgentStateChangedObservation,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    ChangeAgentStateAction,
    CheckpointObservation,
    CmdOutputObservation,
    CondensationAction,
    CondensationRequestAction,
    ConsentAction,
    Envelope,
    ErrorObservation,
    Event,
    EventSource,
    LoopDetectionObservation,
    LoopRecoveryAction,
    MessageAction,
    ModeAction,
    NullAction,
    NullObservation,
    Observation,
    PermissionAction,
    PlanAction,
    RecallAction,
    RecallObservation,
    RecallType,
    ReviewAction,
    SecretMaskedObservation,
    SystemMessageAction,
    UndoAction,
    UndoObservation,
    UnknownAction,
    UnknownObservation,
    UserRejectObservation,
    truncate_middle,
)
from core.store.blobs import picture_urls

BYTES_PER_TOKEN = 3
"""UTF-8 bytes: three to four in English and code; a Chinese character has three and is often one token."""
MESSAGE_TOKENS = 4
"""The tokens of each message besides its text."""
PICTURE_TOKENS = 1200
"""About what providers count for a screenshot."""
LEAST_TOKENS = 64
"""The least that is left of a clipped text."""


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def clipped(text: str, tokens: int | None) -> str:
    """Cut out the middle of a text that takes more than `tokens`; None means no limit."""
    if tokens is None or len(text) <= tokens or (size := tokens_of(text)) <= tokens:
        return text
    return truncate_middle(text, max(LEAST_TOKENS, len(text) * tokens // size))


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """How large the model's view of a history may become before it is condensed. None means no limit."""

    max_events: int | None = None
    """Events that the model sees."""
    max_tokens: int | None = None
    """Tokens of a prompt."""
    share: float = 0.0
    """The share of the model's context window that a prompt may take, if `max_tokens` is not less; 0 means no limit."""

    def tokens(self, context_window: int) -> int | None:
        """Return the tokens that a prompt may have with this context window; 0 is an unknown window."""
        of_window = int(context_window * self.share) if context_window > 0 and self.share > 0 else None
        if self.max_tokens is None or of_window is None:
            return self.max_tokens or of_window
        return min(self.max_tokens, of_window)


def part_tokens(limit: int | None, parts: int = 1) -> int | None:
    """Return the limit of one message, or of one of so many results of one response: together a third of `limit`."""
    return None if limit is None else max(LEAST_TOKENS, limit // 3 // max(1, parts))


@dataclass(frozen=True, slots=True)
class Scale:
    """The factor that corrects the estimates of one conversation."""

    factor: float = 1.0

    @classmethod
    def of(cls, counted: int, estimated: int) -> Scale:
        """Compare what a provider counted with the estimate. Implausible counts are ignored or bounded."""
        if counted <= 0 or estimated <= 0:
            return cls()
        return cls(min(max(counted / estimated, 0.4), 3.0))

    def __call__(self, estimated: int) -> int:
        return int(estimated * self.factor)


MAX_OBSERVATION_CHARS = MAX_CMD_OUTPUT_CHARS
"""The limit of one observation."""
_UNSEEN = (
    AgentStateChangedObservation, CheckpointObservation, NullObservation, RecallObservation, SecretMaskedObservation,
    UndoObservation,
)  # fmt: skip
ERROR_NOTE = "[Error occurred in processing last action]"
REJECTION_NOTE = "[Last action has been rejected by the user]"
SUMMARY_NOTE = "[What came before was condensed. Here is a summary of it, a record of what was said and done:]"


def observation_text(observation: Observation) -> str:
    """Return an observation as text, at most MAX_OBSERVATION_CHARS and a note long."""
    match observation:
        case CmdOutputObservation():
            return truncate_middle(observation.to_agent_text(), MAX_OBSERVATION_CHARS)
        case ErrorObservation():
            return f"{truncate_middle(observation.content, MAX_OBSERVATION_CHARS)}\n{ERROR_NOTE}"
        case UserRejectObservation():
            return f"{truncate_middle(observation.content, MAX_OBSERVATION_CHARS)}\n{REJECTION_NOTE}"
        case AgentCondensationObservation():
            return f"{SUMMARY_NOTE}\n{truncate_middle(observation.content, MAX_OBSERVATION_CHARS)}"
        case RecallObservation():
            return truncate_middle(_recall_text(observation), MAX_OBSERVATION_CHARS)
        case _:
            return truncate_middle(observation.content, MAX_OBSERVATION_CHARS)


def seen_pictures(observation: Observation) -> list[str]:
    """Return the URLs of the pictures that the model gets with an observation.

    For a page that is the screenshot after an action in it, with marks if possible; a page that was only opened is sent
    as text.
    """
    if isinstance(observation, BrowserOutputObservation):
        acted = observation.trigger_by_action == BrowseInteractiveAction.kind
        page = observation.set_of_marks or observation.screenshot
        return [page] if acted and page else []
    return picture_urls(observation)


ENVIRONMENT, ENVIRONMENT_CHANGED = "[Environment]", "[Environment changed]"
"""The beginning of a line that depends on the machine; `core.llm.cassette` removes such lines."""


def environment_text(facts: Mapping[str, str], mark: str = ENVIRONMENT) -> str:
    """Return what the agent is told about where its commands run, as one line."""
    return f"{mark} " + ". ".join(f"{name}: {value}" for name, value in facts.items()) + "."


def _recall_text(found: RecallObservation) -> str:
    parts: list[str] = []
    if found.recall_type is RecallType.WORKSPACE_CONTEXT:
        if found.working_dir:
            parts.append(f"The working directory is {found.working_dir}")
        if found.date:
            parts.append(f"Today's date is {found.date} (UTC)")
        if found.environment:
            parts.append(environment_text(found.environment))
        if found.repo_name:
            where = f" in {found.repo_directory}" if found.repo_directory else ""
            branch = f" on branch {found.repo_branch}" if found.repo_branch else ""
            parts.append(f"The repository {found.repo_name} is{where or ' here'}{branch}")
        parts += [
            f"The user sees at {host} what you serve on port {port}; let a server listen there on 0.0.0.0"
            for host, port in found.runtime_hosts.items()
        ]
        parts += [
            f"The environment variable ${name} holds a secret: {description}".removesuffix(": ")
            for name, description in found.custom_secrets_descriptions.items()
        ]
        for instructions in (
            found.repo_instructions,
            found.additional_agent_instructions,
            found.conversation_instructions,
        ):
            if instructions:
                parts.append(instructions)
    parts += [
        f'Knowledge that "{item.trigger}" brought up ({item.name}). Use it where it helps.\n{item.content}'
        for item in found.microagent_knowledge
    ]
    if found.environment and found.recall_type is not RecallType.WORKSPACE_CONTEXT:
        parts.append(environment_text(found.environment, ENVIRONMENT_CHANGED))
    return "\n".join(parts)


def last_observation_text(history: Sequence[Envelope]) -> str:
    """Return the text of the newest observation that the model sees, or ""."""
    for envelope in reversed(history):
        event = envelope.event
        if isinstance(event, Observation) and not isinstance(event, _UNSEEN) and not getattr(event, "hidden", False):
            return observation_text(event)
    return ""


UNSEEN: frozenset[type[Event]] = frozenset(
    {
        AgentStateChangedObservation,
        ChangeAgentStateAction,
        CheckpointObservation,
        CondensationAction,
        CondensationRequestAction,
        LoopDetectionObservation,
        LoopRecoveryAction,
        ModeAction,
        NullAction,
        NullObservation,
        PermissionAction,
        RecallAction,
        ReviewAction,
        SecretMaskedObservation,
        UndoAction,
        UnknownAction,
        UnknownObservation,
    }
)
"""Events between the controller, the memory and the user that the model never sees."""
_NO_ANSWERS = (ConsentAction, PlanAction, SystemMessageAction)
_NEVER_SHOWN = UNSEEN | {UndoObservation}


def is_seen(event: Event) -> bool:
    """Return whether the model sees an event."""
    if type(event) in _NEVER_SHOWN or getattr(event, "hidden", False):
        return False
    return not (isinstance(event, MessageAction) and event.queued)


def size_of(event: Event, limit: int | None = None) -> int:
    """Estimate the tokens of an event as the model sees it in a prompt with this limit; 0 if it does not see it."""
    if not is_seen(event):
        return 0
    if isinstance(event, Observation):
        pictures = len(seen_pictures(event)) * PICTURE_TOKENS
        return MESSAGE_TOKENS + pictures + tokens_of(clipped(observation_text(event), result_tokens(event, limit)))
    if event.tool_call_metadata is not None:
        return MESSAGE_TOKENS + _answer_size(event.tool_call_metadata.model_response)
    if isinstance(event, SystemMessageAction):
        return MESSAGE_TOKENS + tokens_of(event.content)
    text = event.message
    pictures = 0
    if isinstance(event, MessageAction):
        text, pictures = f"{event.content}{event.context}", len(event.image_urls or ())
    elif isinstance(event, PlanAction):
        text = str(event.task_list)
    return MESSAGE_TOKENS + pictures * PICTURE_TOKENS + tokens_of(clipped(text, part_tokens(limit)))


def result_tokens(event: Observation, limit: int | None) -> int | None:
    """Return the token limit of a result: its part of what all results of its response may take."""
    metadata = event.tool_call_metadata
    return part_tokens(limit, metadata.total_calls_in_response if metadata is not None else 1)


def is_answer(envelope: Envelope, seen: set[str]) -> bool:
    """Return whether an event begins an assistant message. Adds the response's id to `seen`, the ids so far."""
    event = envelope.event
    metadata = event.tool_call_metadata
    if metadata is not None:
        answer = metadata.model_response.get("id")
        if not isinstance(answer, str) or answer in seen or not _calls_of(metadata.model_response):
            return False
        if type(event) in UNSEEN and type(event) is not CondensationRequestAction:
            return False
        seen.add(answer)
        return True
    if not isinstance(event, Action) or not is_seen(event) or isinstance(event, _NO_ANSWERS):
        return False
    if isinstance(event, MessageAction):
        return envelope.source is EventSource.AGENT and bool(event.content or event.context or event.image_urls)
    said = event.thought_text if isinstance(event, AgentFinishAction) else event.message
    return envelope.source is not EventSource.USER and bool(said)


def _calls_of(model_response: dict[str, Any]) -> bool:
    match model_response:
        case {"choices": [{"message": {"tool_calls": [_, *_]}}, *_]}:
            return True
        case _:
            return False


def _answer_size(model_response: dict[str, Any]) -> int:
    """Estimate the tokens of a stored response; 0 for an event that does not have it."""
    match model_response:
        case {"choices": [{"message": dict() as message}, *_]}:
            return json_size(message.get("content") or "") + json_size(message.get("tool_calls") or "")
        case _:
            return 0


def json_size(value: object) -> int:
    """Estimate the tokens of the texts in a JSON value."""
    total, pending = 0, [value]
    while pending:
        match pending.pop():
            case str() as text:
                total += tokens_of(text)
            case dict() as fields:
                pending += [*fields, *fields.values()]
            case list() | tuple() as items:
                pending += items
            case _:
                total += 1
    return total
