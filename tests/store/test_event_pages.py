"""The write-ahead log of a database that was not closed: committed pages are read despite other damage."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from core.store.page_recovery import Pages
from tests.store.test_page_reader import database, table


def write_with_log(path: Path, *transactions: list[str], page_size: int = 512) -> None:
    """A database as it lies when its process is killed: the newest in its log alone."""
    with database(path.with_name("live"), page_size, "WAL") as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        made.execute("PRAGMA wal_autocheckpoint = 0")
        for bodies in transactions:
            made.execute("BEGIN")
            made.executemany("INSERT INTO t VALUES (?)", [(body,) for body in bodies])
            made.execute("COMMIT")
        for ending in ("", "-wal"):
            shutil.copyfile(f"{path.with_name('live')}{ending}", f"{path}{ending}")


def frame_offsets(path: Path) -> list[int]:
    """Where the frames of a log begin, of pages of 512 bytes."""
    return list(range(32, path.stat().st_size, 24 + 512))


def read_by_sqlite(path: Path) -> dict[int, tuple[str]]:
    """The rows, from a copy."""
    for ending in ("", "-wal"):
        shutil.copyfile(f"{path}{ending}", f"{path}.copy{ending}")
    with closing(sqlite3.connect(f"{path}.copy")) as copy:
        return {number: (body,) for number, body in copy.execute("SELECT rowid, body FROM t")}


def change(path: Path, place: int, by: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[place : place + len(by)] = by
    path.write_bytes(data)


TRANSACTIONS = [["a" * 400, "b" * 400], ["c" * 2000], ["d"], ["e" * 400, "f" * 400]]


def test_committed_log_frames_are_read(tmp_path: Path) -> None:
    path, wal = tmp_path / "db", tmp_path / "db-wal"
    write_with_log(path, *TRANSACTIONS)
    everything = {number: (body,) for number, body in enumerate((b for bs in TRANSACTIONS for b in bs), 1)}
    assert table(path) == everything == read_by_sqlite(path)
    whole = wal.read_bytes()
    for size in (*range(0, 100, 13), *(place + more for place in frame_offsets(wal) for more in (-1, 0, 1, 24, 300))):
        wal.write_bytes(whole[: max(size, 0)])
        with Pages(path) as pages:
            assert not pages.log_is_torn
        assert table(path) == read_by_sqlite(path), f"the log has only {size} bytes"


def test_log_alone_is_read_with_its_own_page_size(tmp_path: Path) -> None:
    with database(tmp_path / "live", 1024, "WAL") as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("INSERT INTO t VALUES (?)", ["long" * 1000])
        shutil.copyfile(tmp_path / "live-wal", tmp_path / "db-wal")
    assert table(tmp_path / "db") == {1: ("long" * 1000,)}
    (tmp_path / "db").touch()
    assert table(tmp_path / "db") == {1: ("long" * 1000,)}


@pytest.mark.parametrize(
    ("place", "by"),
    [(0, b"\x36"), (3, b"\x81"), (3, b"\x84"), (8, struct.pack(">I", 256)), (8, struct.pack(">I", 1000)),
     (8, struct.pack(">I", 0)), (8, struct.pack(">I", 131072)), (16, b"salt"), (20, b"salt"), (24, b"sums"),
     (28, b"sums")],
)  # fmt: skip
def test_log_with_a_damaged_header_is_ignored(tmp_path: Path, place: int, by: bytes) -> None:
    write_with_log(tmp_path / "db", ["newer"])
    change(tmp_path / "db-wal", place, by)
    with Pages(tmp_path / "db") as pages:
        assert pages.size == 512
        assert [cell.record[:2] for cell in pages.cells()] == [("table", "t")]
    (tmp_path / "db").unlink()
    with Pages(tmp_path / "db") as pages:
        assert pages.count == 0


def test_rest_of_an_older_log_is_skipped(tmp_path: Path) -> None:
    """SQLite restarts the log at its beginning with another salt, and leaves old frames after it."""
    with database(tmp_path / "db", 512, "WAL") as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("INSERT INTO t VALUES (?)", ["old" * 1000])
        made.execute("PRAGMA wal_checkpoint(RESTART)")
        made.execute("UPDATE t SET body = 'new'")
        assert (tmp_path / "db-wal").stat().st_size > 4000
        assert table(tmp_path / "db") == {1: ("new",)}


def test_uncommitted_frames_are_skipped(tmp_path: Path) -> None:
    """A transaction that does not fit the cache is written to the log before it ends."""
    with database(tmp_path / "db", 512, "WAL") as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("INSERT INTO t VALUES ('kept')")
        made.execute("PRAGMA cache_size = 2")
        made.execute("BEGIN")
        made.executemany("INSERT INTO t VALUES (?)", [("never" * 80,) for _ in range(100)])
        assert b"nevernever" in (tmp_path / "db-wal").read_bytes()
        assert table(tmp_path / "db") == {1: ("kept",)}
        made.execute("ROLLBACK")
        made.execute("INSERT INTO t VALUES ('last')")
        assert table(tmp_path / "db") == {1: ("kept",), 2: ("last",)}


def test_frames_after_a_damaged_one_are_read(tmp_path: Path) -> None:
    path, wal = tmp_path / "db", tmp_path / "db-wal"
    write_with_log(path, ["a"], ["b"], ["c"])
    *_, second, third = frame_offsets(wal)
    change(wal, second + 24 + 300, b"damage")
    with Pages(path) as pages:
        assert pages.log_is_torn
    assert table(path) == {1: ("a",), 2: ("b",), 3: ("c",)}  # the same page is in the third
    assert read_by_sqlite(path) == {1: ("a",)}
    change(wal, third + 24 + 300, b"damage")
    with Pages(path) as pages:
        assert not pages.log_is_torn
    assert table(path) == read_by_sqlite(path) == {1: ("a",)}


@pytest.mark.parametrize("place", [0, 4, 8, 12, 16, 20, 24, 24 + 511])
def test_frame_with_any_damaged_byte_is_skipped(tmp_path: Path, place: int) -> None:
    path, wal = tmp_path / "db", tmp_path / "db-wal"
    write_with_log(path, ["a"], ["b"])
    frame = frame_offsets(wal)[-1] + place
    change(wal, frame, bytes([wal.read_bytes()[frame] ^ 0x40]))
    assert table(path) == read_by_sqlite(path) == {1: ("a",)}


def test_intact_frames_of_a_torn_transaction_are_read(tmp_path: Path) -> None:
    """A damaged first frame does not take the others of its transaction with it."""
    path, wal = tmp_path / "db", tmp_path / "db-wal"
    write_with_log(path, ["a" * 400, "b" * 400, "c" * 400])
    change(wal, frame_offsets(wal)[0] + 24 + 500, b"damage")
    with Pages(path) as pages:
        assert pages.log_is_torn
    assert set(table(path).values()) >= {("b" * 400,), ("c" * 400,)}


def test_log_with_the_other_byte_order_is_read(tmp_path: Path) -> None:
    """A machine with the other order of bytes writes such a log."""
    path, wal = tmp_path / "db", tmp_path / "db-wal"
    write_with_log(path, *TRANSACTIONS)
    expected = table(path)
    data = bytearray(wal.read_bytes())
    order = ">" if data[3] == 0x82 else "<"
    data[3] ^= 1
    data[24:32] = struct.pack(">II", *summed(data[:24], order, (0, 0)))
    before = summed(data[:24], order, (0, 0))
    for place in frame_offsets(wal):
        before = summed(data[place : place + 8] + data[place + 24 : place + 24 + 512], order, before)
        data[place + 16 : place + 24] = struct.pack(">II", *before)
    wal.write_bytes(data)
    assert read_by_sqlite(path) == expected
    assert table(path) == expected


def summed(data: bytes | bytearray, order: str, begin: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum of a log."""
    one, two = begin
    numbers = struct.unpack(f"{order}{len(data) // 4}I", data)
    for place in range(0, len(numbers), 2):
        one = (one + numbers[place] + two) % 2**32
        two = (two + numbers[place + 1] + one) % 2**32
    return one, two


def test_unreadable_log_is_ignored(tmp_path: Path) -> None:
    with database(tmp_path / "db", 512) as made:
        made.execute("CREATE TABLE t (body)")
        made.execute("INSERT INTO t VALUES ('kept')")
    (tmp_path / "db-wal").symlink_to("/proc/self/mem")  # reading its first bytes is an error of the disk
    assert table(tmp_path / "db") == {1: ("kept",)}


def test_files_are_closed(tmp_path: Path) -> None:
    write_with_log(tmp_path / "db", ["a"])
    with Pages(tmp_path / "db") as pages:
        list(pages.cells())
    with pytest.raises(ValueError, match="closed file"):
        pages.page(1)
    with pytest.raises(ValueError, match="closed file"):
        pages.page(2)
