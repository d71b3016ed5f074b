"""What the store keeps beside events: snapshots, the form of the index, and what waits when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import StoreError
from core.events import EventSource, MessageAction
from core.store import index
from core.store.event_store import EventStore
from core.store.sqlite import sqlite3
from core.store.writer import Draft
from tests.conftest import connection_threads


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with EventStore(tmp_path / "home") as opened:
        yield opened


def said(text: str) -> Draft:
    return Draft(MessageAction(content=text), EventSource.USER)


async def test_the_newest_snapshot_is_kept_for_who_made_it(store: EventStore) -> None:
    lease = await store.create_conversation("c", title="", workspace="/w", model="m")
    assert await store.snapshot("c", "me") is None
    await store.keep_snapshot(lease, 3, "me", "old")
    await store.keep_snapshot(lease, 7, "me", "new")
    assert await store.snapshot("c", "me") == (7, "new")
    assert await store.snapshot("c", "you") is None
    lease.token += 1
    await store.keep_snapshot(lease, 9, "me", "of one who does not own it")
    assert await store.snapshot("c", "me") == (7, "new")


async def test_what_waits_when_the_store_is_closed_is_written(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        lease = await store.create_conversation("c", title="", workspace="/w", model="m")
        waiting = [asyncio.create_task(store.append(lease, [said(str(number))])) for number in range(20)]
        await asyncio.sleep(0)
    assert [envelope.id for each in waiting for envelope in await each] == list(range(20))
    with pytest.raises(StoreError, match="closed"):
        await store.append(lease, [said("late")])
    async with EventStore(tmp_path) as store:
        assert len(await store.read("c")) == 20
        assert await store.shelf.owners(["c"]) == {}


async def test_who_writes_after_the_store_is_closed_is_refused_and_opens_nothing(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        lease = await store.create_conversation("c", title="", workspace="/w", model="m")
    before = connection_threads()
    with pytest.raises(StoreError, match="closed"):
        await store.keep_snapshot(lease, 3, "me", "late")
    assert connection_threads() <= before


async def test_an_index_of_another_form_is_made_anew_and_one_of_this_form_is_left(store: EventStore) -> None:
    lease = await store.create_conversation("c", title="", workspace="/w", model="m")
    await store.append(lease, [said("one"), said("two")])
    assert await store.index() == 0
    connection = sqlite3.connect(store.path, isolation_level=None)
    try:
        assert connection.execute("SELECT form FROM index_form").fetchall() == [(index.FORM,)]
        connection.execute("UPDATE indexed SET upto = 1")
        await store.append(lease, [said("three")])
        connection.execute("UPDATE indexed SET upto = 3")  # as if all were in it: of this form, it is believed
        assert await store.index() == 0
        assert await store.search("three") == []
        connection.execute("UPDATE index_form SET form = 99")
        assert await store.index() == 0
        assert connection.execute("SELECT form FROM index_form").fetchall() == [(index.FORM,)]
    finally:
        connection.close()
    assert [hit.event_id for hit in await store.search("three")] == [2]
    assert [hit.event_id for hit in await store.search("two")] == [1]


async def test_answers_are_told_from_the_first_event_to_the_last(store: EventStore) -> None:
    lease = await store.create_conversation("c", title="", workspace="/w", model="m")
    answer = Draft(MessageAction(content="answer"), EventSource.AGENT, cause=0)
    await store.append(lease, [Draft(MessageAction(content="first"), EventSource.AGENT, cause=7), said("x"), answer])
    assert await store.answers("c") == [(0, 1), (2, 1)]
    assert await store.answers("c", after=0) == [(2, 1)]
    assert await store.answers("c", before=2) == [(0, 1)]
