"""Which SQLite may be shared, what its errors mean, and what a failed opening leaves."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from core.store.database import can_be_shared, connect, remedy, sqlite3, version


@pytest.mark.parametrize(
    ("found", "is_fixed"), [((3, 51, 2), False), ((3, 51, 3), True), ((3, 52, 0), True), ((3, 7, 99), False)]
)
def test_database_is_shared_only_with_a_fixed_sqlite(found: tuple[int, int, int], is_fixed: bool) -> None:
    assert can_be_shared(found) is is_fixed
    assert can_be_shared() is can_be_shared(version()) is True


@pytest.mark.parametrize(
    ("told", "answer"),
    [
        ("database or disk is full", "free some space"),
        ("attempt to write a readonly database", "writable"),
        ("Read-only file system: read-only", "writable"),
        ("database disk image is malformed", "doctor --repair"),
        ("file is not a database", "doctor --repair"),
        ("database is locked", "Another program"),
        ("disk I/O error", "Check the disk"),
    ],
)
def test_errors_say_what_to_do(told: str, answer: str) -> None:
    assert answer in remedy(sqlite3.OperationalError(told))


async def test_failed_connection_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(sqlite3.OperationalError):
        await connect(tmp_path / "db", ["PRAGMA foreign_keys = ON", "no statement"])
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()
    connection = await connect(tmp_path / "db", ["PRAGMA foreign_keys = ON"])
    assert list(await connection.execute_fetchall("PRAGMA foreign_keys")) == [(1,)]
    await connection.close()
