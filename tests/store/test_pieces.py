"""Pieces: a conversation that grows on one machine is copied to another one."""

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
from core.store.pieces import PIECE_ROWS, Mark
from core.store.recordings import RecordedRow
from tests.store.conversations import conversation, said

START = Mark()


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[EventStore]:
    async with EventStore(tmp_path / "other") as made:
        yield made


async def copied(store: EventStore, other: EventStore, mark: Mark = START) -> Mark:
    while not (piece := await store.gained("c", mark)).is_empty:
        assert await other.add_piece(piece)
        mark = piece.mark
    return mark


async def test_copy_grows_with_the_original(store: EventStore, other: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said(str(n)) for n in range(PIECE_ROWS + 1)])
    mark = await copied(store, other)
    await store.append(lease, [said("last")])
    await store.record(lease, [RecordedRow(PIECE_ROWS, datetime(2026, 1, 1, tzinfo=UTC), zlib.compress(b""))])
    await copied(store, other, mark)
    assert await other.read("c") == await store.read("c")
    here, there = await store.conversation("c"), await other.conversation("c")
    assert replace(there, updated_at=here.updated_at) == here
    assert (await other.recorded("c")).end == (await store.recorded("c")).end


async def test_piece_that_comes_twice_changes_nothing(store: EventStore, other: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said("a"), said("b")])
    piece = await store.gained("c", START)
    await other.add_piece(piece)
    before = await other.conversation("c")
    await store.append(lease, [said("c")])
    await other.add_piece(await store.gained("c", START))
    await other.add_piece(piece)
    assert await other.read("c") == await store.read("c")
    assert (await other.conversation("c")).event_count == before.event_count + 1


async def test_conversation_that_is_no_copy_stays_as_it_is(store: EventStore, other: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said("a")])
    own = await conversation(other)
    await other.append(own, [said("mine")])
    await other.release(own)
    assert not await other.add_piece(await store.gained("c", START))
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
