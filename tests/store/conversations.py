"""Conversations for the tests of the store."""

from __future__ import annotations

from typing import Any

from core.events import EventSource, MessageAction
from core.store.event_store import EventStore
from core.store.writer import Draft, Lease


def said(text: str, **more: Any) -> Draft:
    """A message of the user."""
    return Draft(MessageAction(content=text), EventSource.USER, **more)


async def conversation(store: EventStore, id: str = "c", *texts: str, **more: Any) -> Lease:
    """A conversation of these messages."""
    lease = await store.create_conversation(id, title="t", workspace="/w", model="m", **more)
    if texts:
        await store.append(lease, [said(text) for text in texts])
    return lease
