"""The event log's rows: what every event is in one line, without a terminal.

A row keeps what its line needs and no more; the event itself stays in the store and is read again when it is opened.
Rows are in the order of their ids and have no gaps. At most `MAX_ROWS` are kept: new events push out the oldest, and
reading back stops there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tui.panes.pane import PaneModel

if TYPE_CHECKING:
    from core.events import Envelope, Frame

MAX_ROWS = 50_000
"""About 30 MB, and more than the longest conversations that people have shown."""
SUMMARY_CHARS = 240
"""What a row keeps of an event's message: more than the widest screen shows."""
MAX_DEPTH = 6
_OPENING = 2_000
"""Characters of a message that are looked at for its first line."""


class Row(NamedTuple):
    """One event in one line."""

    id: int
    at: float
    """Seconds since the epoch."""
    source: str
    kind: str
    cause: int | None
    depth: int
    """How far it is indented: an observation stands under the action that caused it."""
    is_action: bool
    failed: bool
    summary: str
    """Foreign text, not sanitised yet: only lines that are shown are worth it."""


class EventsModel(PaneModel):
    """The rows of one conversation's events, from both ends."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change, so that a view knows whether it is up to date."""
        self.rows: list[Row] = []
        self.dropped = 0
        """Rows that were pushed out at the top, so that a view keeps its place."""
        self.prepended = 0
        """Rows that were put in at the top, so that a view keeps its place."""

    @property
    def oldest(self) -> int | None:
        """The id of the first row; None without rows."""
        return self.rows[0].id if self.rows else None

    @property
    def wants_older(self) -> bool:
        """Whether there is more to read before the first row, and room for it."""
        return bool(self.rows) and self.rows[0].id > 0 and len(self.rows) < MAX_ROWS

    def apply(self, envelope: Envelope) -> None:
        """Take in the next event. One that is known already is ignored."""
        if self.rows and envelope.id <= self.rows[-1].id:
            return
        self.rows.append(self._row(envelope, self.row(envelope.cause)))
        if len(self.rows) > MAX_ROWS:
            surplus = MAX_ROWS // 50
            del self.rows[:surplus]
            self.dropped += surplus
        self._touch()

    def apply_frame(self, frame: Frame) -> None:
        """Nothing: the log shows what is durable."""

    def prepend(self, envelopes: Sequence[Envelope]) -> None:
        """Put in the page that ends right before the first row, in ascending order."""
        known = self.rows[0].id if self.rows else None
        older: dict[int, Row] = {}
        for envelope in envelopes:
            if known is None or envelope.id < known:
                older[envelope.id] = self._row(envelope, older.get(-1 if envelope.cause is None else envelope.cause))
        self.rows[:0] = older.values()
        self.prepended += len(older)
        self._touch()

    def row(self, event_id: int | None) -> Row | None:
        """The row of an event, where it is loaded. Ids have no gaps, so this is arithmetic."""
        if event_id is None or not self.rows:
            return None
        index = event_id - self.rows[0].id
        return self.rows[index] if 0 <= index < len(self.rows) else None

    def _touch(self) -> None:
        self.version += 1
        self.notify()

    def _row(self, envelope: Envelope, cause: Row | None) -> Row:
        event = envelope.event
        is_action = hasattr(event, "runnable")
        answers = cause is not None and cause.is_action and not is_action
        depth = min(MAX_DEPTH, cause.depth + 1) if cause is not None and answers else 0
        return Row(
            id=envelope.id,
            at=envelope.timestamp.timestamp(),
            source=str(envelope.source),
            kind=type(event).kind,
            cause=envelope.cause,
            depth=depth,
            is_action=is_action,
            failed=getattr(event, "success", None) is False,
            summary=summarize(event),
        )


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
        return f"exit {code}  {_first_line(getattr(event, 'content', ''))}" if code != -1 else "still running"
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
