"""Rows in the order of their ids, and which stands under which: the whole log, or what a filter leaves of it.

How far a row is indented is found when it is drawn, from the rows that are here then. So it does not depend on the way
in which they came, and costs what is in sight.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

MAX_DEPTH = 6
"""Rows below stand where their cause stands: on a narrow screen the text is worth more than the tree."""
_NEAR = 64
"""Rows that a guide line may span; whoever looks at an effect sees its cause, or reads its number."""
_id = attrgetter("id")


class Row(NamedTuple):
    """One event in one line."""

    id: int
    at: float
    """Seconds since the epoch."""
    source: str
    kind: str
    cause: int | None
    is_action: bool
    failed: bool
    exit: int | None
    """The exit code of a command that ended."""
    summary: str
    """Foreign text, not sanitised yet: only lines that are shown are worth it."""

    @property
    def under(self) -> int | None:
        """The id of the event below which this one stands. What the agent decides stands by itself."""
        decided = self.is_action and self.source == "agent" and self.kind not in _ASKED_FOR
        return None if decided else self.cause


_ASKED_FOR = frozenset({"recall", "condensation"})
"""Actions of the agent's side that follow from an event, where others only come after what the model saw last."""


class Lines:
    """Rows that can grow at both ends."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.dropped = 0
        """Rows that were taken away at the top, so that a view keeps its place."""
        self.prepended = 0
        """Rows that were put in at the top, so that a view keeps its place."""
        self._last_under: dict[int, int] = {}
        """The last row under a cause, by the cause's id."""
        self._first_under: dict[int, int] = {}

    def append(self, row: Row) -> None:
        """Put a row at the end."""
        self.rows.append(row)
        if row.under is not None:
            self._last_under[row.under] = row.id
            self._first_under.setdefault(row.under, row.id)

    def prepend(self, rows: Sequence[Row]) -> None:
        """Put rows before the first, in ascending order."""
        self.rows[:0] = rows
        self.prepended += len(rows)
        for row in reversed(rows):
            if row.under is not None:
                self._last_under.setdefault(row.under, row.id)
                self._first_under[row.under] = row.id

    def drop(self, count: int) -> None:
        """Take rows away at the top."""
        for row in self.rows[:count]:
            if row.under is not None and self._last_under.get(row.under) == row.id:
                del self._last_under[row.under], self._first_under[row.under]
        del self.rows[:count]
        self.dropped += count

    def index(self, event_id: int | None) -> int | None:
        """Where an event's row is; None where it is not here."""
        if event_id is None:
            return None
        index = self.place(event_id)
        return index if index < len(self.rows) and self.rows[index].id == event_id else None

    def place(self, event_id: int) -> int:
        """Where an event's row is, or would be."""
        return bisect_left(self.rows, event_id, key=_id)

    def row(self, event_id: int | None) -> Row | None:
        """An event's row, where it is here."""
        index = self.index(event_id)
        return None if index is None else self.rows[index]

    def counterpart(self, row: Row) -> int | None:
        """The id at the other end of an action: what came of it, or for that the action."""
        effect = self._first_under.get(row.id)
        return effect if row.is_action and effect is not None else row.under

    def lineage(self, row: Row) -> list[Row]:
        """The rows below which a row stands, the outermost first."""
        above: list[Row] = []
        cause = self.row(row.under)
        while cause is not None and len(above) < MAX_DEPTH:
            above.append(cause)
            cause = self.row(cause.under)
        return above[::-1]

    def guide(self, index: int) -> tuple[str, bool]:
        """The lines that lead to a row from its cause, and whether the cause stands right above them.

        Where it does not, because it is far or not here, the row has to name it.
        """
        row = self.rows[index]
        if row.under is None:
            return "", True
        above = self.lineage(row)
        if not above:
            return "└ ", False
        guide = "".join("│ " if self._goes_on(one, row) else "  " for one in above[1:])
        cause = above[-1]
        return guide + ("├ " if self._last_under.get(cause.id) != row.id else "└ "), self._is_near(index, cause)

    def _goes_on(self, row: Row, below: Row) -> bool:
        """Whether after `below` there is another row beside this one."""
        return row.under is not None and self._last_under.get(row.under, -1) > below.id

    def _is_near(self, index: int, cause: Row) -> bool:
        """Whether nothing but what stands under a cause is between it and a row."""
        for earlier in range(index - 1, max(-1, index - _NEAR), -1):
            row = self.rows[earlier]
            if row.id == cause.id:
                return True
            if cause.id not in (one.id for one in self.lineage(row)):
                return False
        return False
