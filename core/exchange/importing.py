"""Import: a file or folder of a stranger becomes a conversation of this home, whole or not at all.

The file is read in a thread and stored in one transaction: where it is refused, or the import is cancelled before, the
database is as it was, byte for byte. What was imported is marked so (`origin` is `import`); whoever continues it asks
the user first, because its text was written by others and its folder is of another machine.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from pathlib import Path

from core.exchange.conversation_in import clean
from core.exchange.imported import Imported
from core.exchange.reading import read
from core.secrets import Masker
from core.store.event_store import EventStore
from core.store.listing import IMPORT, NewConversation


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
