"""Locks that die with their process: who is alive is told without taking part in it."""

from __future__ import annotations

from pathlib import Path

from core.store.locks import FileLock, ProcessMark, is_running
from tests.repeated import leaves_nothing


def test_a_dead_owner_stays_dead_however_often_it_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "1-killed.lock").touch()
    leaves_nothing(lambda: is_running(tmp_path, "1-killed"))
    assert not is_running(tmp_path, "1-killed")
    mark = ProcessMark(tmp_path)
    assert not mark.is_alive("1-killed"), "nobody who looked holds its lock"
    assert not (tmp_path / "1-killed.lock").exists()
    mark.release()


def test_a_living_owner_is_alive_until_it_lets_go(tmp_path: Path) -> None:
    mark, other = ProcessMark(tmp_path), ProcessMark(tmp_path)

    def look() -> None:
        assert is_running(tmp_path, mark.name)
        assert other.is_alive(mark.name)

    leaves_nothing(look)
    mark.release()
    assert not is_running(tmp_path, mark.name)
    assert not other.is_alive(mark.name)
    other.release()


def test_a_lock_that_is_taken_and_released_leaves_nothing(tmp_path: Path) -> None:
    mine, theirs = FileLock(tmp_path / "l"), FileLock(tmp_path / "l")

    def take() -> None:
        with mine:
            assert not theirs.try_acquire()
        assert theirs.try_acquire(shared=True)
        theirs.release()
        theirs.release()

    leaves_nothing(take)
