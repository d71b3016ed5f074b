"""ConversationListing: pages, orders, counts, and beginnings of ids. On real SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.errors import UsageError
from core.events import Envelope, EventSource, MessageAction
from core.store.conversations import ORDERS, ConversationFilter, NewConversation
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


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with EventStore(tmp_path / "home") as store:
        yield store


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


async def test_a_count_is_of_what_matches(store: EventStore) -> None:
    for number in range(12):
        await put(store, f"c{number}", "even" if number % 2 == 0 else "odd")
    assert await store.listing.count(ALL) == 12
    assert await store.listing.count(ConversationFilter(text="EVEN")) == 6
    assert await store.listing.count(ConversationFilter(text="/work  hello odd")) == 6
    assert await store.listing.count(ConversationFilter(text="odd even")) == 0


async def test_delegates_are_counted_for_those_who_have_them(store: EventStore) -> None:
    for id, parent in (("a", ""), ("b", "a"), ("c", "a"), ("d", "")):
        await store.release(
            await store.create_conversation(id, title="", workspace="/", model=id, parent=parent, parent_action=1)
        )
    assert await store.listing.delegate_counts(["a", "b", "d"]) == {"a": 2}
    assert await store.listing.models() == ["a", "b", "c", "d"]


async def test_a_unique_beginning_of_an_id_is_enough(store: EventStore) -> None:
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
