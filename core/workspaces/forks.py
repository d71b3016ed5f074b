"""Forks: a conversation that begins like another one up to an event, with the files of that moment.

The other one is only read, so it may be open and working in any process. Invariants: a fork of an import needs the
user's consent as well; only a folder that was made for a fork, below `workspaces` in the home, is ever removed, and
only with the last conversation in it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from core.errors import CheckpointError, UsageError
from core.events import CheckpointObservation, ConsentAction, EventSource, RecallObservation, RecallType
from core.protocols import Checkpoints
from core.repository import Repository, folder_of
from core.store.conversations import FORKED, IMPORT, ConversationInfo
from core.store.reader import EventFilter, EventReader
from core.store.writer import Draft

FOLDER = "workspaces"
"""The folder in Handloom's home with the workspaces of forks."""
MOVED = (
    "This conversation was forked. Its workspace is a copy in {folder}, with the files as they were at this point, but "
    "without what git ignores and without the history of git. "
    "Other paths above are those of the conversation that it comes from: do not use them."
)
NOT_IMPORTED = "The files of an import were not imported with it. Fork it in the same folder instead."
_KEPT = EventFilter(kinds=frozenset({"observation:checkpoint"}))
_CONSENT = EventFilter(kinds=frozenset({"action:consent"}))


def fork_title(title: str) -> str:
    """The title of a fork."""
    return f"{title.removesuffix(FORKED).strip() or 'Untitled'}{FORKED}"


async def unpack_copy(
    store: EventReader, checkpoints: Checkpoints | None, info: ConversationInfo, event_id: int, name: str
) -> Path:
    """Make a folder of this name with the files after an event, without ignored ones and the history of git.

    Raises UsageError if they were not kept, StoreError.
    """
    records = [e.event for e in await store.read(info.id, where=_KEPT)]
    kept = [r.checkpoint for r in records if isinstance(r, CheckpointObservation) and r.after <= event_id]
    if checkpoints is None or not kept:
        raise UsageError("The files were not kept at that event. Fork it in the same folder instead.")
    folder = store.home.absolute() / FOLDER / name
    await asyncio.to_thread(_make, folder)
    try:
        await checkpoints.unpack(kept[-1], str(folder))
    except BaseException as error:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if isinstance(error, CheckpointError):
            if info.origin == IMPORT:
                raise UsageError(NOT_IMPORTED) from error
            raise UsageError(f"The files cannot be restored. {error} Or fork it in the same folder.") from error
        raise
    return folder


def _make(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700)


def moved_observation(folder: str, repository: Repository | None) -> RecallObservation:
    """The message for the agent of a fork about its new folder, and about the chosen `repository` in it."""
    return RecallObservation(
        recall_type=RecallType.WORKSPACE_CONTEXT,
        working_dir=folder,
        repo_name=repository.name if repository else "",
        repo_directory=folder_of(repository, folder) if repository else "",
        conversation_instructions=MOVED.format(folder=folder),
    )


async def consent_drafts(store: EventReader, info: ConversationInfo, event_id: int) -> list[Draft]:
    """The consent event that a fork begins with, if the user still has to agree. Raises StoreError."""
    found = [e for e in await store.read(info.id, where=_CONSENT) if isinstance(e.event, ConsentAction)]
    before = [e.event for e in found if e.id <= event_id and isinstance(e.event, ConsentAction)]
    if (info.origin != IMPORT and not found) or (before and before[-1].given):
        return []
    named = next((e.event.origin for e in found if isinstance(e.event, ConsentAction)), info.origin_of)
    return [Draft(ConsentAction(origin=named or "elsewhere", given=False), EventSource.ENVIRONMENT)]


def fork_copy(home: Path, workspace: str) -> Path | None:
    """The folder of a conversation if it was made for a fork; None for a folder of the user."""
    folder = Path(workspace)
    is_ours = folder.parent == home.absolute() / FOLDER and folder.name not in ("", ".", "..")
    return folder if is_ours and not folder.is_symlink() and os.path.isdir(folder) else None
