"""The event log: one row for every event, and the rows that match a filter.

A row keeps what its line needs and no more; the event itself stays in the store and is read again when it is opened.
Rows are in the order of their ids and have no gaps. At most `MAX_ROWS` are kept: new events push out the oldest, and
reading back stops there. Live events and pages of older ones lead to the same rows.

A filter sees every event: new ones as they come, and older ones that `search` reads. `searched` is the oldest event
that it has seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tui.events.event_rows import Row, Rows
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
