"""Damage to a database is found and repaired, and an intact database is left alone."""

from __future__ import annotations

import os
import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import StoreBusyError, StoreError, StoreVersionError
from core.events import EventSource, MessageAction
from core.store.database import VERSION, check_can_open, sqlite3, without_database
from core.store.event_store import EventStore
from core.store.locks import FileLock
from core.store.repair import Damage, Part, database_path, find_damage, lock_holders, repair
from core.store.writer import Draft
from tests.store.test_page_recovery import damage, write

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


async def test_intact_database_has_no_damage(tmp_path: Path) -> None:
    await written(tmp_path, "one", "two")
    assert find_damage(tmp_path / "handloom.db") == []


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
async def test_search_rebuilds_a_damaged_index(damage: list[str], tmp_path: Path) -> None:
    await written(tmp_path, "one", "two")
    change(tmp_path, *damage)
    assert {damage.part for damage in find_damage(tmp_path / "handloom.db")} == {Part.INDEX}
    async with EventStore(tmp_path) as store:
        await store.search("plain")
        assert await store.index() == 0
        assert [hit.conversation_id for hit in await store.search("plain")] == ["two", "one"]
    assert find_damage(tmp_path / "handloom.db") == []


async def test_damaged_index_is_reported_and_does_not_prevent_deleting(tmp_path: Path) -> None:
    await written(tmp_path, "one", "two")
    change(tmp_path, "UPDATE words_data SET block = zeroblob(20)")
    damages = find_damage(tmp_path / "handloom.db")
    assert {damage.part for damage in damages} == {Part.INDEX}
    async with EventStore(tmp_path) as store:
        await store.delete_conversation("one")
        await store.index()
        assert [hit.conversation_id for hit in await store.search("plain")] == ["two"]
    change(tmp_path, "UPDATE words_data SET block = zeroblob(20)")
    damages = find_damage(tmp_path / "handloom.db")
    assert {damage.part for damage in damages} == {Part.INDEX}
    assert repair(tmp_path, damages, NOW).saved_as is None
    assert find_damage(tmp_path / "handloom.db") == []
    assert [file.name for file in tmp_path.glob("*.damaged-*")] == []
    async with EventStore(tmp_path) as store:
        await store.index()
        assert [hit.conversation_id for hit in await store.search("plain")] == ["two"]


async def test_snapshot_that_does_not_match_its_log_is_deleted(tmp_path: Path) -> None:
    await written(tmp_path, "one")
    change(tmp_path, "INSERT INTO snapshots VALUES (1, 999, 'x', 'text that is deleted')")
    damages = find_damage(tmp_path / "handloom.db")
    assert [damage.part for damage in damages] == [Part.SNAPSHOTS]
    assert repair(tmp_path, damages, NOW).saved_as is None
    assert find_damage(tmp_path / "handloom.db") == []
    assert b"text that is deleted" not in b"".join(file.read_bytes() for file in tmp_path.glob("handloom.db*"))


async def test_deleted_data_is_not_recovered(tmp_path: Path) -> None:
    await written(tmp_path, "one", "two")
    async with EventStore(tmp_path) as store:
        await store.delete_conversation("one")
    change(tmp_path, "DELETE FROM events WHERE id = 5")
    done = repair(tmp_path, find_damage(tmp_path / "handloom.db"), NOW)
    assert done.recovered is not None
    assert (done.recovered.conversations, done.recovered.events) == (1, len(TEXTS) - 1)
    assert [(lost.conversation_id, lost.last - lost.first) for lost in done.recovered.lost] == [("two", 0)]
    async with EventStore(tmp_path) as store:
        assert [info.id for info in await store.conversations()] == ["two"]


@pytest.mark.parametrize("is_gone", [True, False])
async def test_write_ahead_log_without_its_database_is_recovered(is_gone: bool, tmp_path: Path) -> None:
    home, crashed = tmp_path / "home", tmp_path / "crashed"
    crashed.mkdir()
    async with EventStore(home) as store:
        lease = await store.create_conversation("one", title="t", workspace="/w", model="m")
        await store.append(lease, [Draft(MessageAction(content="kept"), EventSource.USER)])
        (crashed / "handloom.db-wal").write_bytes((home / "handloom.db-wal").read_bytes())
    if not is_gone:
        (crashed / "handloom.db").touch()
    log = (crashed / "handloom.db-wal").read_bytes()
    with pytest.raises(StoreError, match="handloom doctor --repair"):
        async with EventStore(crashed):
            pass
    assert (crashed / "handloom.db-wal").read_bytes() == log
    damages = find_damage(crashed / "handloom.db")
    assert (crashed / "handloom.db-wal").read_bytes() == log
    done = repair(crashed, damages, NOW)
    assert done.recovered is not None
    assert done.recovered.events == 1
    async with EventStore(crashed) as store:
        (info,) = await store.conversations()
        assert [envelope.event for envelope in await store.read(info.id)] == [MessageAction(content="kept")]


async def test_interrupted_replacement_must_be_finished_before_opening(
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

    damages = find_damage(tmp_path / "handloom.db")
    monkeypatch.setattr(Path, "rename", rename_once)
    with pytest.raises(StoreError, match="No space left"):
        repair(tmp_path, damages, NOW)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="was interrupted"):
        async with EventStore(tmp_path):
            pass
    kept = repair(tmp_path, find_damage(tmp_path / "handloom.db"), NOW).saved_as
    assert kept is not None
    assert kept.read_bytes() == damaged
    async with EventStore(tmp_path) as store:
        assert len(await store.read("one")) == len(TEXTS)


async def test_full_disk_leaves_the_damaged_database_unchanged(tmp_path: Path) -> None:
    await written(tmp_path, "one")
    change(tmp_path, "DELETE FROM events WHERE id = 5")
    damaged, damages = (tmp_path / "handloom.db").read_bytes(), find_damage(tmp_path / "handloom.db")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))  # writing beyond it fails, as on a full disk
    try:
        with pytest.raises(StoreError, match="could not be repaired"):
            repair(tmp_path, damages, NOW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "handloom.db").read_bytes() == damaged
    assert not (tmp_path / "mending").exists()
    assert repair(tmp_path, damages, NOW).recovered is not None


# -- repairs -----------------------------------------------------------------------------------------------------------


def damaged(home: Path) -> Path:
    """A database that is something else."""
    file = home / "handloom.db"
    file.write_bytes(b"something else " * 1000)
    return file


FILE = [Damage(Part.FILE, "it is something else")]


def test_damaged_files_are_saved_unchanged_under_an_unused_name(tmp_path: Path) -> None:
    for number, name in enumerate(["", "2", "3"]):
        file, log = damaged(tmp_path), tmp_path / "handloom.db-wal"
        log.write_bytes(b"log %d" % number)
        (tmp_path / "handloom.db-shm").write_bytes(b"shared")
        kept = repair(tmp_path, FILE, NOW).saved_as
        assert kept == tmp_path / f"handloom.db.damaged-20261122-130000{name}"
        assert kept.read_bytes() == b"something else " * 1000
        assert Path(f"{kept}-wal").read_bytes() == b"log %d" % number
        assert find_damage(file) == []
        assert file.stat().st_mode & 0o777 == 0o600
        assert not log.exists()
        assert not (tmp_path / "handloom.db-shm").exists()
    left = {path.name for path in tmp_path.iterdir()} - {"locks", "handloom.db"}
    assert len(left) == 6
    assert all(name.startswith("handloom.db.damaged-") for name in left)


def test_name_with_an_existing_log_counts_as_used(tmp_path: Path) -> None:
    damaged(tmp_path)
    (tmp_path / "handloom.db.damaged-20261122-130000-wal").touch()
    assert repair(tmp_path, FILE, NOW).saved_as == tmp_path / "handloom.db.damaged-20261122-1300002"


def test_open_home_is_not_repaired(tmp_path: Path) -> None:
    file = damaged(tmp_path)
    (tmp_path / "locks").mkdir()
    lock = FileLock(tmp_path / "locks" / "share.lock")
    assert lock.try_acquire(shared=True)
    assert lock_holders(lock.path) == [os.getpid()]
    with pytest.raises(StoreBusyError, match=rf"Another Handloom \(process {os.getpid()}\) has .* open"):
        repair(tmp_path, FILE, NOW)
    assert file.read_bytes() == b"something else " * 1000
    lock.release()
    assert lock_holders(lock.path) == lock_holders(tmp_path / "not there") == []
    assert repair(tmp_path, FILE, NOW).saved_as is not None
    assert lock.try_acquire(), "whoever mended lets others in"
    lock.release()


def test_home_without_a_lock_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("in the way")
    with pytest.raises(StoreError, match=r"locks cannot be used: File exists\. Make it writable"):
        repair(tmp_path, FILE, NOW)


def test_target_of_a_linked_database_is_repaired(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    link = home / "handloom.db"
    assert database_path(home) == link
    link.symlink_to(elsewhere / "handloom.db")
    assert database_path(home) == link, "it leads nowhere"
    damaged(home)
    assert database_path(home) == elsewhere / "handloom.db"
    kept = repair(home, FILE, NOW).saved_as
    assert kept is not None
    assert kept.parent == elsewhere
    assert link.is_symlink()
    assert find_damage(link) == []


def test_folder_in_place_of_the_database_is_moved_away(tmp_path: Path) -> None:
    (tmp_path / "handloom.db").mkdir()
    (tmp_path / "mending").mkdir()
    (tmp_path / "mending" / "of one that was killed").touch()
    done = repair(tmp_path, find_damage(tmp_path / "handloom.db"), NOW)
    assert done.saved_as is not None
    assert done.saved_as.is_dir()
    assert done.recovered is not None
    assert done.recovered.conversations == 0
    assert not (tmp_path / "mending").exists()


def test_database_whose_index_cannot_be_rebuilt_is_replaced(tmp_path: Path) -> None:
    damaged(tmp_path)
    assert repair(tmp_path, [Damage(Part.INDEX, "it looks like one")], NOW).saved_as is not None
    assert find_damage(tmp_path / "handloom.db") == []


def test_each_step_is_synced_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure has the same result as a kill: files are synced before they are renamed, then folders."""
    home = tmp_path / "home"
    home.mkdir()
    damaged(home)
    steps: list[str] = []
    fsync, rename, unlink = os.fsync, Path.rename, Path.unlink

    def synced(fd: int) -> None:
        steps.append(f"sync {Path(os.readlink(f'/dev/fd/{fd}')).name}")
        fsync(fd)

    def renamed(self: Path, target: Path) -> Path:
        steps.append(f"rename {self.name}")
        return rename(self, target)

    def unlinked(self: Path, missing_ok: bool = False) -> None:
        steps.append(f"remove {self.name}")
        unlink(self, missing_ok)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(Path, "unlink", unlinked)
    repair(home, FILE, NOW)
    assert steps == [
        "remove found.db", "sync new.db", "sync handloom.db.mending", "sync mending",
        "rename handloom.db.mending", "sync home", "rename handloom.db", "remove handloom.db-shm", "sync home",
        "rename new.db", "sync home", "remove handloom.db.mending", "sync home",
    ]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "handloom.db")
    return tmp_path / "handloom.db"


@pytest.mark.parametrize(("size", "is_none"), [(None, True), (0, True), (511, True), (512, False), (1000, False)])
def test_log_without_a_usable_database_is_reported(tmp_path: Path, size: int | None, is_none: bool) -> None:
    path = tmp_path / "handloom.db"
    if size is not None:
        path.write_bytes(b"x" * size)
    assert not without_database(path)
    (tmp_path / "handloom.db-wal").touch()
    assert not without_database(path)
    (tmp_path / "handloom.db-wal").write_bytes(b"x")
    assert without_database(path) is is_none
    if is_none:
        assert find_damage(path) == [
            Damage(Part.FILE, "its write-ahead log exists, but the database is empty or missing")
        ]
        with pytest.raises(StoreError, match="empty or missing"):
            check_can_open(path)


def test_missing_database_is_intact_and_a_folder_in_its_place_is_not(tmp_path: Path) -> None:
    path = tmp_path / "handloom.db"
    assert find_damage(path) == []
    check_can_open(path)
    path.symlink_to("nowhere")
    assert find_damage(path) == [Damage(Part.FILE, "it is a broken link")]
    with pytest.raises(StoreError, match="is not a file"):
        check_can_open(path)
    path.unlink()
    path.touch()
    assert find_damage(path) == []
    check_can_open(path)
    path.unlink()
    path.mkdir()
    assert find_damage(path) == [Damage(Part.FILE, "it is not a file")]
    with pytest.raises(StoreError, match="is not a file"):
        check_can_open(path)
    (tmp_path / "handloom.db.mending").touch()
    assert find_damage(path) == [Damage(Part.SWITCH, "a repair was interrupted")]


EVENTS_OF_4 = "DELETE FROM events WHERE conversation = 4"


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["PRAGMA synchronous = OFF"], []),
        (["DELETE FROM events WHERE conversation = 3 AND id IN (1, 2)"],
         [(Part.FILE, "the events 1 to 2 of conversation 3 are missing")]),
        (["DELETE FROM events WHERE conversation = 4 AND id = 0"],
         [(Part.FILE, "the events 0 to 0 of conversation 4 are missing")]),
        (["DELETE FROM events WHERE conversation = 4 AND id = 4"],
         [(Part.FILE, "conversation 4 has a wrong event count")]),
        ([EVENTS_OF_4], [(Part.FILE, "conversation 4 has a wrong event count")]),
        (["UPDATE conversations SET event_count = 6 WHERE key = 3"],
         [(Part.FILE, "conversation 3 has a wrong event count")]),
        (["UPDATE events SET body = '{}' WHERE conversation = 3 AND id = 2"],
         [(Part.FILE, "the event 2 of conversation 3 cannot be read")]),
        (["UPDATE events SET cause = 99 WHERE conversation = 3 AND id = 2"],
         [(Part.FILE, "the event 2 of conversation 3 cannot be read")]),
        (["UPDATE blobs SET data = x'00'"], [(Part.FILE, "the picture DIGEST of conversation 3 is damaged")]),
        (["UPDATE recordings SET at = 'never'"],
         [(Part.FILE, "the recording of conversation 3 after event 3 is damaged")]),
        (["DELETE FROM conversations WHERE key = 4"],
         [(Part.FILE, "row 4 of leases has no row in conversations"),
          *[(Part.FILE, f"row {number} of events has no row in conversations") for number in range(6, 11)]]),
        (["INSERT INTO indexed VALUES (4, 6)"],
         [(Part.INDEX, "the search index has more events of conversation 4 than exist")]),
        (["INSERT INTO indexed VALUES (4, 5)"],
         [(Part.INDEX, f"the search index does not find event {number} of conversation 4")
          for number in range(5)]),
        (["INSERT INTO snapshots VALUES (4, 5, 'me', '{}')"],
         [(Part.SNAPSHOTS, "the snapshot of conversation 4 does not match its events")]),
        (["INSERT INTO snapshots VALUES (4, 4, 'me', '{}')"], []),
        (["INSERT INTO snapshots VALUES (4, 4, 'me', '{')"],
         [(Part.SNAPSHOTS, "the snapshot of conversation 4 does not match its events")]),
        ([f"PRAGMA user_version = {VERSION - 1}"],
         [(Part.FILE, f"it claims version {VERSION - 1}, but its tables differ")]),
        ([f"PRAGMA user_version = {VERSION + 101}"],
         [(Part.FILE, f"it claims version {VERSION + 101}, but its tables differ")]),
    ],
)  # fmt: skip
def test_each_kind_of_damage_is_reported(home: Path, statements: list[str], told: list[tuple[Part, str]]) -> None:
    damage(home, *statements)
    before = home.read_bytes()
    found = [(found.part, found.what) for found in find_damage(home)]
    for part, what in told:
        *_, last = what.split("DIGEST")
        assert any(each.endswith(last) and is_of == part for is_of, each in found), what
    assert len(found) == len(told)
    assert home.read_bytes() == before


def test_number_of_reported_damages_is_limited(home: Path) -> None:
    damage(home, *(f"INSERT INTO leases VALUES ({key}, 1, NULL)" for key in range(100, 130)))
    assert len(find_damage(home)) == 20


@pytest.mark.parametrize("ahead", [1, 100])
def test_newer_version_is_not_damage(home: Path, ahead: int) -> None:
    damage(home, f"PRAGMA user_version = {VERSION + ahead}")
    with pytest.raises(StoreVersionError, match=f"version {VERSION + ahead}; this one knows {VERSION}"):
        find_damage(home)


def test_file_that_is_not_a_database_is_reported(home: Path) -> None:
    home.write_bytes(b"something else " * 1000)
    (found,) = find_damage(home)
    assert found.part is Part.FILE
