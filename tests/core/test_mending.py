"""What a damaged index, a deleted conversation and a log without its database come to; whole ones are left alone."""

from __future__ import annotations

import os
import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import StoreError
from core.events import EventSource, MessageAction
from core.store.checkup import Part, look
from core.store.event_store import EventStore
from core.store.mending import mend
from core.store.sqlite import sqlite3
from core.store.writer import Draft

NOW = datetime(2026, 11, 22, 13, 0, tzinfo=UTC)
TEXTS = (
    "plain words", "", "été Ⅷ ₂ ½ naïve", "a\u0301b c\u0308\u0323d", "漢字かな交じり文 mixed", "under_score-dash/slash",
    "x" * 500, "👩‍👩‍👧 \u202e \ud800", "ﬁligree İstanbul ß", "0x1F 3.14 1e9", "один два", "กขค", "\u00ad\u200bsoft",
)  # fmt: skip


async def written(home: Path, *ids: str) -> None:
    """Conversations with all these texts, in the index."""
    async with EventStore(home) as store:
        for id in ids:
            lease = await store.create_conversation(id, title="t", workspace="/w", model="m")
            for text in TEXTS:
                await store.append(lease, [Draft(MessageAction(content=f"{text} {id}"), EventSource.USER)])
        await store.index()


def change(home: Path, *statements: str) -> None:
    connection = sqlite3.connect(home / "handloom.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_whatever_was_written_is_whole(tmp_path: Path) -> None:
    await written(tmp_path, "one", "two")
    assert look(tmp_path / "handloom.db") == []


@pytest.mark.parametrize(
    "damage",
    [
        ["UPDATE words_data SET block = randomblob(length(block)) WHERE id > 10"],
        ["DELETE FROM words_data"],
        ["PRAGMA writable_schema = ON", "DELETE FROM sqlite_master WHERE name = 'words'"],
        ["DROP TABLE words"],
        ["DROP TABLE words_data"],
    ],
)
async def test_a_search_makes_a_damaged_index_anew(damage: list[str], tmp_path: Path) -> None:
    await written(tmp_path, "one", "two")
    change(tmp_path, *damage)
    assert {trouble.part for trouble in look(tmp_path / "handloom.db")} == {Part.INDEX}
    async with EventStore(tmp_path) as store:
        await store.search("plain")
        assert await store.index() == 0
        assert [hit.conversation_id for hit in await store.search("plain")] == ["two", "one"]
    assert look(tmp_path / "handloom.db") == []


async def test_a_damaged_index_that_finds_nothing_is_seen_and_keeps_nobody_from_deleting(tmp_path: Path) -> None:
    await written(tmp_path, "one", "two")
    change(tmp_path, "UPDATE words_data SET block = zeroblob(20)")
    troubles = look(tmp_path / "handloom.db")
    assert {trouble.part for trouble in troubles} == {Part.INDEX}
    async with EventStore(tmp_path) as store:
        await store.delete_conversation("one")
        await store.index()
        assert [hit.conversation_id for hit in await store.search("plain")] == ["two"]
    change(tmp_path, "DELETE FROM words_idx")
    troubles = look(tmp_path / "handloom.db")
    assert mend(tmp_path, troubles, NOW).kept is None
    assert [file.name for file in tmp_path.glob("*.damaged-*")] == []
    async with EventStore(tmp_path) as store:
        await store.index()
        assert [hit.conversation_id for hit in await store.search("plain")] == ["two"]


async def test_a_snapshot_that_does_not_fit_its_log_goes(tmp_path: Path) -> None:
    await written(tmp_path, "one")
    change(tmp_path, "INSERT INTO snapshots VALUES (1, 999, 'x', '{}')")
    troubles = look(tmp_path / "handloom.db")
    assert [trouble.part for trouble in troubles] == [Part.SNAPSHOTS]
    assert mend(tmp_path, troubles, NOW).kept is None
    assert look(tmp_path / "handloom.db") == []


async def test_what_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    await written(tmp_path, "one", "two")
    async with EventStore(tmp_path) as store:
        await store.delete_conversation("one")
    change(tmp_path, "DELETE FROM events WHERE id = 5")
    done = mend(tmp_path, look(tmp_path / "handloom.db"), NOW)
    assert done.salvage is not None
    assert (done.salvage.conversations, done.salvage.events) == (1, len(TEXTS) - 1)
    assert [(lost.conversation_id, lost.last - lost.first) for lost in done.salvage.lost] == [("two", 0)]
    async with EventStore(tmp_path) as store:
        assert [info.id for info in await store.conversations()] == ["two"]


@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_log_without_its_database_is_not_thrown_away(is_gone: bool, tmp_path: Path) -> None:
    home, crashed = tmp_path / "home", tmp_path / "crashed"
    crashed.mkdir()
    async with EventStore(home) as store:
        lease = await store.create_conversation("one", title="t", workspace="/w", model="m")
        await store.append(lease, [Draft(MessageAction(content="kept"), EventSource.USER)])
        (crashed / "handloom.db-wal").write_bytes((home / "handloom.db-wal").read_bytes())
    if not is_gone:
        (crashed / "handloom.db").touch()
    log = (crashed / "handloom.db-wal").read_bytes()
    with pytest.raises(StoreError, match="handloom doctor --mend"):
        async with EventStore(crashed):
            pass
    assert (crashed / "handloom.db-wal").read_bytes() == log
    troubles = look(crashed / "handloom.db")
    assert (crashed / "handloom.db-wal").read_bytes() == log
    done = mend(crashed, troubles, NOW)
    assert done.salvage is not None
    assert done.salvage.events == 1
    async with EventStore(crashed) as store:
        (info,) = await store.conversations()
        assert [envelope.event for envelope in await store.read(info.id)] == [MessageAction(content="kept")]


async def test_a_switch_that_was_broken_off_is_ended_before_anybody_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(tmp_path, "one")
    change(tmp_path, "DELETE FROM events WHERE id = 5")
    damaged = (tmp_path / "handloom.db").read_bytes()
    rename = Path.rename

    def rename_once(self: Path, target: Path) -> Path:
        if self.name == "new.db":
            raise OSError(28, os.strerror(28))
        return rename(self, target)

    troubles = look(tmp_path / "handloom.db")
    monkeypatch.setattr(Path, "rename", rename_once)
    with pytest.raises(StoreError, match="No space left"):
        mend(tmp_path, troubles, NOW)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="was broken off"):
        async with EventStore(tmp_path):
            pass
    kept = mend(tmp_path, look(tmp_path / "handloom.db"), NOW).kept
    assert kept is not None
    assert kept.read_bytes() == damaged
    async with EventStore(tmp_path) as store:
        assert len(await store.read("one")) == len(TEXTS)


async def test_without_room_for_the_new_database_nothing_is_changed(tmp_path: Path) -> None:
    await written(tmp_path, "one")
    change(tmp_path, "DELETE FROM events WHERE id = 5")
    damaged, troubles = (tmp_path / "handloom.db").read_bytes(), look(tmp_path / "handloom.db")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))  # writing beyond it fails, as on a full disk
    try:
        with pytest.raises(StoreError, match="could not be mended"):
            mend(tmp_path, troubles, NOW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "handloom.db").read_bytes() == damaged
    assert not (tmp_path / "mending").exists()
    assert mend(tmp_path, troubles, NOW).salvage is not None
