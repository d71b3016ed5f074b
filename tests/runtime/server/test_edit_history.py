"""The undo history of edits: ten steps for each file, kept over a restart, completely or not at all, within limits."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from runtime.server.edit_history import DiskHistory, History, MemoryHistory

Make = Callable[..., History]


@pytest.fixture(params=["in memory", "kept"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """What makes a history of either kind."""
    if request.param == "in memory":
        yield MemoryHistory
        return
    with ExitStack() as opened:
        yield lambda **bounds: opened.enter_context(kept(tmp_path / "undo", **bounds))


@contextmanager
def kept(folder: Path, **bounds: int) -> Iterator[DiskHistory]:
    history = DiskHistory(folder, **bounds)
    try:
        yield history
    finally:
        history.close()


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that cannot be compressed."""
    return random.Random(seed).randbytes(size)


def befores(history: History, path: str) -> list[bytes]:
    """What every step of a file goes back to, the newest first; they are popped."""
    found = []
    while (step := history.last(path)) is not None:
        found.append(step.before)
        history.pop(path)
    return found


def test_last_ten_steps_of_each_file_are_kept(make: Make) -> None:
    history = make()
    for number in range(15):
        history.push("/a", b"a%d" % number, b"after")
        history.push("/b", b"b%d" % number, b"after")
    assert befores(history, "/a") == [b"a%d" % number for number in range(14, 4, -1)]
    assert befores(history, "/b") == [b"b%d" % number for number in range(14, 4, -1)]
    assert history.last("/c") is None
    history.pop("/c")


def test_popped_step_frees_its_slot(make: Make) -> None:
    history = make()
    for number in range(12):
        history.push("/a", b"%d" % number, b"")
    history.pop("/a")
    history.push("/a", b"new", b"")
    assert befores(history, "/a") == [b"new", *(b"%d" % number for number in range(10, 1, -1))]


def test_nine_steps_are_kept_beside_a_much_larger_one(make: Make) -> None:
    history = make()
    for number in range(12):
        history.push("/a", b"%d" % number, b"")
    history.push("/a", noise(100_000), b"")
    assert befores(history, "/a") == [noise(100_000), *(b"%d" % number for number in range(11, 2, -1))]


def test_step_knows_whether_the_file_has_changed_since(make: Make) -> None:
    history = make()
    history.push("/a", b"before", b"after")
    step = history.last("/a")
    assert step is not None
    assert step.is_followed_by(b"after")
    assert not step.is_followed_by(b"after all")


def test_steps_of_all_sizes_are_kept_completely(make: Make) -> None:
    sizes = [0, 1, 4096, 100_000, 5, 3_000_000, 70_000, 0, 12_288, 4_000_000, 9]
    history = make()
    for size in sizes:
        history.push("/a", noise(size), b"")
    assert befores(history, "/a") == [noise(size) for size in reversed(sizes[1:])]


def test_files_edited_longest_ago_lose_their_steps_first(make: Make) -> None:
    history = make(max_bytes=1_000_000)
    for name in "abcdef":
        history.push(name, noise(300_000), b"")
    history.push("d", b"small", b"")
    history.push("g", noise(300_000), b"")
    assert [name for name in "abcdefg" if history.last(name)] == ["d", "f", "g"]


def test_last_edit_of_a_large_file_can_be_undone(make: Make) -> None:
    history = make(max_bytes=1_000_000)
    for name in "ab":
        history.push(name, noise(1_500_000), b"")
    assert [name for name in "ab" if history.last(name)] == ["b"]


class TestKept:
    def test_steps_survive_a_restart(self, tmp_path: Path) -> None:
        with kept(tmp_path / "undo") as history:
            for number in range(12):
                history.push("/a", b"%d" % number, b"after")
        with kept(tmp_path / "undo") as history:
            history.push("/a", b"12", b"after")
            assert befores(history, "/a") == [b"%d" % number for number in range(12, 2, -1)]

    def test_history_is_private_to_its_owner(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            with kept(tmp_path / "undo") as history:
                history.push("/a", b"secret", b"")
        finally:
            os.umask(before)
        for path in (tmp_path / "undo", *(tmp_path / "undo").iterdir()):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0

    def test_half_written_step_is_ignored(self, tmp_path: Path) -> None:
        with kept(tmp_path / "undo") as history:
            history.push("/a", noise(10_000, 1), b"")
            history.push("/a", noise(10_000, 2), b"")
            (file,) = (tmp_path / "undo").iterdir()
            data = file.read_bytes()
            second = data.index(noise(10_000, 2)[5000:5100])
            file.write_bytes(data[:second] + bytes(len(data) - second))
            assert befores(history, "/a") == [noise(10_000, 1)]
            history.push("/a", b"next", b"")
            assert befores(history, "/a") == [b"next"]

    @pytest.mark.parametrize("data", [b"", b"x", noise(100_000), b"hl-undo1" + bytes(8), b"hl-undo1" + b"\xff" * 9000])
    def test_foreign_file_is_ignored(self, tmp_path: Path, data: bytes) -> None:
        with kept(tmp_path / "undo") as history:
            history.push("/a", b"before", b"")
            (file,) = (tmp_path / "undo").iterdir()
            file.write_bytes(data)
            assert history.last("/a") is None
            history.push("/a", b"again", b"")
            assert befores(history, "/a") == [b"again"]

    def test_two_servers_do_not_share_a_folder(self, tmp_path: Path) -> None:
        with kept(tmp_path / "undo"), pytest.raises(BlockingIOError, match="another server keeps its history here"):
            DiskHistory(tmp_path / "undo")
        with kept(tmp_path / "undo"):
            pass

    def test_size_limit_holds_after_a_restart(self, tmp_path: Path) -> None:
        with kept(tmp_path / "undo") as history:
            for name in "abc":
                history.push(name, noise(300_000), b"")
        with kept(tmp_path / "undo", max_bytes=1_000_000) as history:
            history.push("d", noise(300_000), b"")
            assert [name for name in "abcd" if history.last(name)] == ["b", "c", "d"]
        used = sum(path.stat().st_blocks * 512 for path in (tmp_path / "undo").iterdir())
        assert used <= 1_000_000

    def test_full_disk_keeps_existing_steps(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_space(*_: object) -> int:
            raise OSError(28, "No space left on device")

        with kept(tmp_path / "undo") as history:
            history.push("/a", b"1", b"")
            with monkeypatch.context() as full:
                full.setattr(os, "pwrite", no_space)
                with pytest.raises(OSError, match="No space left"):
                    history.push("/a", b"2", b"")
                with pytest.raises(OSError, match="No space left"):
                    history.push("/b", b"2", b"")
            assert befores(history, "/a") == [b"1"]


def test_new_history_of_a_file_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.replace

    def synced(fd: int) -> None:
        steps.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).name}")
        fsync(fd)

    def renamed(old: str, new: str, **folders: int) -> None:
        steps.append(f"rename {old}")
        rename(old, new, **folders)

    with kept(tmp_path / "undo") as history:
        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", renamed)
        history.push("/a", b"before", b"after")
    assert steps[-3:] == ["sync .new", "rename .new", "sync undo"]
