"""`handloom replay`: a conversation of the home, or a file, which is imported into a temporary home."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from core.errors import UsageError


def resolve_source(what: str, home: Path, stack: ExitStack) -> tuple[Path, str]:
    """The home and the id of the conversation to replay; temporary files are removed with `stack`.

    An id may be given by its beginning. Raises HandloomError for an unknown conversation or an unreadable file.
    """
    path = Path(what).expanduser()
    if not path.exists():
        if "/" in what or path.suffix:
            raise UsageError(f"There is no file {what!a}. Pass a file or a conversation ID (see `handloom list`).")
        return home, asyncio.run(_resolve_id(home, what))
    scratch = Path(stack.enter_context(TemporaryDirectory(prefix="handloom-replay-")))
    return scratch, asyncio.run(_import(path, scratch))


async def _resolve_id(home: Path, text: str) -> str:
    from core.store.reader import EventReader

    async with EventReader(home) as reader:
        return await reader.listing.resolve(text)


async def _import(path: Path, home: Path) -> str:
    """Import a file into a home. Returns its conversation id."""
    from core.import_export.importer import import_file
    from core.store.event_store import EventStore

    async with EventStore(home) as store:
        conversation_id, _read = await import_file(store, path)
    return conversation_id
