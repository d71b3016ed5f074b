"""The list of conversations, of which only the pages that somebody looks at are read. No Textual.

Rows stand in the order of the store; the delegates of a conversation are folded away below it, and are read when they
are unfolded. Invariant: a row is of the list that was begun last; what comes late from an earlier one is thrown away.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from core.store.conversations import ORDERS as SHELF_ORDERS
from core.store.conversations import ConversationFilter, ConversationInfo, ConversationListing
from tui.delegation.delegate_tabs import as_tree

PAGE = 100
"""Conversations that are read at once: some screens full, a few milliseconds."""
ORDERS = tuple(SHELF_ORDERS)
"""By what the list can be sorted."""


class Source(Protocol):
    """Where conversations are read from: the part of `core.store.reader.EventReader` that is needed here."""

    @property
    def listing(self) -> ConversationListing: ...
    async def descendants(self, conversation_id: str) -> list[ConversationInfo]: ...


class Entry(NamedTuple):
    """One row of the list."""

    info: ConversationInfo
    level: int = 0
    """How many conversations above it delegated until it came to this one."""
    delegates: int = 0
    """How many are folded away below it, or stand there."""
    unfolded: bool = False


class SessionList:
    """A list over a source, empty until `begin`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._where = ConversationFilter()
        self._order = ORDERS[0]
        self._generation = 0
        self._pages: dict[int, list[Entry]] = {}
        self._unfolded: dict[int, list[Entry]] = {}
        """What stands below a conversation, by its place among those that nobody delegated to."""
        self.total = 0
        """Conversations that match, without what is unfolded."""

    async def begin(self, where: ConversationFilter, order: str) -> None:
        """Show what matches, in this order. Cancelling leaves the list as it was."""
        self._generation += 1
        generation, self._where, self._order = self._generation, where, order
        total = await self._source.listing.count(where)
        first = await self._read(0)
        if generation == self._generation:
            self.total, self._pages, self._unfolded = total, {0: first}, {}

    def __len__(self) -> int:
        return self.total + sum(map(len, self._unfolded.values()))

    def entry(self, row: int) -> Entry | None:
        """What stands in a row; None where it is not read yet, or where there is none."""
        if not 0 <= row < len(self):
            return None
        place, below = self._locate(row)
        if below:
            return self._unfolded[place][below - 1]
        page = self._pages.get(place // PAGE, [])
        found = page[place % PAGE] if place % PAGE < len(page) else None
        return found._replace(unfolded=True) if found and place in self._unfolded else found

    def row_of(self, conversation_id: str) -> int | None:
        """The row of a conversation that is read; None where it is not."""
        for number, page in self._pages.items():
            for index, entry in enumerate(page):
                if entry.info.id == conversation_id:
                    return self._row_at(number * PAGE + index)
        for place, below in self._unfolded.items():
            for index, entry in enumerate(below):
                if entry.info.id == conversation_id:
                    return self._row_at(place) + 1 + index
        return None

    def missing(self, first: int, last: int) -> list[int]:
        """The pages between two rows that are not read yet."""
        if not self.total:
            return []
        ends = [self._locate(min(max(0, row), len(self) - 1))[0] // PAGE for row in (first, last)]
        return [page for page in range(ends[0], ends[1] + 1) if page not in self._pages]

    async def load(self, page: int) -> None:
        """Read a page."""
        generation, entries = self._generation, await self._read(page)
        if generation == self._generation:
            self._pages[page] = entries

    async def fold(self, row: int) -> None:
        """Unfold the delegates below a row, or fold them away again."""
        place, below = self._locate(row)
        if self._unfolded.pop(place, None) is not None or below:
            return
        entry, generation = self.entry(row), self._generation
        if entry is None or not entry.delegates:
            return
        children = [Entry(info, level + 1) for level, info in as_tree(await self._source.descendants(entry.info.id))]
        if generation == self._generation:
            self._unfolded[place] = children

    async def _read(self, page: int) -> list[Entry]:
        listing = self._source.listing
        infos = await listing.page(self._where, order=self._order, offset=page * PAGE, limit=PAGE)
        counts = await listing.delegate_counts([info.id for info in infos])
        return [Entry(info, int(bool(info.parent)), counts.get(info.id, 0)) for info in infos]

    def _locate(self, row: int) -> tuple[int, int]:
        """The place of a row's conversation among those of the first level, and which one below it the row is."""
        shift = 0
        for place in sorted(self._unfolded):
            below = len(self._unfolded[place])
            if row <= place + shift:
                break
            if row <= place + shift + below:
                return place, row - place - shift
            shift += below
        return row - shift, 0

    def _row_at(self, place: int) -> int:
        return place + sum(len(below) for other, below in self._unfolded.items() if other < place)
