"""Export: write a conversation to a file or a stream, in one of the formats of `core.import_export.formats`.

A file appears complete or not at all: it is written under a temporary name (mode 0600) in the same folder, synced, and
renamed. The conversation is read page by page, so its length costs time but no memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, cast

from core.errors import UsageError
from core.import_export.formats import FORMATS, ExportContext, FormatWriter, Page, find_conversation, in_thread, pages
from core.import_export.secret_scan import Cleaner
from core.store.reader import EventReader


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
    info = await find_conversation(reader, conversation_id)
    if cleaner is not None:
        title, workspace = cleaner.text(info.title), cleaner.text(info.workspace)
        info = replace(info, title=title, workspace=workspace, first_line="")  # it may be cut within a secret
    module, _, name = wanted.writer.partition(":")
    make = cast("type[FormatWriter]", getattr(await in_thread(import_module, module), name))
    async with _opened(destination) as out:
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
async def _opened(destination: Path | BinaryIO) -> AsyncIterator[BinaryIO]:
    """The stream itself, or a temporary file that gets the destination's name at the end. Raises UsageError."""
    if not isinstance(destination, Path):
        yield destination
        return
    try:
        out, part = await in_thread(_begin, destination)
        try:
            yield out
            await in_thread(_put, out, part, destination)
        except BaseException:
            await in_thread(_abandon, out, part)
            raise
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"{destination} cannot be written: {why}. Name another file.") from error


def _begin(destination: Path) -> tuple[BinaryIO, str]:
    """Create a temporary file beside the destination, readable only by its owner."""
    if destination.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    handle, part = tempfile.mkstemp(prefix=f".{destination.name[:100]}.", suffix=".part", dir=destination.parent)
    return open(handle, "wb", buffering=1 << 18), part


def _put(out: BinaryIO, part: str, destination: Path) -> None:
    """Sync the file, then give it its name."""
    os.fsync(out.fileno())
    out.close()
    os.replace(part, destination)
    folder = os.open(destination.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # otherwise a power cut may undo the rename
    finally:
        os.close(folder)


def _abandon(out: BinaryIO, part: str) -> None:
    with suppress(OSError):  # the file is removed anyway
        out.close()
    with suppress(OSError):
        os.unlink(part)
