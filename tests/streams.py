"""The log of one conversation without anything around it, on a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.events import Frame, Status
from core.store.conversations import ConversationInfo
from core.store.event_store import EventStore
from core.stream import EventStream, Frames


@asynccontextmanager
async def opened_stream(home: Path, kind: type[EventStream] = EventStream) -> AsyncIterator[EventStream]:
    """The stream of a new conversation."""
    async with EventStore(home) as store:
        stream = kind(store, await store.create_conversation("c", title="", workspace="/w", model="m"))
        try:
            yield stream
        finally:
            await stream.aclose()


async def info_of(store: EventStore) -> ConversationInfo:
    """The listed facts of the conversation."""
    (info,) = await store.conversations(conversation_id="c")
    return info


def heard(frames: Frames) -> list[tuple[str, str, str]]:
    """The level, id and text of every status from now on."""
    found: list[tuple[str, str, str]] = []

    def hear(frame: Frame) -> None:
        if isinstance(frame, Status):
            found.append((frame.level, frame.id, frame.message))

    frames.watch(hear)
    return found
