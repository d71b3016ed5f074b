"""The rows of the session manager as a view draws them: of the list, and of what a search found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from textual.content import Content

from core.store.listing import ConversationInfo
from tui.sessions.hits import HitList
from tui.sessions.listing import SessionList
from tui.sessions.rows import CLOSED, Standing, entry_lines, heading_line, hit_line

Clock = Callable[[], datetime]


class Listed:
    """Implements `tui.screens.session_rows.Drawn` with the list. What is not read yet is a row of dots."""

    height = 2

    def __init__(
        self, listing: SessionList, clock: Clock, standings: Mapping[str, Standing], chosen: AbstractSet[str]
    ) -> None:
        self._list, self._clock, self._standings, self._chosen = listing, clock, standings, chosen

    def __len__(self) -> int:
        return len(self._list)

    def lines(self, row: int, width: int) -> Sequence[Content]:
        entry = self._list.entry(row)
        if entry is None:
            return Content.styled("      …", "$text-muted"), Content("")
        standing = self._standings.get(entry.info.id, CLOSED)
        return entry_lines(entry, width, self._clock(), standing, entry.info.id in self._chosen)

    def stops(self, row: int) -> bool:
        """Everywhere."""
        return True


class Found:
    """Implements `tui.screens.session_rows.Drawn` with hits; the cursor passes over headings."""

    height = 1

    def __init__(self, hits: HitList, clock: Clock) -> None:
        self._hits, self._clock = hits, clock

    def __len__(self) -> int:
        return len(self._hits)

    def lines(self, row: int, width: int) -> Sequence[Content]:
        found = self._hits.rows[row]
        if isinstance(found, ConversationInfo):
            return [heading_line(found, width, self._clock())]
        return [hit_line(found, width)]

    def stops(self, row: int) -> bool:
        return not isinstance(self._hits.rows[row], ConversationInfo)
