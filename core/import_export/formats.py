"""The export formats, and the pages of a conversation that their writers get.

A format is one row of `FORMATS` and one writer class, imported only when somebody asks for the format. Only one page of
a conversation is in memory at a time. Reading happens on the event loop; decoding, redacting and writing happen in a
thread, one page after the other.
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
from core.store.blobs import Blob, BlobRef, pictures_of
from core.store.conversations import ConversationInfo
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame

PAGE = 100
"""Events read at a time: a few megabytes with their pictures, and often enough that cancelling takes effect at once."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Format:
    """An export format."""

    name: str
    suffix: str
    about: str
    """A short description for a list to choose from."""
    writer: str
    """`module:class` of its `FormatWriter`."""
    is_text: bool = True
    """Whether a terminal can show it."""
    has_pictures: bool = False
    leaves_out: frozenset[str] = frozenset()
    """Fields of events whose pictures it does not include."""
    has_recordings: bool = False
    """Whether the writer needs terminal recordings."""


_PAGES = frozenset({"screenshot", "set_of_marks"})
_MARKED = frozenset({"set_of_marks", "goal_image_urls"})
_PACKAGE = "core.import_export"
_ROWS = (
    Format("trajectory", ".json", "the flat list of OpenHands V0", f"{_PACKAGE}.v0_export:TrajectoryWriter",
           has_pictures=True, leaves_out=_PAGES),
    Format("archive", ".handloom.zip", "everything in one file, to import elsewhere",
           f"{_PACKAGE}.archive:ArchiveWriter", is_text=False, has_pictures=True, has_recordings=True),
    Format("html", ".html", "a page that replays in a browser", f"{_PACKAGE}.html:HtmlWriter",
           has_pictures=True, leaves_out=_MARKED, has_recordings=True),
    Format("markdown", ".md", "a document for people", f"{_PACKAGE}.markdown:MarkdownWriter",
           has_pictures=True, leaves_out=_MARKED),
    Format("openhands-events", ".zip", "the event files of OpenHands, zipped", f"{_PACKAGE}.v0_export:EventFilesWriter",
           is_text=False, has_pictures=True),
    Format("asciicast", ".cast", "the terminal, for asciinema", f"{_PACKAGE}.asciicast:AsciicastWriter",
           has_recordings=True),
)  # fmt: skip
FORMATS: Mapping[str, Format] = {row.name: row for row in _ROWS}
"""By name, in the order in which they are offered."""


@dataclass(frozen=True, slots=True)
class Page:
    """Events in the order of their ids, with their pictures and recordings."""

    events: Sequence[Envelope] = ()
    blobs: Mapping[str, Blob] = field(default_factory=dict)
    """The pictures of these events by digest, if the format has pictures."""
    frames: Sequence[RecordedFrame] = ()
    """Terminal output after one of these events and before the next, if the format has recordings.

    Long output continues on pages that have no events."""


@dataclass(frozen=True, slots=True)
class ExportContext:
    """What a writer knows of a conversation before its first event."""

    info: ConversationInfo
    note: Callable[[str], None]
    """Takes a sentence for the user about something that the format cannot hold."""
    scratch: ExitStack
    """Closes what the writer opens, however the export ends, while the output is still open."""

    @property
    def title(self) -> str:
        """One line, not escaped: the title, or the user's first message for a conversation without a title."""
        return one_line(self.info.title) or one_line(self.info.first_line) or "A conversation"

    @property
    def cost_before(self) -> float | None:
        """What models have cost before the first event; None for a conversation without recorded costs."""
        return None if self.info.cost is None else 0.0


class FormatWriter(Protocol):
    """Writes one format. The constructor writes the beginning. All calls come from threads, one at a time."""

    def __init__(self, out: BinaryIO, context: ExportContext) -> None: ...

    def take(self, page: Page) -> None:
        """Write the next events."""

    def end(self) -> None:
        """Write the end. The file stays open."""


async def find_conversation(reader: EventReader, conversation_id: str) -> ConversationInfo:
    """The stored facts about a conversation. Raises UsageError for an unknown id."""
    for info in await reader.conversations(conversation_id=conversation_id):
        return info
    raise UsageError(f"There is no conversation {conversation_id}. `handloom list` shows all conversations.")


async def pages(reader: EventReader, conversation_id: str, wanted: Format) -> AsyncIterator[Page]:
    """The whole conversation, with what the format needs. Raises StoreError."""
    after = -1
    while bodies := await reader.read_json(conversation_id, after=after, limit=PAGE):
        events = await in_thread(_decoded, bodies, conversation_id)
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
    """These events, which follow `after`, in pieces, each with as much terminal output as is read at once."""
    first = after + 1 if after >= 0 else -1  # what a shell prints before the first event is stored after event -1
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


def _decoded(bodies: Sequence[str], conversation_id: str) -> list[Envelope]:
    return [envelope_from_dict(json.loads(body), conversation_id) for body in bodies]


async def _blobs(reader: EventReader, conversation_id: str, events: Sequence[Envelope]) -> dict[str, Blob]:
    refs = {ref.digest: ref for event in events for url in pictures_of(event.event) if (ref := BlobRef.parse(url))}
    found = [await reader.blob(conversation_id, ref) for ref in refs.values()]
    return {blob.ref.digest: blob for blob in found if blob is not None}


async def in_thread(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """The result of a blocking call. Cancelling first waits until the call has ended: it may still use a file."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **named))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
