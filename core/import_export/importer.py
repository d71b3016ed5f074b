"""Import: an untrusted file or folder becomes a conversation of this home, completely or not at all.

The format is recognised by content, never by name. The file is read in a thread and stored in one transaction: if it is
refused or the import is cancelled, the database stays byte for byte as it was. An imported conversation has the origin
`import`, and continues only after the user agreed: its text was written by others, its folder is on another machine.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from core.errors import ImportRefusedError
from core.import_export import archive, v0_format
from core.import_export.bounded_json import Fault
from core.import_export.imported_conversation import EnvelopeBuilder, Imported, storable_text
from core.import_export.untrusted_files import Archive, Folder, Tree, opened, read_file
from core.secrets import Redactor
from core.store.conversations import IMPORT, NewConversation
from core.store.event_store import EventStore

_ZIP = b"PK"
_PACKED = {
    b"\x1f\x8b": "packed with gzip",
    b"BZh": "packed with bzip2",
    b"\xfd7zXZ": "packed with xz",
    b"7z\xbc\xaf": "a 7z archive",
}
_TAR_MARK, _TAR_AT = b"ustar", 257
_HEAD_BYTES = 512
_HINT = "get a complete, unchanged copy of it"


def read(
    path: Path,
    *,
    conversation_id: str = "",
    redactor: Redactor | None = None,
    now: datetime | None = None,
    check: Callable[[], None] = lambda: None,
) -> Imported:
    """The conversation in a file or folder: a trajectory, a folder of event files, the folder zipped, or an archive.

    `check` is called for each event and raises to cancel. Blocks. Raises ImportRefusedError.
    """
    builder = EnvelopeBuilder(conversation_id, now or datetime.now(UTC), redactor or Redactor(), check)
    try:
        with opened(path) as source:
            return _from_tree(source, builder) if isinstance(source, Folder) else _from_file(source, builder)
    except OSError as error:
        why = f"it cannot be read ({error.strerror}); check the disk that it is on"
        raise ImportRefusedError(f"{path.name} was not imported: {why}, and try again.") from error
    except Fault as fault:
        where = f" ({fault.where})" if fault.where else ""
        name = path.name or str(path)
        raise ImportRefusedError(
            f"{name} was not imported{where}: {fault.why}; {fault.hint or _HINT}, and try again."
        ) from fault


def _from_file(file: BinaryIO, builder: EnvelopeBuilder) -> Imported:
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if head.startswith(_ZIP):
        return _from_tree(Archive(file), builder)
    for mark, what in _PACKED.items():
        if head.startswith(mark):
            raise Fault(f"it is {what}, which cannot be imported", hint="unpack it")
    if head[_TAR_AT : _TAR_AT + len(_TAR_MARK)] == _TAR_MARK:
        raise Fault("it is a tar archive, which cannot be imported", hint="unpack it")
    return v0_format.from_trajectory(read_file(file), builder)


def _from_tree(tree: Tree, builder: EnvelopeBuilder) -> Imported:
    if archive.is_archive(tree):
        return archive.from_archive(tree, builder)
    files = v0_format.event_files(tree)
    if files is None:
        raise Fault(
            "it contains no events of a conversation",
            hint="give a folder that contains `events/0.json` or `events/event-00000-....json`, or a trajectory",
        )
    return v0_format.from_folder(tree, files, builder)


class _Stopped(Exception):
    """The import was cancelled: ends the thread that reads."""


async def import_file(store: EventStore, path: Path, *, redactor: Redactor | None = None) -> tuple[str, Imported]:
    """Store the conversation in a file or folder. Returns its new id, and what was read with the warnings.

    Raises ImportRefusedError and StoreError; then nothing was stored. Cancelling during the reading stores nothing.
    """
    id = uuid.uuid4().hex
    imported = await _read(path, id, redactor)
    new = NewConversation(
        id=id,
        title=imported.title,
        workspace=imported.workspace,
        model=imported.model,
        origin=IMPORT,
        origin_of=storable_text(path.name),
        created_at=imported.created_at,
    )
    await store.adopt(new, imported.envelopes, blobs=imported.blobs, recorded=imported.recorded)
    return id, imported


async def _read(path: Path, id: str, redactor: Redactor | None) -> Imported:
    is_stopped = threading.Event()

    def check() -> None:
        if is_stopped.is_set():
            raise _Stopped

    try:
        return await asyncio.to_thread(read, path, conversation_id=id, redactor=redactor, check=check)
    finally:
        is_stopped.set()
