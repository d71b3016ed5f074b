"""The event log: what every event is in one line, and which of the lines a filter lets through, without a terminal.

A row keeps what its line needs and no more; the event itself stays in the store and is read again when it is opened.
Rows are in the order of their ids and have no gaps. At most `MAX_ROWS` are kept: new events push out the oldest, and
reading back stops there. Nothing but envelopes comes in, live, by page or both, and the rows are the same.

A filter sees every event: new ones as they come, older ones as `look_through` is given them. It has seen all that are
not older than `searched`; what it has to read from the store ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tui.events.event_filter import Filter
from tui.events.row_order import Lines, Row
from tui.i18n import _
from tui.workspace.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope, Event, Frame

MAX_ROWS = 50_000
"""About 30 MB, and more than the longest conversations that people have shown."""
SUMMARY_CHARS = 240
"""What a row keeps of an event's message: more than the widest screen shows."""
AT_ONCE = 2_000
"""Rows that a new filter looks at before the next frame: about 2 ms. It reads the rest in the background."""
_OPENING = 2_000
"""Characters of a message that are looked at for its first line."""
_ABOUT_THE_CALL = frozenset({"tool_call_metadata", "llm_metrics"})
"""Parts of an event that say how it came about, not what it says."""


class EventsModel(PaneModel):
    """The rows of one conversation's events, from both ends."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change, so that a view knows whether it is up to date."""
        self.all = Lines()
        self.found: Lines | None = None
        """What the filter lets through; None without one."""
        self.filter: Filter | None = None
        self.searched = 0
        """The filter has seen this event and all that are newer."""

    @property
    def lines(self) -> Lines:
        """What is to be shown."""
        return self.all if self.found is None else self.found

    @property
    def rows(self) -> list[Row]:
        """The rows that are to be shown."""
        return self.lines.rows

    @property
    def oldest(self) -> int | None:
        """The id of the oldest loaded event; None without any."""
        return self.all.rows[0].id if self.all.rows else None

    @property
    def wants_older(self) -> bool:
        """Whether there is more to read before the first row, and room for it."""
        return self.filter is None and bool(self.oldest) and self.has_room

    @property
    def has_room(self) -> bool:
        """Whether more events may be loaded."""
        return len(self.all.rows) < MAX_ROWS

    @property
    def is_searching(self) -> bool:
        """Whether the filter has older events left to look at."""
        return self.filter is not None and self.searched > self.filter.reach.lowest and len(self.rows) < MAX_ROWS

    # -- events --------------------------------------------------------------------------------------------------------

    def apply(self, envelope: Envelope) -> None:
        """Take in the next event. One that is known already is ignored."""
        if self.all.rows and envelope.id <= self.all.rows[-1].id:
            return
        row = _row(envelope)
        if not self.all.rows and self.filter is not None:
            self.searched = envelope.id  # the first of all events comes from the end
        self.all.append(row)
        _bound(self.all)
        if self.found is not None and self._lets_through(row, envelope):
            self.found.append(row)
            _bound(self.found)
        self._touch()

    def apply_frame(self, frame: Frame) -> None:
        """Nothing: the log shows what is durable."""

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """Put in the page that ends right before the first row, in ascending order.

        What is known of it is ignored; all of it where it would leave a gap, because the first row is another by now.
        """
        known = self.oldest
        older = [envelope for envelope in envelopes if known is None or envelope.id < known]
        if not older or (known is not None and older[-1].id != known - 1):
            return
        self.all.prepend([_row(envelope) for envelope in older])
        if older[-1].id >= self.searched - 1:
            self.look_through(older, older[0].id)
        self._touch()

    def row(self, event_id: int | None) -> Row | None:
        """The row of an event, where it is loaded."""
        return self.all.row(event_id)

    # -- the filter ----------------------------------------------------------------------------------------------------

    def set_filter(self, filter: Filter | None) -> None:
        """Show what this filter lets through, or everything again.

        What rows alone can tell is there at once, as far as that takes no time.
        """
        self.filter = filter
        self.found = None if filter is None else Lines()
        self.searched = self.all.rows[-1].id + 1 if self.all.rows else 0
        if filter is not None and self.found is not None and not filter.needs_text and self.all.rows:
            newest = self.all.rows[-AT_ONCE:]
            self.found.prepend([row for row in newest if filter.matches(row, _nothing)])
            self.searched = newest[0].id
        self._touch()

    def look_through(self, envelopes: Iterable[Envelope], lowest: int) -> None:
        """Let the filter see older events, in ascending order: all from `lowest` on that can match it."""
        if self.found is None or lowest >= self.searched:
            return
        unseen = [envelope for envelope in envelopes if envelope.id < self.searched]
        pairs = [(_row(envelope), envelope) for envelope in unseen]
        self.found.prepend([row for row, envelope in pairs if self._lets_through(row, envelope)])
        self.searched = lowest
        self._touch()

    def _lets_through(self, row: Row, envelope: Envelope) -> bool:
        assert self.filter is not None
        return self.filter.matches(row, lambda: _strings(row, envelope))

    def _touch(self) -> None:
        self.version += 1
        self.notify()


def _bound(lines: Lines) -> None:
    if len(lines.rows) > MAX_ROWS:
        lines.drop(MAX_ROWS // 50)


def _nothing() -> Iterable[str]:
    return ()


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
    """The name of an event's kind; as it is stored where this version does not know it."""
    raw = getattr(event, "raw", None)
    return type(event).kind if raw is None else str(raw.get("action", raw.get("observation", "")))


def _strings(row: Row, envelope: Envelope) -> Iterator[str]:
    """Everything that an event says: its line, and every text in it."""
    yield row.summary
    said = {name: part for name, part in vars(envelope.event).items() if name not in _ABOUT_THE_CALL}
    waiting: list[object] = [said, envelope.carried]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
        elif hasattr(part, "model_fields_set"):
            waiting.append(vars(part))


def summarize(event: object) -> str:
    """What an event says, in one line: the state, the command, or its message."""
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
    """The first line that says something, with a mark where more follows."""
    lines = text[:_OPENING].lstrip().split("\n", 1)
    more = len(lines) > 1 and lines[1].strip() != ""
    first = lines[0].rstrip()
    if len(first) > SUMMARY_CHARS:
        return first[: SUMMARY_CHARS - 1] + "…"
    return first + " …" if more else first
