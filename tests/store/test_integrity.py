"""What is said of a database that is damaged in one place, and that nothing is said of one that is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import StoreError, StoreVersionError
from core.store.integrity import Damage, Part, find_damage, refuse, without_database
from core.store.schema import VERSION
from tests.store.test_page_recovery import damage, write


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "handloom.db")
    return tmp_path / "handloom.db"


@pytest.mark.parametrize(("size", "is_none"), [(None, True), (0, True), (511, True), (512, False), (1000, False)])
def test_a_log_without_a_usable_database_is_reported(tmp_path: Path, size: int | None, is_none: bool) -> None:
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
            refuse(path)


def test_a_missing_database_is_intact_and_a_folder_in_its_place_is_not(tmp_path: Path) -> None:
    path = tmp_path / "handloom.db"
    assert find_damage(path) == []
    refuse(path)
    path.symlink_to("nowhere")
    assert find_damage(path) == [Damage(Part.FILE, "it is a broken link")]
    with pytest.raises(StoreError, match="is not a file"):
        refuse(path)
    path.unlink()
    path.touch()
    assert find_damage(path) == []
    refuse(path)
    path.unlink()
    path.mkdir()
    assert find_damage(path) == [Damage(Part.FILE, "it is not a file")]
    with pytest.raises(StoreError, match="is not a file"):
        refuse(path)
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


def test_the_number_of_reported_damages_is_bounded(home: Path) -> None:
    damage(home, *(f"INSERT INTO leases VALUES ({key}, 1, NULL)" for key in range(100, 130)))
    assert len(find_damage(home)) == 20


@pytest.mark.parametrize("ahead", [1, 100])
def test_a_newer_version_is_not_damage(home: Path, ahead: int) -> None:
    damage(home, f"PRAGMA user_version = {VERSION + ahead}")
    with pytest.raises(StoreVersionError, match=f"version {VERSION + ahead}; this one knows {VERSION}"):
        find_damage(home)


def test_a_file_that_is_not_a_database_is_reported(home: Path) -> None:
    home.write_bytes(b"something else " * 1000)
    (found,) = find_damage(home)
    assert found.part is Part.FILE
