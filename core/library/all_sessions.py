"""AllSessions: the conversations of a home and the copies of its library, read as one list and one search.

Merging reads as many rows of each as come before the end of a page: a list of some thousand sessions costs
milliseconds. Reads only; `home_of` tells where a conversation is, for those who open it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any

from core.errors import UsageError
from core.store.conversations import ConversationFilter, ConversationInfo, ConversationListing
from core.store.reader import EventReader
from core.store.search_index import Hit


class AllSessions:
    """Several stores as one source for lists. The first one is our own."""

    def __init__(self, readers: Sequence[EventReader], origins: Sequence[Collection[str] | None] = ()) -> None:
        """`origins` limits a reader to conversations of these origins; None, the default, has all."""
        self._readers = tuple(readers)
        self._origins = tuple(origins) or (None,) * len(self._readers)
        self.listing = MergedListing(self._readers, self._origins)

    async def reader_of(self, conversation_id: str) -> EventReader:
        """The store that has a conversation. Raises UsageError for an unknown one."""
        for reader in self._readers:
            if await reader.conversations(conversation_id=conversation_id):
                return reader
        raise UsageError(f"There is no conversation {conversation_id}. `handloom list` shows all conversations.")

    async def home_of(self, conversation_id: str) -> Path:
        """The home that has a conversation. Raises UsageError for an unknown one."""
        return (await self.reader_of(conversation_id)).home

    def has_origin(self, origin: str) -> bool:
        """Whether conversations of this origin are in the list."""
        return any(origins is None or origin in origins for origins in self._origins)

    async def events_by_kind(self) -> dict[str, int]:
        """The number of events of each kind in the last store, which has the copies, the most frequent first."""
        return await self._readers[-1].events_by_kind()

    async def conversation(self, conversation_id: str) -> ConversationInfo:
        return await (await self.reader_of(conversation_id)).conversation(conversation_id)

    async def conversations(self, *, conversation_id: str) -> list[ConversationInfo]:
        return [info for each in self._readers for info in await each.conversations(conversation_id=conversation_id)]

    async def descendants(self, conversation_id: str) -> list[ConversationInfo]:
        return [info for each in self._readers for info in await each.descendants(conversation_id)]

    async def count_unindexed(self) -> int:
        return sum([await each.count_unindexed() for each in self._readers])

    async def search(self, text: str, *, limit: int = 50, before: Hit | None = None) -> list[Hit]:
        """As `EventReader.search` in each store, one after the other, so that a conversation's hits stay together."""
        found: list[Hit] = []
        last = None if before is None else await self.reader_of(before.conversation_id)
        for reader, origins in zip(self._readers, self._origins, strict=True):
            if last is not None and reader is not last:
                continue
            found += await _search(reader, origins, text, limit - len(found), before if last is not None else None)
            last = None
            if len(found) >= limit:
                break
        return found


async def _search(
    reader: EventReader, origins: Collection[str] | None, text: str, limit: int, before: Hit | None
) -> list[Hit]:
    """The hits in conversations of these origins."""
    found: list[Hit] = []
    known: dict[str, bool] = {}
    while page := await reader.search(text, limit=limit, before=before):
        for hit in page:
            if hit.conversation_id not in known:
                info = await reader.conversation(hit.conversation_id)
                known[hit.conversation_id] = origins is None or info.origin in origins
            if known[hit.conversation_id]:
                found.append(hit)
        if len(page) < limit or len(found) >= limit:
            break
        before = page[-1]
    return found[:limit]


class MergedListing:
    """The listings of several stores as one."""

    def __init__(self, readers: Sequence[EventReader], origins: Sequence[Collection[str] | None]) -> None:
        self._listings = [reader.listing for reader in readers]
        self._origins = [None if each is None else frozenset(each) for each in origins]

    async def page(
        self, where: ConversationFilter, *, order: str = "updated", offset: int = 0, limit: int = 100
    ) -> list[ConversationInfo]:
        """As `ConversationListing.page`, in the same order."""
        end = offset + limit
        pages = [page for each, inner in self._each(where) if (page := await each.page(inner, order=order, limit=end))]
        if len(pages) == 1:
            return pages[0][offset:end]
        key, is_reversed = _KEYS[order]
        return list(islice(merge(*pages, key=key, reverse=is_reversed), offset, end))

    async def count(self, where: ConversationFilter) -> int:
        return sum([await each.count(inner) for each, inner in self._each(where)])

    async def delegate_counts(self, ids: Sequence[str]) -> dict[str, int]:
        return {id: count for each in self._listings for id, count in (await each.delegate_counts(ids)).items()}

    async def models(self) -> list[str]:
        return sorted({model for each in self._listings for model in await each.models()})

    async def origins(self) -> list[str]:
        return sorted({origin for each in self._listings for origin in await each.origins()})

    async def resolve(self, text: str) -> str:
        """As `ConversationListing.resolve`: the beginning of an id must be unique in one of the stores."""
        for each in self._listings[:-1]:
            with suppress(UsageError):
                return await each.resolve(text)
        return await self._listings[-1].resolve(text)

    def _each(self, where: ConversationFilter) -> Iterator[tuple[ConversationListing, ConversationFilter]]:
        for listing, origins in zip(self._listings, self._origins, strict=True):
            yield listing, where if origins is None else replace(where, origins=origins)


_Key = Callable[[ConversationInfo], Any]
_KEYS: Mapping[str, tuple[_Key, bool]] = {
    "updated": (lambda info: (info.updated_at, info.id), True),
    "created": (lambda info: (info.created_at, info.updated_at, info.id), True),
    "title": (lambda info: (info.title or info.first_line).lower(), False),
    "cost": (lambda info: (info.cost is not None, info.cost or 0.0, info.updated_at, info.id), True),
    "size": (lambda info: (info.size, info.updated_at, info.id), True),
}
"""The key of each of the store's ORDERS, and whether the highest comes first."""
