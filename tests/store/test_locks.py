"""Locks that end with their process: checking an owner does not affect it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from core.store.locks import FileLock, ProcessMark, is_running
from tests.repeated import leaves_nothing


def test_dead_owner_stays_dead(tmp_path: Path) -> None:
    (tmp_path / "1-killed.lock").touch()
    leaves_nothing(lambda: is_running(tmp_path, "1-killed"))
    assert not is_running(tmp_path, "1-killed")
    mark = ProcessMark(tmp_path)
    assert not mark.is_alive("1-killed"), "nobody who looked holds its lock"
    assert not (tmp_path / "1-killed.lock").exists()
    mark.release()


def test_owner_is_alive_until_it_releases_its_lock(tmp_path: Path) -> None:
    mark, other = ProcessMark(tmp_path), ProcessMark(tmp_path)

    def look() -> None:
        assert is_running(tmp_path, mark.name)
        assert other.is_alive(mark.name)

    leaves_nothing(look)
    mark.release()
    assert not is_running(tmp_path, mark.name)
    assert not other.is_alive(mark.name)
    other.release()


def test_released_lock_leaves_nothing(tmp_path: Path) -> None:
    mine, theirs = FileLock(tmp_path / "l"), FileLock(tmp_path / "l")

    def take() -> None:
        with mine:
            assert not theirs.try_acquire()
        assert theirs.try_acquire(shared=True)
        theirs.release()
        theirs.release()

    leaves_nothing(take)


@pytest.mark.parametrize(
    ("mine", "theirs", "is_free"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_lock_is_shared_only_if_both_take_it_shared(tmp_path: Path, mine: bool, theirs: bool, is_free: bool) -> None:
    one, other = FileLock(tmp_path / "l"), FileLock(tmp_path / "l")
    assert one.try_acquire(shared=mine)
    assert other.try_acquire(shared=theirs) is is_free
    other.release()
    one.release()
    assert other.try_acquire()
    other.release()
    assert stat.S_IMODE((tmp_path / "l").stat().st_mode) == 0o600


def test_watchers_of_a_held_lock_are_notified(tmp_path: Path) -> None:
    mark, lock = ProcessMark(tmp_path), FileLock(tmp_path / "other")
    file = tmp_path / f"{mark.name}.lock"
    os.utime(file, (0, 0))
    mark.touch()
    assert file.stat().st_mtime > 0
    mark.release()
    mark.touch()
    lock.touch()
    assert list(tmp_path.iterdir()) == [], "one that is not held is not made"


def test_process_name_begins_with_its_number(tmp_path: Path) -> None:
    mark, other = ProcessMark(tmp_path), ProcessMark(tmp_path)
    assert re.fullmatch(rf"{os.getpid()}-[0-9a-f]{{12}}", mark.name)
    assert mark.name != other.name
    assert mark.is_alive(mark.name)
    assert not mark.is_alive("1-nobody")
    assert not is_running(tmp_path, "1-nobody")
    mark.release()
    other.release()
