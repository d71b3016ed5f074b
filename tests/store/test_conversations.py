"""Lists of conversations: filters, pages, orders, counts, and beginnings of ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from core.errors import UsageError
from core.events import Envelope, EventSource, MessageAction
from core.store.conversations import ORDERS, ConversationFilter, NewConversation, where_clauses
from core.store.event_store import EventStore

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ALL = ConversationFilter()


async def put(store: EventStore, id: str, title: str = "", *, minutes: int = 0, text: str = "hello") -> None:
    """A conversation of one message."""
    at = NOW + timedelta(minutes=minutes)
    said = Envelope(
        conversation_id=id, id=0, timestamp=at, source=EventSource.USER, cause=None, event=MessageAction(content=text)
    )
    await store.adopt(NewConversation(id, title, "/work", "demo", "import", "a.json", None, at), [said])


async def test_pages_follow_one_another_in_every_order(store: EventStore) -> None:
    for number in range(25):
        await put(store, f"c{number:02}", f"title {number * 7 % 25}", minutes=number * 11 % 25, text="x" * number)
    for order in ORDERS:
        whole = [info.id for info in await store.listing.page(ALL, order=order)]
        paged = [
            info.id
            for offset in range(0, 30, 10)
            for info in await store.listing.page(ALL, order=order, offset=offset, limit=10)
        ]
        assert paged == whole
        assert len(set(whole)) == 25
    newest = await store.listing.page(ALL, limit=1)
    assert newest[0].updated_at == NOW + timedelta(minutes=24)


async def test_count_includes_only_matches(store: EventStore) -> None:
    for number in range(12):
        await put(store, f"c{number}", "even" if number % 2 == 0 else "odd")
    assert await store.listing.count(ALL) == 12
    assert await store.listing.count(ConversationFilter(text="EVEN")) == 6
    assert await store.listing.count(ConversationFilter(text="/work  hello odd")) == 6
    assert await store.listing.count(ConversationFilter(text="odd even")) == 0


async def test_delegates_are_counted_by_parent(store: EventStore) -> None:
    for id, parent in (("a", ""), ("b", "a"), ("c", "a"), ("d", "")):
        await store.release(
            await store.create_conversation(id, title="", workspace="/", model=id, parent=parent, parent_action=1)
        )
    assert await store.listing.delegate_counts(["a", "b", "d"]) == {"a": 2}
    assert await store.listing.models() == ["a", "b", "c", "d"]


async def test_unique_prefix_of_an_id_is_enough(store: EventStore) -> None:
    for id in ("abc1", "abd2", "abc", "x%y"):
        await put(store, id)
    assert await store.listing.resolve("abd") == "abd2"
    assert await store.listing.resolve("abc") == "abc"
    assert await store.listing.resolve("x%") == "x%y"
    with pytest.raises(UsageError, match=r"begin with ab: abc, abc1, abd2\. Type more"):
        await store.listing.resolve("ab")
    for id in ("ab5", "ab6"):
        await put(store, id)
    with pytest.raises(UsageError, match=r"begin with ab: ab5, ab6, abc, abc1, abd2\. Type more"):
        await store.listing.resolve("ab")
    await put(store, "ab7")
    with pytest.raises(UsageError, match=r"begin with ab: ab5, ab6, ab7, abc, abc1, \.\.\.\. Type more"):
        await store.listing.resolve("ab")
    for nothing in ("", "%", "zz", "\N{PILE OF POO}"):
        with pytest.raises(UsageError, match="There is no conversation"):
            await store.listing.resolve(nothing)


async def test_owners_are_listed_for_open_conversations(store: EventStore) -> None:
    await put(store, "a")
    await put(store, "b")
    lease = await store.acquire("a")
    assert await store.listing.owners(["a", "b"]) == {"a": store.mark.name}
    await store.release(lease)
    assert await store.listing.owners(["a", "b"]) == {}


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
def test_filter_has_only_the_named_conditions(
    where: ConversationFilter, conditions: list[str], values: list[Any]
) -> None:
    assert where_clauses(where) == (conditions, values)
    text, words = where_clauses(ConversationFilter(text="one  two"))
    assert (len(text), words) == (2, ["one", "two"])
