"""Export: the formats, the pages of a conversation that their writers get, and the file that they write.

A format is one row of `FORMATS` and one writer class, imported only when somebody asks for the format. Only one page of
a conversation is in memory at a time. Reading happens on the event loop; decoding, redacting and writing happen in a
thread, one page after the other. A file appears complete or not at all: it is written under a temporary name (mode
0600) in the same folder, synced, and renamed.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ParamSpec, Protocol, TypeVar, cast

from core.errors import UsageError
from core.events import Envelope, envelope_from_dict
from core.import_export.document_text import one_line
from core.store.blobs import Blob, BlobRef, picture_urls
from core.store.conversations import ConversationInfo
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame

if TYPE_CHECKING:
    from core.import_export.secret_scan import Cleaner

PAGE = 100
"""Events read at a time: a few megabytes with their pictures, and often enough that cancelling takes effect at once."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Format:
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
    Format("trajectory", ".json", "the flat list of OpenHands V0", f"{_PACKAGE}.v0_format:TrajectoryWriter",
           has_pictures=True, leaves_out=_PAGES),
    Format("archive", ".handloom.zip", "everything in one file, to import elsewhere",
           f"{_PACKAGE}.archive:ArchiveWriter", is_text=False, has_pictures=True, has_recordings=True),
    Format("html", ".html", "a page that replays in a browser", f"{_PACKAGE}.html:HtmlWriter",
           has_pictures=True, leaves_out=_MARKED, has_recordings=True),
    Format("markdown", ".md", "a document for people", f"{_PACKAGE}.markdown:MarkdownWriter",
           has_pictures=True, leaves_out=_MARKED),
    Format("openhands-events", ".zip", "the event files of OpenHands, zipped", f"{_PACKAGE}.v0_format:EventFilesWriter",
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
    last, start, beyond = events[-1].id, 0, None
    while True:
        recorded = await reader.recorded(conversation_id, after=first, before=last + 1, beyond=beyond)
        beyond = recorded.end
        upto = last if beyond is None else beyond[0]
        end = max(start, upto - events[0].id + 1)  # ids have no gaps
        yield events[start:end], recorded.frames
        if beyond is None:
            return
        start = end


def _decoded(bodies: Sequence[str], conversation_id: str) -> list[Envelope]:
    return [envelope_from_dict(json.loads(body), conversation_id) for body in bodies]


async def _blobs(reader: EventReader, conversation_id: str, events: Sequence[Envelope]) -> dict[str, Blob]:
    refs = {ref.digest: ref for event in events for url in picture_urls(event.event) if (ref := BlobRef.parse(url))}
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


async def export(
    reader: EventReader,
    conversation_id: str,
    format: str,
    destination: Path | BinaryIO,
    *,
    cleaner: Cleaner | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> None:
    """Write a conversation in the format of that name. `cleaner` redacts secrets.

    `note` gets sentences about what the format cannot hold. Cancelling leaves no file.

    Raises UsageError for an unknown conversation or format and for a file that cannot be written, StoreError, and
    OSError for a stream that fails.
    """
    wanted = FORMATS.get(format)
    if wanted is None:
        raise UsageError(f"There is no format {format}. Choose one of: {', '.join(FORMATS)}.")
    info = await reader.conversation(conversation_id)
    if cleaner is not None:
        title, workspace = cleaner.text(info.title), cleaner.text(info.workspace)
        info = replace(info, title=title, workspace=workspace, first_line="")  # it may be cut within a secret
    module, _, name = wanted.writer.partition(":")
    make = cast("type[FormatWriter]", getattr(await in_thread(import_module, module), name))
    async with _open_output(destination) as out:
        scratch = ExitStack()
        try:
            writer = await in_thread(make, out, ExportContext(info, note, scratch))
            async for page in pages(reader, conversation_id, wanted):
                await in_thread(_take, writer, page, cleaner)
            await in_thread(_end, writer, cleaner)
            await in_thread(out.flush)
        finally:
            await in_thread(scratch.close)


def _take(writer: FormatWriter, page: Page, cleaner: Cleaner | None) -> None:
    writer.take(page if cleaner is None else cleaner.page(page))


def _end(writer: FormatWriter, cleaner: Cleaner | None) -> None:
    if cleaner is not None and (rest := cleaner.rest()):
        writer.take(Page(frames=rest))
    writer.end()


@asynccontextmanager
async def _open_output(destination: Path | BinaryIO) -> AsyncIterator[BinaryIO]:
    """The stream itself, or a temporary file that gets the destination's name at the end. Raises UsageError."""
    if not isinstance(destination, Path):
        yield destination
        return
    try:
        out, temporary = await in_thread(_create_temporary, destination)
        try:
            yield out
            await in_thread(_rename, out, temporary, destination)
        except BaseException:
            await in_thread(_discard, out, temporary)
            raise
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"{destination} cannot be written: {why}. Name another file.") from error


def _create_temporary(destination: Path) -> tuple[BinaryIO, str]:
    """Create a temporary file beside the destination, readable only by its owner."""
    if destination.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    handle, temporary = tempfile.mkstemp(prefix=f".{destination.name[:100]}.", suffix=".part", dir=destination.parent)
    return open(handle, "wb", buffering=1 << 18), temporary


def _rename(out: BinaryIO, temporary: str, destination: Path) -> None:
    os.fsync(out.fileno())
    out.close()
    os.replace(temporary, destination)
    folder = os.open(destination.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # otherwise a power cut may undo the rename
    finally:
        os.close(folder)


def _discard(out: BinaryIO, temporary: str) -> None:
    with suppress(OSError):  # the file is removed anyway
        out.close()
    with suppress(OSError):
        os.unlink(temporary)
