"""Import: a file or folder of a stranger becomes a conversation of this home, whole or not at all.

The file is read in a thread and stored in one transaction: where it is refused, or the import is cancelled before, the
database is as it was, byte for byte. What was imported is marked so (`origin` is `import`); whoever continues it asks
the user first, because its text was written by others and its folder is of another machine.

Reading: a file or a folder of a stranger becomes one `Imported`, or is refused with one sentence.

What it is is told by its content and never by its name. Nothing is stored and nothing is carried out here. Blocks: call
it in a thread.
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
from core.import_export import archive_import, v0_import
from core.import_export.bounded_json import Fault
from core.import_export.event_order import Numbering
from core.import_export.imported_conversation import Imported
from core.import_export.untrusted_files import Archive, Folder, Tree, opened, read_file
from core.import_export.v0_import import clean
from core.secrets import Masker
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
_HINT = "get a whole and unchanged copy of it"


def _never() -> None:
    """Nobody wants it to end."""


def read(
    path: Path,
    *,
    conversation_id: str = "",
    masker: Masker | None = None,
    now: datetime | None = None,
    check: Callable[[], None] = _never,
) -> Imported:
    """The conversation in a file or folder: a trajectory, a folder of event files, either of them zipped, our archive.

    `check` is called again and again, and raises where the user wants it to end. Raises ImportRefusedError.
    """
    numbering = Numbering(conversation_id, now or datetime.now(UTC), masker or Masker(), check)
    try:
        with opened(path) as source:
            return _from_tree(source, numbering) if isinstance(source, Folder) else _from_file(source, numbering)
    except OSError as error:
        why = f"it cannot be read ({error.strerror}); look after the disk that it is on"
        raise ImportRefusedError(f"{path.name} is not imported: {why}, and try again.") from error
    except Fault as fault:
        where = f" ({fault.where})" if fault.where else ""
        name = path.name or str(path)
        raise ImportRefusedError(
            f"{name} is not imported{where}: {fault.why}; {fault.hint or _HINT}, and try again."
        ) from fault


def _from_file(file: BinaryIO, numbering: Numbering) -> Imported:
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if head.startswith(_ZIP):
        return _from_tree(Archive(file), numbering)
    for mark, what in _PACKED.items():
        if head.startswith(mark):
            raise Fault(f"it is {what}, which is not read here", hint="unpack it")
    if head[_TAR_AT : _TAR_AT + len(_TAR_MARK)] == _TAR_MARK:
        raise Fault("it is a tar archive, which is not read here", hint="unpack it")
    return v0_import.from_trajectory(read_file(file), numbering)


def _from_tree(tree: Tree, numbering: Numbering) -> Imported:
    if archive_import.is_archive(tree):
        return archive_import.from_archive(tree, numbering)
    files = v0_import.event_files(tree)
    if files is None:
        raise Fault(
            "it holds no events of a conversation",
            hint="name a folder with `events/0.json` or `events/event-00000-....json` in it, or a trajectory",
        )
    return v0_import.from_folder(tree, files, numbering)


class _Stopped(Exception):
    """The import was cancelled, and the thread that reads comes to its end."""


async def import_file(store: EventStore, path: Path, *, masker: Masker | None = None) -> tuple[str, Imported]:
    """Store the conversation in a file or folder; its new id, and what was read with the warnings.

    Raises ImportRefusedError and StoreError; then nothing is stored. Cancelling while it is read stores nothing.
    """
    id = uuid.uuid4().hex
    imported = await _read(path, id, masker)
    new = NewConversation(
        id=id,
        title=imported.title,
        workspace=imported.workspace,
        model=imported.model,
        origin=IMPORT,
        origin_of=clean(path.name),
        created_at=imported.created_at,
    )
    await store.adopt(new, imported.envelopes, blobs=imported.blobs, recorded=imported.recorded)
    return id, imported


async def _read(path: Path, id: str, masker: Masker | None) -> Imported:
    is_stopped = threading.Event()

    def check() -> None:
        if is_stopped.is_set():
            raise _Stopped

    try:
        return await asyncio.to_thread(read, path, conversation_id=id, masker=masker, check=check)
    finally:
        is_stopped.set()
