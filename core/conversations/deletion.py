"""Deletes a conversation: first what is stored outside of the database, the database last.

So a delete that was interrupted can be repeated, and leaves nothing that no conversation refers to. Leases exclude
other processes meanwhile. The conversation manager has closed what was open.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from typing import Protocol

from core.errors import StoreError, UsageError
from core.store.bookmarks import Bookmarks
from core.store.conversations import ConversationFilter, ConversationInfo
from core.store.event_store import EventStore
from core.workspaces.forks import fork_copy


class Forget(Protocol):
    """Removes what is kept of a conversation outside of the database: checkpoints, sandbox folders, its container."""

    async def __call__(self, info: ConversationInfo, *, later: bool) -> None:
        """Removing it twice is no error. With `later`, what cannot be reached is removed when it can be.

        Raises HandloomError if something remains, OutOfReachError if `later` would help; it can be called again.
        """


async def forget_nothing(info: ConversationInfo, *, later: bool) -> None:
    """For tests and callers that keep nothing outside."""


async def _forget_own(store: EventStore, info: ConversationInfo, deleted_ids: AbstractSet[str]) -> None:
    """Remove its bookmarks, and the copy of a workspace that was made for it, unless another one works there."""
    await asyncio.to_thread(Bookmarks(store.home).delete, info.id)
    others = await store.conversations(where=ConversationFilter(workspace=info.workspace))
    folder = await asyncio.to_thread(fork_copy, store.home, info.workspace)
    if folder is None or any(other.id not in deleted_ids for other in others):
        return
    try:
        await asyncio.to_thread(shutil.rmtree, folder)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be removed: {error.strerror or error}. Remove it, then try again."
        ) from error


async def with_delegates(store: EventStore, conversation_id: str) -> Sequence[ConversationInfo]:
    """What is deleted with a conversation: its delegates, each before its parent, and itself last.

    Raises UsageError for an unknown one.
    """
    found = await store.conversations(conversation_id=conversation_id)
    if not found:
        raise UsageError(f"There is no conversation {conversation_id}. `handloom list` shows all conversations.")
    return [*reversed(await store.descendants(conversation_id)), *found]


async def delete(store: EventStore, infos: Sequence[ConversationInfo], forget: Forget, *, later: bool) -> None:
    """Delete what `with_delegates` returned. Raises StoreBusyError if one is open, and as `forget`."""
    async with AsyncExitStack() as owned:
        for info in infos:
            owned.push_async_callback(store.release, await store.acquire(info.id))
        for info in infos:
            await forget(info, later=later)
            await _forget_own(store, info, {other.id for other in infos})
    await store.delete_conversation(infos[-1].id)
