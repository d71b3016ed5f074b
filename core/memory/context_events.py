"""Which events the model sees, and what each of them takes of its context. Pure."""

from __future__ import annotations

from typing import Any

from core.events import (
    Action,
    AgentFinishAction,
    AgentStateChangedObservation,
    ChangeAgentStateAction,
    CheckpointObservation,
    CondensationAction,
    CondensationRequestAction,
    ConsentAction,
    Envelope,
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
    ReviewAction,
    SecretMaskedObservation,
    SystemMessageAction,
    UndoAction,
    UndoObservation,
    UnknownAction,
    UnknownObservation,
)
from core.memory.event_text import observation_text, seen_pictures
from core.memory.token_estimate import MESSAGE_TOKENS, PICTURE_TOKENS, clipped, part_tokens, tokens_of

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
"""What is said between the controller, the memory and the user, and never to the model."""
_NO_ANSWERS = (ConsentAction, PlanAction, SystemMessageAction)
_NEVER_SHOWN = UNSEEN | {UndoObservation}


def is_seen(event: Event) -> bool:
    """Whether an event counts among those that the model sees."""
    if type(event) in _NEVER_SHOWN or getattr(event, "hidden", False):
        return False
    return not (isinstance(event, MessageAction) and event.queued)


def size_of(event: Event, room: int | None = None) -> int:
    """Tokens of what the model is shown of an event in a room of so many; 0 for one that it does not see."""
    if not is_seen(event):
        return 0
    if isinstance(event, Observation):
        pictures = len(seen_pictures(event)) * PICTURE_TOKENS
        return MESSAGE_TOKENS + pictures + tokens_of(clipped(observation_text(event), result_tokens(event, room)))
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
    return MESSAGE_TOKENS + pictures * PICTURE_TOKENS + tokens_of(clipped(text, part_tokens(room)))


def result_tokens(event: Observation, room: int | None) -> int | None:
    """What a result may take at most in a room of so many tokens: its part of what its answer's results may."""
    metadata = event.tool_call_metadata
    return part_tokens(room, metadata.total_calls_in_response if metadata is not None else 1)


def is_answer(envelope: Envelope, told: set[str]) -> bool:
    """Whether an event begins a message of the assistant. `told` has the ids of the answers so far, and is added to."""
    event = envelope.event
    metadata = event.tool_call_metadata
    if metadata is not None:
        answer = metadata.model_response.get("id")
        if not isinstance(answer, str) or answer in told or not _calls_of(metadata.model_response):
            return False
        if type(event) in UNSEEN and type(event) is not CondensationRequestAction:
            return False
        told.add(answer)
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
    """Tokens of a stored answer; 0 for an event that does not carry it."""
    match model_response:
        case {"choices": [{"message": dict() as message}, *_]}:
            return json_size(message.get("content") or "") + json_size(message.get("tool_calls") or "")
        case _:
            return 0


def json_size(value: object) -> int:
    """Tokens of the texts in a JSON value."""
    total, waiting = 0, [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                total += tokens_of(text)
            case dict() as fields:
                waiting += [*fields, *fields.values()]
            case list() | tuple() as items:
                waiting += items
            case _:
                total += 1
    return total
