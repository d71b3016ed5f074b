"""Which events the model sees, and how many tokens each of them takes. Pure."""

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
