"""Replication: a conversation that grows on one machine is copied to another one."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import StoreBusyError
from core.events import Envelope
from core.store.event_store import EventStore
from core.store.recordings import RecordedRow
from core.store.replication import CHANGE_ROWS, Cursor
from tests.store.conversations import conversation, said

START = Cursor()


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with EventStore(tmp_path / "other") as made:
        yield made


async def copied(store: EventStore, other: EventStore, cursor: Cursor = START) -> Cursor:
    while not (changes := await store.changes_after("c", cursor)).is_empty:
        assert await other.apply_changes(changes)
        cursor = changes.cursor
    return cursor


async def test_copy_grows_with_the_original(store: EventStore, other: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said(str(n)) for n in range(CHANGE_ROWS + 1)])
    cursor = await copied(store, other)
    await store.append(lease, [said("last")])
    await store.record(lease, [RecordedRow(CHANGE_ROWS, datetime(2026, 1, 1, tzinfo=UTC), zlib.compress(b""))])
    await copied(store, other, cursor)
    assert await other.read("c") == await store.read("c")
    here, there = await store.conversation("c"), await other.conversation("c")
    assert replace(there, updated_at=here.updated_at) == here
    assert (await other.recorded("c")).end == (await store.recorded("c")).end


async def test_changes_that_comes_twice_changes_nothing(store: EventStore, other: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said("a"), said("b")])
    changes = await store.changes_after("c", START)
    await other.apply_changes(changes)
    before = await other.conversation("c")
    await store.append(lease, [said("c")])
    await other.apply_changes(await store.changes_after("c", START))
    await other.apply_changes(changes)
    assert await other.read("c") == await store.read("c")
    assert (await other.conversation("c")).event_count == before.event_count + 1


async def test_conversation_that_is_no_copy_stays_as_it_is(store: EventStore, other: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said("a")])
    own = await conversation(other)
    await other.append(own, [said("mine")])
    await other.release(own)
    assert not await other.apply_changes(await store.changes_after("c", START))
    assert [texts(envelope) for envelope in await other.read("c")] == ["mine"]


async def test_copy_is_free_once_it_is_released(store: EventStore, other: EventStore, tmp_path: Path) -> None:
    lease = await conversation(store)
    await store.append(lease, [said("a")])
    await copied(store, other)
    async with EventStore(tmp_path / "other") as third:
        with pytest.raises(StoreBusyError):
            await third.acquire("c")
        await other.release_copy("c")
        assert (await third.acquire("c")).next_id == 1


def texts(envelope: Envelope) -> object:
    return getattr(envelope.event, "content", None)
