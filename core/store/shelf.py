"""Shelf: the conversations of a home as a list that is paged, sorted, counted and looked up by beginnings of ids.

Only reads, and only rows of conversations: what it costs does not follow their events. EventReader has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from core.errors import UsageError
from core.store import listing
from core.store.listing import ConversationFilter, ConversationInfo

Fetch = Callable[[str, Sequence[Any]], Awaitable[Sequence[Any]]]

ORDERS: Mapping[str, str] = {
    "updated": "c.updated_at DESC",
    "created": "c.created_at DESC",
    "title": "CASE WHEN c.title = '' THEN c.first_line ELSE c.title END COLLATE NOCASE",
    "cost": "c.cost DESC NULLS LAST",
    "size": "c.size DESC",
}
"""How a list can be sorted."""
_NAMED = 5
"""Ids that are told of where a beginning stands for many."""


class Shelf:
    """The conversations that `fetch` sees: it gives all rows of a statement, and raises StoreError."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def page(
        self, where: ConversationFilter, *, order: str = "updated", offset: int = 0, limit: int = 100
    ) -> list[ConversationInfo]:
        """`limit` conversations from the place `offset` on, in one of ORDERS."""
        conditions, values = listing.clauses(where)
        rows = await self._fetch(
            f"SELECT {listing.COLUMNS} FROM conversations c WHERE {' AND '.join(conditions) or 'true'}"  # noqa: S608
            f" ORDER BY {ORDERS[order]}, c.updated_at DESC, c.id DESC LIMIT ? OFFSET ?",
            [*values, limit, offset],
        )
        return [listing.info(row) for row in rows]

    async def count(self, where: ConversationFilter) -> int:
        """How many conversations match."""
        conditions, values = listing.clauses(where)
        ((count,),) = await self._fetch(
            f"SELECT count(*) FROM conversations c WHERE {' AND '.join(conditions) or 'true'}",  # noqa: S608
            values,
        )
        return int(count)

    async def delegate_counts(self, ids: Sequence[str]) -> dict[str, int]:
        """How many conversations each of these delegated to; those without are left out."""
        rows = await self._fetch(
            "SELECT parent, count(*) FROM conversations WHERE parent <> '' AND parent IN"  # noqa: S608
            f" ({', '.join('?' * len(ids))}) GROUP BY parent",
            list(ids),
        )
        return {str(parent): int(count) for parent, count in rows}

    async def models(self) -> list[str]:
        """The models that conversations have, by name."""
        rows = await self._fetch("SELECT DISTINCT model FROM conversations WHERE model <> '' ORDER BY 1", ())
        return [str(model) for (model,) in rows]

    async def resolve(self, text: str) -> str:
        """The id that a text stands for: the whole id, or a beginning that only one has. Raises UsageError."""
        rows = await self._fetch(
            "SELECT id FROM conversations WHERE ?1 <> '' AND id >= ?1 AND substr(id, 1, length(?1)) = ?1"
            " ORDER BY id LIMIT ?2",
            (text, _NAMED + 1),
        )
        ids = [str(id) for (id,) in rows]
        if text in ids or len(ids) == 1:
            return ids[0]
        if not ids:
            raise UsageError(f"There is no conversation {text}. `handloom list` shows those that there are.")
        named = ", ".join(ids[:_NAMED]) + (", ..." if len(ids) > _NAMED else "")
        raise UsageError(f"More than one conversation begins with {text}: {named}. Write more of the id.")

    async def owners(self, ids: Sequence[str]) -> dict[str, str]:
        """The marks of the processes that have these conversations open, or had them open when they died."""
        rows = await self._fetch(
            "SELECT c.id, l.owner FROM conversations c JOIN leases l ON l.conversation = c.key"  # noqa: S608
            f" WHERE l.owner IS NOT NULL AND c.id IN ({', '.join('?' * len(ids))})",
            list(ids),
        )
        return {str(id): str(owner) for id, owner in rows}

    async def standing(self, conversation_id: str) -> tuple[ConversationInfo, str] | None:
        """A conversation, and the mark of the process that has it as in `owners`, else empty; None where it is gone."""
        rows = await self._fetch(
            f"SELECT {listing.COLUMNS}, l.owner FROM conversations c"  # noqa: S608
            " LEFT JOIN leases l ON l.conversation = c.key WHERE c.id = ?",
            (conversation_id,),
        )
        return next(((listing.info(row[:-1]), row[-1] or "") for row in rows), None)
