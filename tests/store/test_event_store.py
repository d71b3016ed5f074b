"""Data of the store other than events, ownership of conversations, forks, and the search index."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from core.errors import StoreBusyError, StoreError, UsageError
from core.events import EventSource, MessageAction, TerminalOutput
from core.store import search_index
from core.store.blobs import extract_pictures
from core.store.conversations import NewConversation
from core.store.database import sqlite3
from core.store.event_store import EventStore
from core.store.locks import is_running
from core.store.reader import EventReader
from core.store.recordings import RecordedFrame, pack_frames
from core.store.writer import Draft, Lease, Spent
from tests.store.conversations import conversation, said
from tests.store.test_blobs import png, url
from tests.tapes import recording_of

AT = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)


async def test_newest_snapshot_is_kept_for_its_maker(store: EventStore) -> None:
    lease = await conversation(store)
    assert await store.snapshot("c", "me") is None
    await store.save_snapshot(lease, 3, "me", "old")
    await store.save_snapshot(lease, 7, "me", "new")
    assert await store.snapshot("c", "me") == (7, "new")
    assert await store.snapshot("c", "you") is None
    lease.token += 1
    await store.save_snapshot(lease, 9, "me", "of one who does not own it")
    assert await store.snapshot("c", "me") == (7, "new")


async def test_queued_appends_are_written_when_the_store_closes(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        lease = await conversation(store)
        waiting = [asyncio.create_task(store.append(lease, [said(str(number))])) for number in range(20)]
        await asyncio.sleep(0)
    assert [envelope.id for each in waiting for envelope in await each] == list(range(20))
    with pytest.raises(StoreError, match="closed"):
        await store.append(lease, [said("late")])
    async with EventStore(tmp_path) as store:
        assert len(await store.read("c")) == 20
        assert await store.listing.owners(["c"]) == {}


async def test_closed_store_does_not_own_conversations(tmp_path: Path) -> None:
    async with EventStore(tmp_path) as store:
        assert is_running(tmp_path / "locks", store.mark.name)
    assert not is_running(tmp_path / "locks", store.mark.name)
    assert not (tmp_path / "locks" / f"{store.mark.name}.lock").exists()


async def test_only_an_index_of_another_version_is_rebuilt(store: EventStore) -> None:
    lease = await conversation(store)
    await store.append(lease, [said("one"), said("two")])
    assert await store.index() == 0
    connection = sqlite3.connect(store.path, isolation_level=None)
    try:
        assert connection.execute("SELECT form FROM index_form").fetchall() == [(search_index.INDEX_VERSION,)]
        connection.execute("UPDATE indexed SET upto = 1")
        await store.append(lease, [said("three")])
        connection.execute("UPDATE indexed SET upto = 3")  # as if all were in it: of this form, it is believed
        assert await store.index() == 0
        assert await store.search("three") == []
        connection.execute("UPDATE index_form SET form = 99")
        assert await store.index() == 0
        assert connection.execute("SELECT form FROM index_form").fetchall() == [(search_index.INDEX_VERSION,)]
    finally:
        connection.close()
    assert [hit.event_id for hit in await store.search("three")] == [2]
    assert [hit.event_id for hit in await store.search("two")] == [1]


async def test_model_answers_are_listed_in_order(store: EventStore) -> None:
    lease = await conversation(store)
    answer = Draft(MessageAction(content="answer"), EventSource.AGENT, cause=0)
    await store.append(lease, [Draft(MessageAction(content="first"), EventSource.AGENT, cause=7), said("x"), answer])
    assert await store.answers("c") == [(0, 1), (2, 1)]
    assert await store.answers("c", after=0) == [(2, 1)]
    assert await store.answers("c", before=2) == [(0, 1)]


# -- whose a conversation is ---------------------------------------------------------------------------------------


async def test_new_conversation_is_listed_with_its_fields(store: EventStore) -> None:
    await conversation(store, "c", parent="p", parent_action=7, repository="r#b")
    (info,) = await store.conversations()
    assert (info.id, info.title, info.workspace, info.model) == ("c", "t", "/w", "m")
    assert (info.parent, info.parent_action, info.repository, info.event_count, info.cost) == ("p", 7, "r#b", 0, 0.0)
    assert info.created_at == info.updated_at


async def test_only_the_latest_owner_can_release_a_conversation(
    store: EventStore,
) -> None:
    first = await conversation(store, "c", "one")
    with pytest.raises(StoreBusyError, match=r"c is open in this workspace\. Close it there first"):
        await store.acquire("c")
    await store.release(first)
    assert await store.listing.owners(["c"]) == {}
    second = await store.acquire("c")
    assert (second.token, second.next_id, second.key) == (first.token + 1, 1, first.key)
    await store.release(first)
    assert await store.listing.owners(["c"]) == {"c": store.mark.name}
    await store.append(second, [said("two")])
    await store.release(second)
    assert (await store.acquire("c")).next_id == 2


async def test_title_and_model_can_be_changed_separately(store: EventStore) -> None:
    lease, other = await conversation(store), await conversation(store, "other")
    await store.update_conversation(lease, title="new")
    await store.update_conversation(lease, model="big")
    await store.rename(other.conversation_id, "renamed")
    named = {info.id: (info.title, info.model) for info in await store.conversations()}
    assert named == {"c": ("new", "big"), "other": ("renamed", "m")}
    with pytest.raises(UsageError, match="There is no conversation nobody"):
        await store.rename("nobody", "x")


async def test_spending_without_an_event_counts_for_the_day(tmp_path: Path) -> None:
    async with EventStore(tmp_path, clock=lambda: AT) as store:
        await store.add_spending(Spent(1, 0.5, 0, 10, 2.0))
        await store.add_spending(Spent(1, 0.25, 1, 5, 1.0))
        assert await store.spent_by_day() == {AT.date(): Spent(2, 0.75, 1, 15, 3.0)}


async def test_recording_that_cannot_be_stored_is_only_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with EventStore(tmp_path) as store:
        lease = await conversation(store)
    await store.record(lease, pack_frames([RecordedFrame(-1, AT, TerminalOutput(0, b"late"))]))
    assert "conversation c: The recording could not be stored: the event store is closed" in caplog.text


async def test_other_processes_are_notified_of_every_commit(store: EventStore) -> None:
    """Through the modification time of this process's file."""
    (file,) = [file for file in (store.home / "locks").iterdir() if file.name == f"{store.mark.name}.lock"]
    lease = await conversation(store)
    works: list[Callable[[], Awaitable[object]]] = [
        lambda: store.append(lease, [said("x")]),
        lambda: store.rename("c", "new"),
        lambda: store.release(lease),
    ]
    for work in works:
        os.utime(file, (0, 0))
        await work()
        assert file.stat().st_mtime > 0


# -- whole conversations -------------------------------------------------------------------------------------------


def new(id: str, **more: Any) -> NewConversation:
    return NewConversation(id, "n", "/n", "big", "fork", "c", **more)


async def test_fork_copies_events_pictures_and_recordings(store: EventStore) -> None:
    """More events than are read at once, and only recordings from before the last event."""
    lease = await conversation(store, "c", *[f"text {number}" for number in range(1001)])
    picture, blobs = extract_pictures(MessageAction(content="look", image_urls=[url(png())]))
    await store.append(lease, [Draft(picture, EventSource.USER, blobs=blobs)])
    frames = [RecordedFrame(after, AT, TerminalOutput(0, str(after).encode())) for after in (-1, 499, 500, 501)]
    await store.record(lease, pack_frames(frames))
    texts = [envelope.event for envelope in await store.read("c")]
    for upto, then in ((500, ["a", "b"]), (0, []), (1001, ["a"]), (-1, ["a"])):
        id = f"upto {upto}"
        made = new(id, origin_event=upto, created_at=AT.astimezone(timezone(timedelta(hours=5))), repository="r")
        assert await store.fork("c", upto, made, [said(text) for text in then]) == id
        assert await store.read_json(id, before=upto + 1) == await store.read_json("c", before=upto + 1)
        assert [(e.id, e.event) for e in await store.read(id)] == list(
            enumerate([*texts[: upto + 1], *(MessageAction(content=text) for text in then)])
        )
        assert await recording_of(store, id) == [frame for frame in frames if frame.after < upto]
        assert (await store.blob(id, blobs[0].ref) is None) is (upto < 0)
        (info,) = await store.conversations(conversation_id=id)
        assert (info.created_at, info.repository, info.origin_event) == (AT, "r", upto)
        assert info.first_line == ("text 0" if upto >= 0 else "")
        assert await store.listing.owners([id]) == {}
        assert (await store.acquire(id)).next_id == upto + 1 + len(then)
    for upto in (1002, 5000):
        with pytest.raises(UsageError, match=f"Conversation c has no event {upto}"):
            await store.fork("c", upto, new("too far"))
    with pytest.raises(UsageError, match="There is a conversation upto 0 already"):
        await store.fork("c", 0, new("upto 0"))
    assert await store.count_conversations() == 5


async def test_stored_conversation_is_created_now_by_default(tmp_path: Path) -> None:
    async with EventStore(tmp_path, clock=lambda: AT) as store:
        _, blobs = extract_pictures(MessageAction(content="see", image_urls=[url(png())]))
        await store.adopt(new("n"), [], blobs=blobs)
        assert [await store.blob("n", blob.ref) for blob in blobs] == list(blobs) != []
        (info,) = await store.conversations()
        assert (info.created_at, info.updated_at, info.cost) == (AT, AT, 0.0)
        await store.append(await store.acquire("n"), [said("on")])


async def test_deleting_a_conversation_deletes_its_delegates_or_nothing(store: EventStore, tmp_path: Path) -> None:
    await conversation(store, "a", "root")
    await conversation(store, "b", "child", parent="a")
    await conversation(store, "c", "grandchild", parent="b")
    await conversation(store, "d", "other")
    for info in await store.conversations():
        (lease,) = [Lease(info.id, key, 1, 0) for (key,) in await store._fetch(
            "SELECT key FROM conversations WHERE id = ?", (info.id,))]  # fmt: skip
        await store.release(lease)
    await store.index()
    async with EventStore(tmp_path / "home") as other:
        await other.acquire("c")
        with pytest.raises(StoreBusyError, match="c is open in another Handloom"):
            await store.delete_conversation("a")
        assert await store.count_conversations() == 4
        assert len(await store.search("root")) == len(await store.search("child")) == 1
    await store.delete_conversation("a")
    assert [info.id for info in await store.conversations()] == ["d"]
    assert [hit.conversation_id for word in ("root", "child", "grandchild", "other")
            for hit in await store.search(word)] == ["d"]  # fmt: skip
    with pytest.raises(UsageError, match="no conversation a"):
        await store.delete_conversation("a")
    assert (store.path.with_name("handloom.db-wal")).stat().st_size == 0, "what was deleted is not in the log either"


# -- the index -----------------------------------------------------------------------------------------------------


def vocabulary(path: Path) -> list[str]:
    """The content of the index: words and runs of characters."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.of_words USING fts5vocab (main, words, row)")
        connection.execute("CREATE VIRTUAL TABLE temp.of_characters USING fts5vocab (main, characters, row)")
        return [
            term
            for table in ("of_words", "of_characters")
            for (term,) in connection.execute(f"SELECT term FROM {table} ORDER BY term")
        ]


@pytest.mark.parametrize(("indexed", "later"), [(3, 0), (3, 2), (0, 3), (500, 1), (1100, 0), (501, 700)])
async def test_deleted_conversation_is_removed_from_the_index(store: EventStore, indexed: int, later: int) -> None:
    """Also if only some of its events were indexed."""
    kept = await conversation(store, "kept", "stays 漢字")
    lease = await conversation(store, "c")
    if indexed:
        await store.append(lease, [said(f"word{number} 仮名") for number in range(indexed)])
    assert await store.index() == 0
    assert len(vocabulary(store.path)) == 4 + (indexed + 3 if indexed else 0)
    if later:
        await store.append(lease, [said(f"late{number}") for number in range(later)])
    assert await store.count_unindexed() == later
    await store.release(lease)
    await store.delete_conversation("c")
    assert vocabulary(store.path) == ["stays", "漢字", "字\u3000\u3000", "漢字\u3000"]
    await store.append(kept, [said("more")])
    assert (await store.count_unindexed(), await store.index()) == (1, 0)


async def test_index_is_built_in_rounds_that_can_be_stopped(store: EventStore) -> None:
    await conversation(store, "long", *["common"] * 1100)
    await conversation(store, "short", *["common"] * 3)
    asked: list[int] = []

    def is_enough() -> bool:
        with closing(sqlite3.connect(store.path)) as connection:
            asked.append(connection.execute("SELECT coalesce(sum(upto), 0) FROM indexed").fetchone()[0])
        return len(asked) > 2

    assert await store.index(lambda: True) == 1103
    assert await store.index(is_enough) == 100
    assert asked == [0, 503, 1003]
    assert await store.index() == await store.count_unindexed() == 0
    assert len(await store.search("common", limit=9999)) == 1103


@pytest.mark.parametrize("change", [
    "DELETE FROM conversations", "INSERT INTO indexed VALUES (1, 1)",
    "INSERT INTO indexed VALUES (1, 2)",
])  # fmt: skip
async def test_events_that_another_process_deleted_or_indexed_are_skipped(
    store: EventStore, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of the events and the writing of their words."""
    await conversation(store, "c", "one", "two")
    text_of, changes = search_index.text_of, [change]

    def interrupted(body: str) -> str:
        if changes:
            with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
                other.execute("PRAGMA foreign_keys = ON")
                other.execute(changes.pop())
        return text_of(body)

    monkeypatch.setattr(search_index, "text_of", interrupted)
    assert await store.index(lambda: not changes) in (0, 1)
    assert vocabulary(store.path) == []


async def test_reader_does_not_rebuild_a_damaged_index(store: EventStore) -> None:
    await conversation(store, "c", "word")
    await store.index()
    async with EventReader(store.home) as reader:
        with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
            connection.execute("DROP TABLE spending")
            connection.execute("DROP TABLE words")
        with pytest.raises(StoreError, match="words"):
            await reader.search("word")
        with pytest.raises(StoreError, match="spending"):
            await store.add_spending(Spent(1))
        assert await store.search("word") == []
        assert await store.index() == 0
        assert len(await reader.search("word")) == len(await store.search("word")) == 1
