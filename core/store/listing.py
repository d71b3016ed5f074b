"""What a list of conversations shows, and which of them it wants. Pure: statements and rows.

The columns are kept beside the conversation as its events are written, so that a list costs its rows and no event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

IMPORT = "import"
"""The origin of a conversation that came from a file."""
FORK = "fork"
"""The origin of one that begins as another one was."""
FORKED, RUN_AGAIN = TITLE_ENDINGS = (" (fork)", " · again")
"""Behind the title of a conversation that comes from another one."""


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """One conversation of a list."""

    id: str
    title: str
    workspace: str
    model: str
    created_at: datetime
    updated_at: datetime
    event_count: int
    parent: str = ""
    """The conversation that delegated to this one; empty for one of the user's."""
    parent_action: int | None = None
    repository: str = ""
    """What is cloned into the workspace at the start: a URL, with `#branch` where one is named."""
    first_line: str = ""
    """Of the user's first message; 200 characters at most."""
    state: str = ""
    """The value of the agent's last state; empty before there is one."""
    cost: float | None = 0.0
    """US dollars; None where a price was not known."""
    size: int = 0
    """Bytes that its events, pictures and recordings take."""
    origin: str = ""
    """Where it comes from: empty for one that was begun here, or `fork`, `import`, `again`."""
    origin_of: str = ""
    """The conversation, or the file, that it comes from."""
    origin_event: int | None = None
    """The last event that it shares with where it comes from."""


@dataclass(frozen=True, slots=True)
class NewConversation:
    """What is known of a conversation that is stored whole."""

    id: str
    title: str
    workspace: str
    model: str
    origin: str
    origin_of: str
    origin_event: int | None = None
    created_at: datetime | None = None
    """None: when it is stored."""
    repository: str = ""
    """As in ConversationInfo."""


@dataclass(frozen=True, slots=True)
class ConversationFilter:
    """Which conversations a list wants. Empty fields let everything through."""

    text: str = ""
    """Words that all stand in the title, the first line or the folder; case is ignored for ASCII."""
    workspace: str = ""
    model: str = ""
    states: frozenset[str] = frozenset()
    since: datetime | None = None
    """Of the last event; so is `until`."""
    until: datetime | None = None
    origin: str | None = None
    """One of `ConversationInfo.origin`; empty for those that were begun here."""
    parents: bool = False
    """Without those that others delegated to."""


COLUMNS = (
    "c.id, c.title, c.workspace, c.model, c.created_at, c.updated_at, c.event_count, c.parent, c.parent_action,"
    " c.repository, c.first_line, c.state, c.cost, c.size, c.origin, c.origin_of, c.origin_event"
)
"""Of which a ConversationInfo is made; `c` is the table."""


def info(row: Sequence[Any]) -> ConversationInfo:
    """The row of `COLUMNS` as a ConversationInfo."""
    values: list[Any] = [*row[:4], *map(datetime.fromisoformat, row[4:6]), *row[6:]]
    return ConversationInfo(*values)


def clauses(where: ConversationFilter) -> tuple[list[str], list[Any]]:
    """The conditions of a filter, and their values in order."""
    found: list[str] = []
    values: list[Any] = []
    for word in where.text.split():
        found.append("instr(lower(c.title || char(10) || c.first_line || char(10) || c.workspace), lower(?)) > 0")
        values.append(word)
    for column, wanted in (("workspace", where.workspace), ("model", where.model)):
        if wanted:
            found.append(f"c.{column} = ?")
            values.append(wanted)
    if where.states:
        found.append(f"c.state IN ({', '.join('?' * len(where.states))})")
        values.extend(sorted(where.states))
    for operator, moment in ((">=", where.since), ("<=", where.until)):
        if moment is not None:
            found.append(f"c.updated_at {operator} ?")
            values.append(moment.astimezone(UTC).isoformat())
    if where.origin is not None:
        found.append("c.origin = ?")
        values.append(where.origin)
    if where.parents:
        found.append("c.parent = ''")
    return found, values
