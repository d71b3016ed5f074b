"""Conversations for tests, and the models built from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from core.events import (
    Action,
    CmdOutputMetadata,
    CmdOutputObservation,
    Envelope,
    Event,
    EventSource,
    MessageAction,
)
from tui.chat.model import ChatModel

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def envelope(
    event_id: int, event: Event, source: EventSource = EventSource.AGENT, cause: int | None = None
) -> Envelope:
    """An event at its place in a conversation."""
    return Envelope(conversation_id="c", id=event_id, timestamp=WHEN, source=source, cause=cause, event=event)


USER, AGENT, ENVIRONMENT = EventSource.USER, EventSource.AGENT, EventSource.ENVIRONMENT


def conversation(*events: Event | tuple[Event, int]) -> list[Envelope]:
    """Events as a log has them; an observation may name its cause, a MessageAction is the user's."""
    log = []
    for event_id, item in enumerate(events):
        event, cause = item if isinstance(item, tuple) else (item, None)
        if isinstance(event, MessageAction):
            source = USER
        else:
            source = AGENT if isinstance(event, Action) or cause is not None else ENVIRONMENT
        log.append(envelope(event_id, event, source, cause))
    return log


def folded(log: Sequence[Envelope]) -> ChatModel:
    """A model that took in these events."""
    model = ChatModel()
    for item in log:
        model.apply(item)
    return model


def summaries(model: ChatModel) -> list[tuple[Any, ...]]:
    """Kind, title, text, mark and meta of each block."""
    return [(block.kind, block.title, block.text, block.mark, block.meta) for block in model.blocks]


def ran(command: str, content: str = "", exit_code: int = 0) -> CmdOutputObservation:
    """The output and exit code of a command."""
    return CmdOutputObservation(command=command, content=content, metadata=CmdOutputMetadata(exit_code=exit_code))
