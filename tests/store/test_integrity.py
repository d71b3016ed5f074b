"""What is said of a database that is damaged in one place, and that nothing is said of one that is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import StoreError, StoreVersionError
from core.store.integrity import Part, Trouble, look, refuse, without_database
from core.store.schema import VERSION
from tests.store.test_page_recovery import damage, write


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write(tmp_path / "handloom.db")
    return tmp_path / "handloom.db"


@pytest.mark.parametrize(("size", "is_none"), [(None, True), (0, True), (511, True), (512, False), (1000, False)])
def test_a_log_beside_a_file_that_has_no_page_is_seen(tmp_path: Path, size: int | None, is_none: bool) -> None:
    path = tmp_path / "handloom.db"
    if size is not None:
        path.write_bytes(b"x" * size)
    assert not without_database(path)
    (tmp_path / "handloom.db-wal").touch()
    assert not without_database(path)
    (tmp_path / "handloom.db-wal").write_bytes(b"x")
    assert without_database(path) is is_none
    if is_none:
        assert look(path) == [
            Trouble(Part.FILE, "its write-ahead log is there, and the database itself is empty or gone")
        ]
        with pytest.raises(StoreError, match="empty or gone"):
            refuse(path)


def test_what_is_no_file_is_told_and_what_is_not_there_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "handloom.db"
    assert look(path) == []
    refuse(path)
    path.symlink_to("nowhere")
    assert look(path) == [Trouble(Part.FILE, "it is a link that leads nowhere")]
    with pytest.raises(StoreError, match="is no file"):
        refuse(path)
    path.unlink()
    path.touch()
    assert look(path) == []
    refuse(path)
    path.unlink()
    path.mkdir()
    assert look(path) == [Trouble(Part.FILE, "it is no file")]
    with pytest.raises(StoreError, match="is no file"):
        refuse(path)
    (tmp_path / "handloom.db.mending").touch()
    assert look(path) == [Trouble(Part.SWITCH, "a mending was broken off")]


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
         [(Part.FILE, "conversation 4 has another number of events than it says")]),
        ([EVENTS_OF_4], [(Part.FILE, "conversation 4 has another number of events than it says")]),
        (["UPDATE conversations SET event_count = 6 WHERE key = 3"],
         [(Part.FILE, "conversation 3 has another number of events than it says")]),
        (["UPDATE events SET body = '{}' WHERE conversation = 3 AND id = 2"],
         [(Part.FILE, "the event 2 of conversation 3 cannot be read")]),
        (["UPDATE events SET cause = 99 WHERE conversation = 3 AND id = 2"],
         [(Part.FILE, "the event 2 of conversation 3 cannot be read")]),
        (["UPDATE blobs SET data = x'00'"], [(Part.FILE, "the picture DIGEST of conversation 3 is damaged")]),
        (["UPDATE recordings SET at = 'never'"],
         [(Part.FILE, "what a terminal of conversation 3 printed after event 3 is damaged")]),
        (["DELETE FROM conversations WHERE key = 4"],
         [(Part.FILE, "row 4 of leases belongs to no row of conversations"),
          *[(Part.FILE, f"row {number} of events belongs to no row of conversations") for number in range(6, 11)]]),
        (["INSERT INTO indexed VALUES (4, 6)"],
         [(Part.INDEX, "the index for search has more of conversation 4 than there is")]),
        (["INSERT INTO indexed VALUES (4, 5)"],
         [(Part.INDEX, f"the index for search does not find the event {number} of conversation 4")
          for number in range(5)]),
        (["INSERT INTO snapshots VALUES (4, 5, 'me', '{}')"],
         [(Part.SNAPSHOTS, "the snapshot of conversation 4 does not fit its events")]),
        (["INSERT INTO snapshots VALUES (4, 4, 'me', '{}')"], []),
        (["INSERT INTO snapshots VALUES (4, 4, 'me', '{')"],
         [(Part.SNAPSHOTS, "the snapshot of conversation 4 does not fit its events")]),
        ([f"PRAGMA user_version = {VERSION - 1}"],
         [(Part.FILE, f"it says that it is of version {VERSION - 1}, and is not")]),
        ([f"PRAGMA user_version = {VERSION + 101}"],
         [(Part.FILE, f"it says that it is of version {VERSION + 101}, and is not")]),
    ],
)  # fmt: skip
def test_each_damage_is_told(home: Path, statements: list[str], told: list[tuple[Part, str]]) -> None:
    damage(home, *statements)
    before = home.read_bytes()
    found = [(trouble.part, trouble.what) for trouble in look(home)]
    for part, what in told:
        *_, last = what.split("DIGEST")
        assert any(each.endswith(last) and is_of == part for is_of, each in found), what
    assert len(found) == len(told)
    assert home.read_bytes() == before


def test_no_more_than_some_complaints_are_told(home: Path) -> None:
    damage(home, *(f"INSERT INTO leases VALUES ({key}, 1, NULL)" for key in range(100, 130)))
    assert len(look(home)) == 20


@pytest.mark.parametrize("ahead", [1, 100])
def test_one_of_a_newer_handloom_is_no_damage(home: Path, ahead: int) -> None:
    damage(home, f"PRAGMA user_version = {VERSION + ahead}")
    with pytest.raises(StoreVersionError, match=f"version {VERSION + ahead}; this one knows {VERSION}"):
        look(home)


def test_a_file_that_is_something_else_is_told(home: Path) -> None:
    home.write_bytes(b"something else " * 1000)
    (trouble,) = look(home)
    assert trouble.part is Part.FILE
