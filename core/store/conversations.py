"""The conversations of a home as rows: filter, sort, page, count, and look up by the beginning of an id.

What lists show is stored with the conversation whenever events are written, so that a list reads no events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.errors import UsageError

IMPORT = "import"
"""The origin of a conversation that was imported from a file."""
FORK = "fork"
"""The origin of a conversation that was forked from another one."""
FORKED, RUN_AGAIN = TITLE_ENDINGS = (" (fork)", " · again")
"""Appended to the title of a fork, and of a conversation that was run again."""


LAST = "last"
"""Means the conversation that was used last."""
EVENTS_OF_START = 2
"""The events with which every conversation begins: the instructions, and that the agent waits."""


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """One conversation in a list."""

    id: str
    title: str
    workspace: str
    model: str
    created_at: datetime
    updated_at: datetime
    event_count: int
    parent: str = ""
    """The conversation that delegated to this one; empty if the user started it."""
    parent_action: int | None = None
    repository: str = ""
    """The repository that is cloned into the workspace at the start: a URL, optionally with `#branch`."""
    first_line: str = ""
    """The first line of the user's first message, at most 200 characters."""
    state: str = ""
    """The agent's last state; empty before the first."""
    cost: float | None = 0.0
    """US dollars; None if a price was unknown."""
    size: int = 0
    """Bytes of its events, pictures and recordings."""
    origin: str = ""
    """`fork`, `import` or `again`; empty for a conversation that was started here."""
    origin_of: str = ""
    """The conversation or file that it comes from."""
    origin_event: int | None = None
    """The last event that it shares with its origin."""

    @property
    def is_unused(self) -> bool:
        """Whether nothing was said or done in it, and it has no title."""
        is_marked = self.title or self.origin or self.parent or self.first_line
        return not is_marked and self.event_count <= EVENTS_OF_START


@dataclass(frozen=True, slots=True)
class NewConversation:
    """The facts about a conversation that is stored as a whole."""

    id: str
    title: str
    workspace: str
    model: str
    origin: str
    origin_of: str
    origin_event: int | None = None
    created_at: datetime | None = None
    """None for the time at which it is stored."""
    repository: str = ""
    """As in ConversationInfo."""


@dataclass(frozen=True, slots=True)
class ConversationFilter:
    """A filter for conversations. Empty fields match everything."""

    text: str = ""
    """Words that must all be in the title, the first line, the folder or the origin. Ignores ASCII case."""
    workspace: str = ""
    model: str = ""
    states: frozenset[str] = frozenset()
    since: datetime | None = None
    """Earliest time of the last event; `until` is the latest."""
    until: datetime | None = None
    origin: str | None = None
    """As `ConversationInfo.origin`."""
    origins: frozenset[str] | None = None
    """Any of these origins."""
    parents: bool = False
    """Whether to leave out delegates."""


COLUMNS = (
    "c.id, c.title, c.workspace, c.model, c.created_at, c.updated_at, c.event_count, c.parent, c.parent_action,"
    " c.repository, c.first_line, c.state, c.cost, c.size, c.origin, c.origin_of, c.origin_event"
)
"""The columns of a ConversationInfo; `c` is the table."""


def info_from_row(row: Sequence[Any]) -> ConversationInfo:
    """The row of `COLUMNS` as a ConversationInfo."""
    values: list[Any] = [*row[:4], *map(datetime.fromisoformat, row[4:6]), *row[6:]]
    return ConversationInfo(*values)


def where_clauses(where: ConversationFilter) -> tuple[list[str], list[Any]]:
    """The conditions of a filter, and their values in order."""
    found: list[str] = []
    values: list[Any] = []
    for word in where.text.split():
        found.append(
            "instr(lower(c.title || char(10) || c.first_line || char(10) || c.workspace || char(10) || c.origin),"
            " lower(?)) > 0"
        )
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
    if where.origins is not None:
        found.append(f"c.origin IN ({', '.join('?' * len(where.origins))})")
        values.extend(sorted(where.origins))
    if where.parents:
        found.append("c.parent = ''")
    return found, values


def unknown_conversation(conversation_id: str) -> UsageError:
    """The error for an id that does not exist."""
    return UsageError(f"There is no conversation {conversation_id}. `handloom list` shows all conversations.")


Fetch = Callable[[str, Sequence[Any]], Awaitable[Sequence[Any]]]

ORDERS: Mapping[str, str] = {
    "updated": "c.updated_at DESC",
    "created": "c.created_at DESC",
    "title": "CASE WHEN c.title = '' THEN c.first_line ELSE c.title END COLLATE NOCASE",
    "cost": "c.cost DESC NULLS LAST",
    "size": "c.size DESC",
}
"""The sort orders of a list."""
_LISTED_IDS = 5
"""Ids that an error message lists if several match."""


class ConversationListing:
    """Queries over conversations. `fetch` returns all rows of a statement and raises StoreError."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def page(
        self, where: ConversationFilter, *, order: str = "updated", offset: int = 0, limit: int = 100
    ) -> list[ConversationInfo]:
        """`limit` conversations, starting at `offset`, in one of ORDERS."""
        conditions, values = where_clauses(where)
        rows = await self._fetch(
            f"SELECT {COLUMNS} FROM conversations c WHERE {' AND '.join(conditions) or 'true'}"  # noqa: S608
            f" ORDER BY {ORDERS[order]}, c.updated_at DESC, c.id DESC LIMIT ? OFFSET ?",
            [*values, limit, offset],
        )
        return [info_from_row(row) for row in rows]

    async def count(self, where: ConversationFilter) -> int:
        conditions, values = where_clauses(where)
        ((count,),) = await self._fetch(
            f"SELECT count(*) FROM conversations c WHERE {' AND '.join(conditions) or 'true'}",  # noqa: S608
            values,
        )
        return int(count)

    async def delegate_counts(self, ids: Sequence[str]) -> dict[str, int]:
        """How many conversations each of these delegated to, without zeros."""
        rows = await self._fetch(
            "SELECT parent, count(*) FROM conversations WHERE parent <> '' AND parent IN"  # noqa: S608
            f" ({', '.join('?' * len(ids))}) GROUP BY parent",
            list(ids),
        )
        return {str(parent): int(count) for parent, count in rows}

    async def models(self) -> list[str]:
        """The models of all conversations, sorted by name."""
        rows = await self._fetch("SELECT DISTINCT model FROM conversations WHERE model <> '' ORDER BY 1", ())
        return [str(model) for (model,) in rows]

    async def workspaces(self) -> list[str]:
        """The folders of all conversations, sorted by name."""
        rows = await self._fetch("SELECT DISTINCT workspace FROM conversations WHERE workspace <> '' ORDER BY 1", ())
        return [str(workspace) for (workspace,) in rows]

    async def origins(self) -> list[str]:
        """The origins of all conversations, sorted by name."""
        rows = await self._fetch("SELECT DISTINCT origin FROM conversations WHERE origin <> '' ORDER BY 1", ())
        return [str(origin) for (origin,) in rows]

    async def resolve(self, text: str) -> str:
        """The conversation id that a text means: the whole id, a unique beginning, or LAST. Raises UsageError."""
        if text == LAST:
            newest = await self._fetch(
                "SELECT id FROM conversations WHERE parent = '' ORDER BY updated_at DESC LIMIT ?", (1,)
            )
            if not newest:
                raise UsageError("There is no conversation yet.")
            return str(newest[0][0])
        rows = await self._fetch(
            "SELECT id FROM conversations WHERE ?1 <> '' AND id >= ?1 AND substr(id, 1, length(?1)) = ?1"
            " ORDER BY id LIMIT ?2",
            (text, _LISTED_IDS + 1),
        )
        ids = [str(id) for (id,) in rows]
        if text in ids or len(ids) == 1:
            return ids[0]
        if not ids:
            raise unknown_conversation(text)
        listed = ", ".join(ids[:_LISTED_IDS]) + (", ..." if len(ids) > _LISTED_IDS else "")
        raise UsageError(f"Several conversation ids begin with {text}: {listed}. Type more of the id.")

    async def owners(self, ids: Sequence[str]) -> dict[str, str]:
        """The process marks of those that have these conversations open, or had them open when they died."""
        rows = await self._fetch(
            "SELECT c.id, l.owner FROM conversations c JOIN leases l ON l.conversation = c.key"  # noqa: S608
            f" WHERE l.owner IS NOT NULL AND c.id IN ({', '.join('?' * len(ids))})",
            list(ids),
        )
        return {str(id): str(owner) for id, owner in rows}

    async def with_owner(self, conversation_id: str) -> tuple[ConversationInfo, str, int] | None:
        """A conversation, its owner as in `owners` or an empty text, and its key; None if it does not exist.

        The key changes when a copy of another agent's session is replaced.
        """
        rows = await self._fetch(
            f"SELECT {COLUMNS}, l.owner, c.key FROM conversations c"  # noqa: S608
            " LEFT JOIN leases l ON l.conversation = c.key WHERE c.id = ?",
            (conversation_id,),
        )
        return next(((info_from_row(row[:-2]), row[-2] or "", row[-1]) for row in rows), None)
