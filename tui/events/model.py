"""The event log: one row for every event, and the rows that match a filter.

A row keeps what its line needs and no more; the event itself stays in the store and is read again when it is opened.
Rows are in the order of their ids and have no gaps; they form a tree of causes and effects, and the indentation of a
row is computed when it is drawn, from the rows that are loaded then. At most `MAX_ROWS` are kept: new events push out
the oldest, and reading back stops there. Live events and pages of older ones lead to the same rows.

A filter sees every event: new ones as they come, and older ones that `search` reads. `searched` is the oldest event
that it has seen.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tui.i18n import _
from tui.workspace.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope, Event, Frame
    from tui.events.event_filter import Filter
    from tui.workspace.tab import Log

MAX_ROWS = 50_000
"""About 30 MB, and more than the longest conversations that are known."""
SUMMARY_CHARS = 240
"""Characters of a summary: more than the widest screen shows."""
AT_ONCE = 2_000
"""Rows that a new filter tests before the next frame: about 2 ms. The rest is searched in the background."""
SLICE_S = 0.006
"""How long one page of a search may take of the event loop: a part of a frame, so that keys hardly wait."""
MAX_PAGE = 400
"""Events of a page: about as many small ones as fit into a slice."""
_OPENING = 2_000
"""Characters of a message that are searched for its first line."""
_NOT_SEARCHED = frozenset({"tool_call_metadata", "llm_metrics"})
"""Parts of an event that are not its content."""


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


class EventsModel(PaneModel):
    """The rows of one conversation's events, from both ends."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change, so that a view knows whether it is up to date."""
        self.all = Rows()
        self.found: Rows | None = None
        """The rows that match the filter; None without one."""
        self.filter: Filter | None = None
        self.searched = 0
        """The oldest event that the filter has seen."""

    @property
    def shown(self) -> Rows:
        return self.all if self.found is None else self.found

    @property
    def rows(self) -> list[Row]:
        return self.shown.rows

    @property
    def oldest(self) -> int | None:
        return self.all.rows[0].id if self.all.rows else None

    @property
    def wants_older(self) -> bool:
        """Whether there are older events to load, and room for them."""
        return self.filter is None and bool(self.oldest) and self.has_room

    @property
    def has_room(self) -> bool:
        return len(self.all.rows) < MAX_ROWS

    @property
    def is_searching(self) -> bool:
        """Whether the filter has not seen all older events."""
        return self.filter is not None and self.searched > self.filter.reach.lowest and len(self.rows) < MAX_ROWS

    def apply(self, envelope: Envelope) -> None:
        """Add the next event. One that is known is ignored."""
        if self.all.rows and envelope.id <= self.all.rows[-1].id:
            return
        row = _row(envelope)
        if not self.all.rows and self.filter is not None:
            self.searched = envelope.id
        self.all.append(row)
        _bound(self.all)
        if self.found is not None and self._matches(row, envelope):
            self.found.append(row)
            _bound(self.found)
        self._touch()

    def apply_frame(self, frame: Frame) -> None:
        """Do nothing: the log shows stored events only."""

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """Add the page that ends right before the first row, in ascending order.

        Known events are ignored; the whole page is, if it would leave a gap because the first row has changed
        meanwhile.
        """
        known = self.oldest
        older = [envelope for envelope in envelopes if known is None or envelope.id < known]
        if not older or (known is not None and older[-1].id != known - 1):
            return
        self.all.prepend([_row(envelope) for envelope in older])
        if older[-1].id >= self.searched - 1:
            self._filter_older(older, older[0].id)
        self._touch()

    def row(self, event_id: int | None) -> Row | None:
        return self.all.row(event_id)

    def set_filter(self, filter: Filter | None) -> None:
        """Show what matches this filter, or everything again. A filter that needs no text finds the newest rows now."""
        self.filter = filter
        self.found = None if filter is None else Rows()
        self.searched = self.all.rows[-1].id + 1 if self.all.rows else 0
        if filter is not None and self.found is not None and not filter.needs_text and self.all.rows:
            newest = self.all.rows[-AT_ONCE:]
            self.found.prepend([row for row in newest if filter.matches(row, tuple)])
            self.searched = newest[0].id
        self._touch()

    async def search(self, log: Log, on_progress: Callable[[], None]) -> None:
        """Find older events that match the filter, from the newest back, until it is replaced or has seen all.

        Reads page by page, each as long as it may be without delaying keys, and shows what it finds at once. Cancelling
        between two pages loses nothing. Raises StoreError.
        """
        from core.events import EventSource
        from core.store.reader import EventFilter

        wanted, limit = self.filter, 50
        if wanted is None:
            return
        reach = wanted.reach
        kinds = frozenset(f"{branch}:{kind}" for kind in reach.kinds for branch in ("action", "observation"))
        where = EventFilter(kinds=kinds, sources=frozenset(EventSource(source) for source in reach.sources))
        while self.filter is wanted and self.is_searching:
            started_at = time.thread_time()
            page = await log.page(before=min(self.searched, reach.highest + 1), limit=limit, where=where)
            if self.filter is not wanted:
                return
            is_last = len(page) < limit or page[0].id <= reach.lowest
            self._filter_older(page, reach.lowest if is_last else page[0].id)
            on_progress()
            took_s = time.thread_time() - started_at
            if took_s > SLICE_S:
                limit = max(1, limit // 2)
            elif took_s < SLICE_S / 3:
                limit = min(MAX_PAGE, limit * 2)
            await asyncio.sleep(0)

    def _filter_older(self, envelopes: Iterable[Envelope], lowest: int) -> None:
        """Filter older events, in ascending order: all from `lowest` on that can match."""
        if self.found is None or lowest >= self.searched:
            return
        unseen = [envelope for envelope in envelopes if envelope.id < self.searched]
        pairs = [(_row(envelope), envelope) for envelope in unseen]
        self.found.prepend([row for row, envelope in pairs if self._matches(row, envelope)])
        self.searched = lowest
        self._touch()

    def _matches(self, row: Row, envelope: Envelope) -> bool:
        assert self.filter is not None
        return self.filter.matches(row, lambda: _texts(row, envelope))

    def _touch(self) -> None:
        self.version += 1
        self.notify()


def _bound(rows: Rows) -> None:
    if len(rows.rows) > MAX_ROWS:
        rows.drop(MAX_ROWS // 50)


def _row(envelope: Envelope) -> Row:
    event = envelope.event
    exit_code = getattr(getattr(event, "metadata", None), "exit_code", None)
    return Row(
        id=envelope.id,
        at=envelope.timestamp.timestamp(),
        source=str(envelope.source),
        kind=_kind(event),
        cause=envelope.cause,
        is_action=hasattr(event, "runnable"),
        failed=getattr(event, "success", None) is False,
        exit=exit_code if isinstance(exit_code, int) and exit_code != -1 else None,
        summary=summarize(event),
    )


def _kind(event: Event) -> str:
    """Return the name of an event's kind; as it is stored if this version does not know it."""
    raw = getattr(event, "raw", None)
    return type(event).kind if raw is None else str(raw.get("action", raw.get("observation", "")))


def _texts(row: Row, envelope: Envelope) -> Iterator[str]:
    """Yield the row's summary and every text in the event."""
    yield row.summary
    content = {name: part for name, part in vars(envelope.event).items() if name not in _NOT_SEARCHED}
    parts: list[object] = [content, envelope.carried]
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            parts += part.values()
        elif isinstance(part, list | tuple):
            parts += part
        elif hasattr(part, "model_fields_set"):
            parts.append(vars(part))


def summarize(event: object) -> str:
    """Summarise an event in one line: the state, the command, or its message."""
    state = getattr(event, "agent_state", None)
    if state is not None:
        reason = getattr(event, "reason", "")
        return f"{state}: {_first_line(reason)}" if reason else str(state)
    command = getattr(event, "command", None)
    metadata = getattr(event, "metadata", None)
    if isinstance(command, str) and metadata is not None:
        code = metadata.exit_code
        if code == -1:
            return _("still running")
        return f"{_('exit {code}').format(code=code)}  {_first_line(getattr(event, 'content', ''))}"
    if isinstance(command, str) and not hasattr(event, "path"):
        return _first_line(command)
    return _first_line(str(getattr(event, "message", "") or getattr(event, "content", "")))


def _first_line(text: str) -> str:
    """Return the first line that is not blank, with a mark if more follows."""
    lines = text[:_OPENING].lstrip().split("\n", 1)
    more = len(lines) > 1 and lines[1].strip() != ""
    first = lines[0].rstrip()
    if len(first) > SUMMARY_CHARS:
        return first[: SUMMARY_CHARS - 1] + "…"
    return first + " …" if more else first
