"""Envelopes for tests, made in one line."""

from __future__ import annotations

from datetime import UTC, datetime

from core.events import Envelope, Event, EventSource

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def envelope(
    event_id: int, event: Event, source: EventSource = EventSource.AGENT, cause: int | None = None
) -> Envelope:
    """An event at its place in a conversation."""
    return Envelope(conversation_id="c", id=event_id, timestamp=WHEN, source=source, cause=cause, event=event)
