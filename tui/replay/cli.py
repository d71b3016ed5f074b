"""What `handloom replay` names: a conversation of the home, or a file, which is brought into a home of its own.

A file never touches the user's home: it is imported into a folder that is deleted when the replay has ended.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from core.errors import UsageError


def find(what: str, home: Path, stack: ExitStack) -> tuple[Path, str]:
    """The home and the id of the conversation that is meant; what is temporary ends with `stack`.

    An id may be given by its beginning. Raises HandloomError where there is no such conversation, or where the file is
    none that can be read.
    """
    path = Path(what).expanduser()
    if not path.exists():
        if "/" in what or path.suffix:
            raise UsageError(f"There is no file {what!a}. Pass a file or a conversation ID (see `handloom list`).")
        return home, asyncio.run(_resolved(home, what))
    scratch = Path(stack.enter_context(TemporaryDirectory(prefix="handloom-replay-")))
    return scratch, asyncio.run(_bring(path, scratch))


async def _resolved(home: Path, text: str) -> str:
    from core.store.reader import EventReader

    async with EventReader(home) as reader:
        return await reader.listing.resolve(text)


async def _bring(path: Path, home: Path) -> str:
    """Import a file into a home; the id of the first conversation in it."""
    from core.import_export.importer import import_file
    from core.store.event_store import EventStore

    async with EventStore(home) as store:
        conversation_id, _read = await import_file(store, path)
    return conversation_id
