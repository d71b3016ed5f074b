"""A conversation page by page, as the writers of formats take it: events, their pictures, what the terminal printed.

Only one page is in memory at a time, however long the conversation is and however much was printed in it. Reading
happens on the event loop; taking JSON apart, cleaning and writing happen in a thread, one page after the other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import BinaryIO, ParamSpec, Protocol, TypeVar

from core.errors import UsageError
from core.events import Envelope, envelope_from_dict
from core.import_export.document_text import one_line
from core.import_export.formats import Format
from core.store.blobs import Blob, BlobRef, pictures_of
from core.store.conversations import ConversationInfo
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame

PAGE = 100
"""Events read at a time: a few megabytes with their pictures, and often enough that cancelling is felt at once."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """Events in the order of their ids, and what belongs to them."""

    events: Sequence[Envelope] = ()
    blobs: Mapping[str, Blob] = field(default_factory=dict)
    """The pictures of these events by digest, where the format has pictures."""
    frames: Sequence[RecordedFrame] = ()
    """What the terminal printed after one of these events and before the next, where the format has recordings.

    Where that is much, the rest of it comes with pages of their own, which begin without an event."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a writer knows of a conversation before its first event."""

    info: ConversationInfo
    note: Callable[[str], None]
    """Takes a sentence for the user about what could not be written as it was."""
    scratch: ExitStack
    """What a writer opens for itself is closed by this, however the export ends, and while its output is open."""

    @property
    def title(self) -> str:
        """One line for people, not escaped: the title, or what the user said first where there is none."""
        return one_line(self.info.title) or one_line(self.info.first_line) or "A conversation"

    @property
    def cost_before(self) -> float | None:
        """What models have cost before the first event; None where nobody wrote down what they took."""
        return None if self.info.cost is None else 0.0


class Writer(Protocol):
    """One format. Made, it writes what comes first. Everything is called in a thread, never two calls at a time."""

    def __init__(self, out: BinaryIO, told: Told) -> None: ...

    def take(self, page: Page) -> None:
        """Write the next events."""

    def end(self) -> None:
        """Write what comes last; the file itself stays open."""


async def found(reader: EventReader, conversation_id: str) -> ConversationInfo:
    """What the home knows of a conversation. Raises UsageError where it has none of that id."""
    for info in await reader.conversations(conversation_id=conversation_id):
        return info
    raise UsageError(f"There is no conversation {conversation_id}. `handloom list` shows those that there are.")


async def pages(reader: EventReader, conversation_id: str, wanted: Format) -> AsyncIterator[Page]:
    """The whole conversation, with what the format needs. Raises StoreError."""
    after = -1
    while bodies := await reader.read_json(conversation_id, after=after, limit=PAGE):
        events = await in_thread(_taken_apart, bodies, conversation_id)
        if wanted.has_recordings:
            async for piece, frames in _with_frames(reader, conversation_id, after, events):
                blobs = await _blobs(reader, conversation_id, piece) if wanted.has_pictures else {}
                yield Page(piece, blobs, frames)
        else:
            yield Page(events, await _blobs(reader, conversation_id, events) if wanted.has_pictures else {})
        after = events[-1].id


async def _with_frames(
    reader: EventReader, conversation_id: str, after: int, events: Sequence[Envelope]
) -> AsyncIterator[tuple[Sequence[Envelope], Sequence[RecordedFrame]]]:
    """These events, which follow `after`, in pieces, each with so much of what was printed as is read at once."""
    first = after + 1 if after >= 0 else -1  # what a shell says before the first event stands after event -1
    last, begun, beyond = events[-1].id, 0, None
    while True:
        printed = await reader.recorded(conversation_id, after=first, before=last + 1, beyond=beyond)
        beyond = printed.end
        upto = last if beyond is None else beyond[0]
        end = max(begun, upto - events[0].id + 1)  # ids have no gaps
        yield events[begun:end], printed.frames
        if beyond is None:
            return
        begun = end


def _taken_apart(bodies: Sequence[str], conversation_id: str) -> list[Envelope]:
    return [envelope_from_dict(json.loads(body), conversation_id) for body in bodies]


async def _blobs(reader: EventReader, conversation_id: str, events: Sequence[Envelope]) -> dict[str, Blob]:
    refs = {ref.digest: ref for event in events for url in pictures_of(event.event) if (ref := BlobRef.parse(url))}
    found = [await reader.blob(conversation_id, ref) for ref in refs.values()]
    return {blob.ref.digest: blob for blob in found if blob is not None}


async def in_thread(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """The answer of a blocking call. Cancelling waits for its end first: it may still use a file."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
