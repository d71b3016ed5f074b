"""What the search through all conversations found: hits below the conversation that they are in. No Textual.

More is read when the reader comes near the end. Invariant as in `tui.sessions.conversation_list`: nothing of an earlier
search.
"""

from __future__ import annotations

from typing import Protocol

from core.store.conversations import ConversationInfo
from core.store.search_index import Hit

PAGE = 50
"""Hits that are read at once."""
NEAR = 20
"""Rows before the end at which more is read."""


class Searched(Protocol):
    """The part of `core.store.reader.EventReader` that searches."""

    async def search(self, query: str, *, limit: int = 50, before: Hit | None = None) -> list[Hit]: ...
    async def conversations(
        self, *, limit: int = 1000, conversation_id: str | None = None
    ) -> list[ConversationInfo]: ...
    async def index_behind(self) -> int: ...


class HitList:
    """Rows of headings and hits, empty until `begin`. A heading is the ConversationInfo of what stands below it."""

    def __init__(self, source: Searched) -> None:
        self._source = source
        self._query = ""
        self._generation = 0
        self._last: Hit | None = None
        self.rows: list[ConversationInfo | Hit] = []
        self.hits = 0
        self.is_whole = True
        """Whether nothing more can be read."""
        self.behind = 0
        """Events that are not in the index yet."""

    def __len__(self) -> int:
        return len(self.rows)

    async def begin(self, query: str) -> None:
        """Search for this. Cancelling leaves what was found before. Raises UsageError, StoreError."""
        self._generation += 1
        generation = self._generation
        found = await self._source.search(query, limit=PAGE) if query.strip() else []
        behind = await self._source.index_behind() if query.strip() else 0
        if generation == self._generation:
            self._query, self.rows, self.hits, self._last, self.behind = query, [], 0, None, behind
            await self._add(found)

    def wants_more(self, last: int) -> bool:
        """Whether more has to be read for a reader whose last row in sight is this one."""
        return not self.is_whole and last + NEAR >= len(self.rows)

    async def more(self) -> None:
        """Read what comes next."""
        generation = self._generation
        found = await self._source.search(self._query, limit=PAGE, before=self._last)
        if generation == self._generation:
            await self._add(found)

    async def _add(self, found: list[Hit]) -> None:
        generation, rows, at = self._generation, list(self.rows), self._last and self._last.conversation_id
        for hit in found:
            if hit.conversation_id != at:
                at = hit.conversation_id
                rows += await self._source.conversations(conversation_id=at)
            rows.append(hit)
        if generation == self._generation:
            self.rows, self.hits = rows, self.hits + len(found)
            self._last, self.is_whole = found[-1] if found else self._last, len(found) < PAGE

    def conversation(self, row: int) -> ConversationInfo | None:
        """The conversation of a row: its own, or that of the heading above it."""
        while row >= 0:
            found = self.rows[row]
            if isinstance(found, ConversationInfo):
                return found
            row -= 1
        return None
