"""The rows of the event log in the order of their ids, and the tree of causes and effects that they form.

The indentation of a row is computed when it is drawn, from the rows that are loaded then. So it does not depend on the
order in which they were loaded, and costs only what is visible.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

MAX_DEPTH = 6
"""Deeper rows are not indented further: on a narrow screen the text is worth more than the tree."""
_NEAR = 64
"""Rows between a cause and an effect that does not name it."""
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
    """The exit code of a finished command."""
    summary: str
    """Not sanitised: that is done when the row is drawn."""

    @property
    def parent(self) -> int | None:
        """The id of the event under which this one is shown; None for what the agent decides."""
        is_decision = self.is_action and self.source == "agent" and self.kind not in _CAUSED_KINDS
        return None if is_decision else self.cause


_CAUSED_KINDS = frozenset({"recall", "condensation"})
"""Actions of the agent that follow from an event; others only come after what the model saw last."""


class Rows:
    """Rows that can grow at both ends."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.dropped = 0
        """The number of rows that were removed at the top, so that a view keeps its place."""
        self.prepended = 0
        self._last_child: dict[int, int] = {}
        """The id of the last row under an event, by the event's id."""
        self._first_child: dict[int, int] = {}

    def append(self, row: Row) -> None:
        self.rows.append(row)
        if row.parent is not None:
            self._last_child[row.parent] = row.id
            self._first_child.setdefault(row.parent, row.id)

    def prepend(self, rows: Sequence[Row]) -> None:
        """Add rows before the first, in ascending order."""
        self.rows[:0] = rows
        self.prepended += len(rows)
        for row in reversed(rows):
            if row.parent is not None:
                self._last_child.setdefault(row.parent, row.id)
                self._first_child[row.parent] = row.id

    def drop(self, count: int) -> None:
        for row in self.rows[:count]:
            if row.parent is not None and self._last_child.get(row.parent) == row.id:
                del self._last_child[row.parent], self._first_child[row.parent]
        del self.rows[:count]
        self.dropped += count

    def index(self, event_id: int | None) -> int | None:
        """Return the index of an event's row, if it is loaded."""
        if event_id is None:
            return None
        index = self.index_near(event_id)
        return index if index < len(self.rows) and self.rows[index].id == event_id else None

    def index_near(self, event_id: int) -> int:
        """Return the index of an event's row, or where it would be."""
        return bisect_left(self.rows, event_id, key=_id)

    def row(self, event_id: int | None) -> Row | None:
        index = self.index(event_id)
        return None if index is None else self.rows[index]

    def counterpart(self, row: Row) -> int | None:
        """Return the id of an action's result, or of the action of a result."""
        result = self._first_child.get(row.id)
        return result if row.is_action and result is not None else row.parent

    def ancestors(self, row: Row) -> list[Row]:
        """Return the rows under which a row is shown, the outermost first."""
        above: list[Row] = []
        cause = self.row(row.parent)
        while cause is not None and len(above) < MAX_DEPTH:
            above.append(cause)
            cause = self.row(cause.parent)
        return above[::-1]

    def guide(self, index: int) -> tuple[str, bool]:
        """Return the lines that lead to a row from its cause, and whether the cause is near.

        If it is not, or is not loaded, the row has to name it.
        """
        row = self.rows[index]
        if row.parent is None:
            return "", True
        above = self.ancestors(row)
        if not above:
            return "└ ", False
        guide = "".join("│ " if self._has_sibling(one, row) else "  " for one in above[1:])
        cause = above[-1]
        return guide + ("├ " if self._last_child.get(cause.id) != row.id else "└ "), self._is_near(index, cause)

    def _has_sibling(self, row: Row, below: Row) -> bool:
        """Whether a row with the same cause follows after `below`."""
        return row.parent is not None and self._last_child.get(row.parent, -1) > below.id

    def _is_near(self, index: int, cause: Row) -> bool:
        """Whether only effects of a cause are between it and a row."""
        for earlier in range(index - 1, max(-1, index - _NEAR), -1):
            row = self.rows[earlier]
            if row.id == cause.id:
                return True
            if cause.id not in (one.id for one in self.ancestors(row)):
                return False
        return False
