"""What a list of conversations is filtered by, each condition alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from core.store.conversations import ConversationFilter, clauses

AT = datetime(2026, 11, 22, 13, 0, tzinfo=timezone(timedelta(hours=1)))
AT_UTC = AT.astimezone(UTC).isoformat()


@pytest.mark.parametrize(
    ("where", "conditions", "values"),
    [
        (ConversationFilter(), [], []),
        (ConversationFilter(workspace="/w"), ["c.workspace = ?"], ["/w"]),
        (ConversationFilter(model="m"), ["c.model = ?"], ["m"]),
        (ConversationFilter(states=frozenset({"b", "a"})), ["c.state IN (?, ?)"], ["a", "b"]),
        (ConversationFilter(since=AT), ["c.updated_at >= ?"], [AT_UTC]),
        (ConversationFilter(until=AT), ["c.updated_at <= ?"], [AT_UTC]),
        (ConversationFilter(origin=""), ["c.origin = ?"], [""]),
        (ConversationFilter(parents=True), ["c.parent = ''"], []),
    ],
)
def test_a_filter_has_only_the_conditions_that_it_names(
    where: ConversationFilter, conditions: list[str], values: list[Any]
) -> None:
    assert clauses(where) == (conditions, values)
    text, words = clauses(ConversationFilter(text="one  two"))
    assert (len(text), words) == (2, ["one", "two"])
