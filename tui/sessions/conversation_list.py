"""The rows of the session manager: the list of conversations and the hits of a search, read page by page. No Textual.

Rows have the order of the store; the delegates of a conversation are collapsed below it, and are read when they are
expanded. Hits come below the conversation that they are in. Results of an earlier query are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from core.store.conversations import ORDERS as STORE_ORDERS
from core.store.conversations import ConversationFilter, ConversationInfo
from core.store.search_index import Hit
from tui.delegation.delegate_tabs import as_tree

if TYPE_CHECKING:
    from core.library.all_sessions import AllSessions
    from core.store.reader import EventReader

PAGE = 100
"""Conversations that are read at once: some screens full, a few milliseconds."""
ORDERS = tuple(STORE_ORDERS)


class Entry(NamedTuple):
    info: ConversationInfo
    level: int = 0
    """How deep it is in the tree of delegates."""
    delegates: int = 0
    expanded: bool = False


class SessionList:
    """A list over a source, empty until `begin`."""

    def __init__(self, source: EventReader | AllSessions) -> None:
        self._source = source
        self._where = ConversationFilter()
        self._order = ORDERS[0]
        self._generation = 0
        self._pages: dict[int, list[Entry]] = {}
        self._expanded: dict[int, list[Entry]] = {}
        """The expanded delegates, by the place of their top-level conversation."""
        self.total = 0
        """Matching conversations, without expanded delegates."""

    async def begin(self, where: ConversationFilter, order: str) -> None:
        """Show the matching conversations in this order. Cancelling keeps the old list."""
        self._generation += 1
        generation, self._where, self._order = self._generation, where, order
        total = await self._source.listing.count(where)
        first = await self._read(0)
        if generation == self._generation:
            self.total, self._pages, self._expanded = total, {0: first}, {}

    def __len__(self) -> int:
        return self.total + sum(map(len, self._expanded.values()))

    def entry(self, row: int) -> Entry | None:
        """The conversation in a row; None if it is not loaded or the row does not exist."""
        if not 0 <= row < len(self):
            return None
        place, below = self._locate(row)
        if below:
            return self._expanded[place][below - 1]
        page = self._pages.get(place // PAGE, [])
        found = page[place % PAGE] if place % PAGE < len(page) else None
        return found._replace(expanded=True) if found and place in self._expanded else found

    def row_of(self, conversation_id: str) -> int | None:
        """The row of a conversation; None if it is not loaded."""
        for number, page in self._pages.items():
            for index, entry in enumerate(page):
                if entry.info.id == conversation_id:
                    return self._row_at(number * PAGE + index)
        for place, below in self._expanded.items():
            for index, entry in enumerate(below):
                if entry.info.id == conversation_id:
                    return self._row_at(place) + 1 + index
        return None

    def missing(self, first: int, last: int) -> list[int]:
        """The pages between two rows that are not loaded yet."""
        if not self.total:
            return []
        ends = [self._locate(min(max(0, row), len(self) - 1))[0] // PAGE for row in (first, last)]
        return [page for page in range(ends[0], ends[1] + 1) if page not in self._pages]

    async def load(self, page: int) -> None:
        generation, entries = self._generation, await self._read(page)
        if generation == self._generation:
            self._pages[page] = entries

    async def toggle_delegates(self, row: int) -> None:
        """Expand the delegates below a row, or collapse them."""
        place, below = self._locate(row)
        if self._expanded.pop(place, None) is not None or below:
            return
        entry, generation = self.entry(row), self._generation
        if entry is None or not entry.delegates:
            return
        children = [Entry(info, level + 1) for level, info in as_tree(await self._source.descendants(entry.info.id))]
        if generation == self._generation:
            self._expanded[place] = children

    async def _read(self, page: int) -> list[Entry]:
        listing = self._source.listing
        infos = await listing.page(self._where, order=self._order, offset=page * PAGE, limit=PAGE)
        counts = await listing.delegate_counts([info.id for info in infos])
        return [Entry(info, int(bool(info.parent)), counts.get(info.id, 0)) for info in infos]

    def _locate(self, row: int) -> tuple[int, int]:
        """The place of a row's top-level conversation, and the number of the row below it; 0 for itself."""
        shift = 0
        for place in sorted(self._expanded):
            below = len(self._expanded[place])
            if row <= place + shift:
                break
            if row <= place + shift + below:
                return place, row - place - shift
            shift += below
        return row - shift, 0

    def _row_at(self, place: int) -> int:
        return place + sum(len(below) for other, below in self._expanded.items() if other < place)


HITS_PAGE = 50
NEAR = 20
"""Rows before the end at which more is read."""


class HitList:
    """The hits of a search below headings, empty until `begin`. A heading is a ConversationInfo."""

    def __init__(self, source: EventReader | AllSessions) -> None:
        self._source = source
        self._query = ""
        self._generation = 0
        self._last: Hit | None = None
        self.rows: list[ConversationInfo | Hit] = []
        self.hits = 0
        self.is_complete = True
        self.behind = 0
        """Events that are not in the index yet."""

    def __len__(self) -> int:
        return len(self.rows)

    async def begin(self, query: str) -> None:
        """Start a search. Cancelling keeps the old hits. Raises UsageError, StoreError."""
        self._generation += 1
        generation = self._generation
        found = await self._source.search(query, limit=HITS_PAGE) if query.strip() else []
        behind = await self._source.count_unindexed() if query.strip() else 0
        if generation == self._generation:
            self._query, self.rows, self.hits, self._last, self.behind = query, [], 0, None, behind
            await self._add(found)

    def needs_more(self, last: int) -> bool:
        """Whether more must be read if this is the last visible row."""
        return not self.is_complete and last + NEAR >= len(self.rows)

    async def more(self) -> None:
        generation = self._generation
        found = await self._source.search(self._query, limit=HITS_PAGE, before=self._last)
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
            self._last, self.is_complete = found[-1] if found else self._last, len(found) < HITS_PAGE

    def conversation(self, row: int) -> ConversationInfo | None:
        """The conversation of a row: its own, or that of the heading above it."""
        while row >= 0:
            found = self.rows[row]
            if isinstance(found, ConversationInfo):
                return found
            row -= 1
        return None


UNKNOWN = "—"


def dollars(cost: float | None) -> str:
    """US dollars; a dash if unknown."""
    if cost is None:
        return UNKNOWN
    return f"${cost:.4f}" if 0 < cost < 0.1 else f"${cost:,.2f}"


def bytes_of(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    step = min(4, (len(str(size)) - 1) // 3)
    value, unit = size / 1000**step, ("", "kB", "MB", "GB", "TB")[step]
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
