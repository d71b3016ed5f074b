"""Checkpoints of a workspace: files are restored byte for byte, and nothing else is lost."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.checkpoints.model import ChangeKind, FileChange
from core.errors import CheckpointError
from runtime.checkpoints import checkpoint_store
from runtime.checkpoints.checkpoint_store import WorkspaceCheckpoints
from tests.journeys.hostile import KINDS, Traps

NAMES = (
    "a",
    "b",
    "-rf",
    "x y",
    "new\nline",
    "quo'te\"",
    "tab\t",
    "ü",
    "*",
    "[a]",
    "!a",
    "#",
    ".hidden",
    "git~1",
    "a\\b",
)
CONTENTS = (b"", b"one\n", b"two\r\nlines\r\n", b"\0\xff\xfe binary", "ünïcode".encode(), b"x" * 100_000)


class Place:
    """A workspace and a home, side by side."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.home = folder / "home"
        self.workspace.mkdir()

    def store(self, conversation: str = "one") -> WorkspaceCheckpoints:
        return WorkspaceCheckpoints(self.home, str(self.workspace), conversation)

    def write(self, path: str, content: str | bytes = "x\n") -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    @property
    def tree(self) -> dict[str, tuple[str, bytes]]:
        return tree(self.workspace)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def tree(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Every file and link of a folder except those of git, with type and content."""
    found = {}
    for above, folders, names in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        for name in {*names, *folders} - {".git"}:
            path = Path(above, name)
            mode = path.lstat().st_mode
            key = os.path.relpath(path, folder)
            if stat.S_ISLNK(mode):
                found[key] = ("link", os.fsencode(os.readlink(path)))
            elif stat.S_ISREG(mode):
                found[key] = ("program" if mode & 0o100 else "file", path.read_bytes())
    return found


def summary(changes: tuple[FileChange, ...] | list[FileChange]) -> dict[str, str]:
    return {change.path: change.kind.value for change in changes}


# -- the same tree again -----------------------------------------------------------------------------------------------


Step = Callable[[Path, random.Random], None]


def _free(folder: Path, chance: random.Random) -> Path:
    """A path of up to three parts; whatever exists there is removed."""
    path = folder
    for name in chance.choices(NAMES, k=chance.randint(1, 3)):
        if path.is_symlink() or path.is_file():
            path.unlink()
        path = path / name
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    for above in reversed(path.relative_to(folder).parents[:-1]):
        if (folder / above).is_symlink():
            (folder / above).unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write(folder: Path, chance: random.Random) -> None:
    path = _free(folder, chance)
    path.write_bytes(chance.choice(CONTENTS))
    path.chmod(chance.choice((0o644, 0o755)))


def link(folder: Path, chance: random.Random) -> None:
    _free(folder, chance).symlink_to(chance.choice(("a", "/etc/passwd", "..", "nowhere\n", ".")))


def remove(folder: Path, chance: random.Random) -> None:
    _free(folder, chance)


def begin_repository(folder: Path, chance: random.Random) -> None:
    path = _free(folder, chance)
    subprocess.run(["git", "init", "--quiet", "--", str(path)], check=True)
    write(path, chance)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), sizes=st.tuples(st.integers(0, 12), st.integers(0, 12)))
def test_restore_reproduces_the_tree_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sizes: tuple[int, int]
) -> None:
    place, chance = Place(tmp_path_factory.mktemp("any")), random.Random(seed)
    steps: list[Step] = [write, write, write, link, remove, begin_repository]

    async def trial() -> None:
        store = place.store()
        for _ in range(sizes[0]):
            chance.choice(steps)(place.workspace, chance)
        first, before = await store.take("first"), place.tree
        for _ in range(sizes[1]):
            chance.choice(steps)(place.workspace, chance)
        after = place.tree
        done = await store.restore(first.id)
        assert place.tree == before
        await store.restore(done.before.id)
        assert place.tree == after, "the way back of the way back"
        await store.unpack(first.id, str(place.home / "elsewhere"))
        assert tree(place.home / "elsewhere") == before

    asyncio.run(trial())


async def test_changes_are_listed_by_file_with_line_counts(place: Place) -> None:
    store = place.store()
    place.write("changed", "one\ntwo\n")
    place.write("gone")
    place.write("picture", b"\0\1")
    one = await store.take("1")
    place.write("changed", "one\n2\nthree\n")
    (place.workspace / "gone").unlink()
    place.write("picture", b"\0\2")
    place.write("new", "a\nb\n")
    two = await store.take("2")
    assert await store.changes(one.id, two.id) == [
        FileChange("changed", ChangeKind.CHANGED, 2, 1, binary=False),
        FileChange("gone", ChangeKind.DELETED, 0, 1, binary=False),
        FileChange("new", ChangeKind.CREATED, 2, 0, binary=False),
        FileChange("picture", ChangeKind.CHANGED, 0, 0, binary=True),
    ]
    assert (one.files, one.changed, two.files, two.changed) == (3, 3, 3, 4)


async def test_only_named_paths_are_restored(place: Place) -> None:
    store = place.store()
    place.write("a", "1")
    place.write("b", "1")
    one = await store.take("1")
    place.write("a", "2")
    place.write("b", "2")
    assert summary((await store.restore(one.id, ["a"])).changes) == {"a": "changed"}
    assert place.tree == {"a": ("file", b"1"), "b": ("file", b"2")}


async def test_unchanged_workspace_gives_the_same_checkpoint(place: Place) -> None:
    mine, other = place.store("one"), place.store("other")
    place.write("a")
    first = await mine.take("1")
    assert await mine.take("2") == first
    place.write("b")
    theirs = await other.take("3")
    assert (theirs.files, theirs.changed) == (2, 1), "what is known is not read again"
    mine_again = await mine.take("4")
    assert (mine_again.files, mine_again.changed) == (2, 0), "what the other has read is in it"
    assert [kept.label for kept in await mine.list()] == ["1", "4"]


async def test_restore_preserves_file_permissions(place: Place) -> None:
    store = place.store()
    place.write("program").chmod(0o750)
    place.write("private").chmod(0o600)
    one = await store.take("1")
    place.write("program", "2").chmod(0o640)
    place.write("private", "2")
    await store.restore(one.id)
    modes = {name: stat.S_IMODE((place.workspace / name).stat().st_mode) for name in ("program", "private")}
    assert modes == {"program": 0o750, "private": 0o600}


# -- files in no checkpoint --------------------------------------------------------------------------------------------


async def test_ignored_files_are_neither_saved_nor_removed(place: Place) -> None:
    store = place.store()
    place.write(".gitignore", "build/\n")
    place.write("build/out", "precious")
    one = await store.take("1")
    assert one.files == 1
    (place.workspace / ".gitignore").unlink()
    done = await store.restore(one.id)
    assert done.before.files == 1, "without the ignore file they are kept"
    assert done.kept == ("build/out",)
    assert place.tree["build/out"] == ("file", b"precious")


async def test_tracked_file_that_becomes_ignored_is_still_saved(place: Place) -> None:
    store = place.store()
    place.write("notes", "1")
    await store.take("1")
    place.write(".gitignore", "notes\n")
    place.write("notes", "2")
    two = await store.take("2")
    place.write("notes", "3")
    await store.restore(two.id)
    assert place.tree["notes"] == ("file", b"2")


async def test_large_and_special_files_are_skipped_and_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_store, "MAX_FILE_BYTES", 1024 * 1024)
    store = place.store()
    place.write("a", "1")
    place.write("grows", "small")
    one = await store.take("1")
    large = place.write("grows", b"x" * (1024 * 1024 + 1)).read_bytes()
    place.write("large", large)
    os.mkfifo(place.workspace / "pipe")
    two = await store.take("2")
    assert two.skipped == ("grows: larger than 1 MB", "large: larger than 1 MB")
    done = await store.restore(one.id)
    (aside,) = done.kept
    assert (place.workspace / aside).read_bytes() == large, "it is in no checkpoint, so it is not lost"
    assert place.tree["grows"] == ("file", b"small")
    assert place.tree["large"] == ("file", large)
    assert (place.workspace / "pipe").exists()


async def test_obstacle_in_no_checkpoint_is_renamed(place: Place) -> None:
    store = place.store()
    place.write("thing", "a file")
    place.write(".gitignore", "*.log\n")
    one = await store.take("1")
    (place.workspace / "thing").unlink()
    place.write("thing/a.log", "mine")
    place.write("thing/b", "known")
    (aside,) = (await store.restore(one.id)).kept
    assert place.tree["thing"] == ("file", b"a file")
    assert place.tree[f"{aside}/a.log"] == ("file", b"mine")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_unreadable_file_is_reported_as_skipped(place: Place) -> None:
    place.write("secret").chmod(0)
    assert (await place.store().take("1")).skipped == ("secret: permission denied",)


async def test_nested_repositories_are_saved_without_their_git_folder(place: Place) -> None:
    store = place.store()
    for name in (".", "inner", "inner/deeper"):
        subprocess.run(["git", "init", "--quiet", str(place.workspace / name)], check=True)
        place.write(f"{name}/file", "1")

    def git_files() -> dict[str, tuple[str, bytes]]:
        return {name: kept for name in (".git", "inner/.git") for name, kept in tree(place.workspace / name).items()}

    before = git_files()
    one = await store.take("1")
    assert one.files == 3
    place.write("inner/deeper/file", "2")
    place.write("inner/new", "2")
    done = await store.restore(one.id)
    assert summary(done.changes) == {"inner/deeper/file": "changed", "inner/new": "deleted"}
    assert git_files() == before


async def test_file_replaced_by_a_repository_is_restored_both_ways(place: Place) -> None:
    store = place.store()
    place.write("thing", "a file")
    one, before = await store.take("1"), place.tree
    (place.workspace / "thing").unlink()
    subprocess.run(["git", "init", "--quiet", str(place.workspace / "thing")], check=True)
    place.write("thing/file", "2")
    done = await store.restore(one.id)
    assert summary(done.changes) == {"thing": "created", "thing/file": "deleted"}
    assert place.tree == before


async def test_home_in_the_workspace_is_not_saved(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    home = workspace / "my [home]"
    home.mkdir(parents=True)
    (home / "events.db").write_text("x")
    (workspace / "a").write_text("x")
    store = WorkspaceCheckpoints(home, str(workspace), "one")
    assert (await store.take("1")).files == 1
    assert await store.take("2") == (await store.list())[0]


async def test_git_attributes_change_no_bytes(place: Place) -> None:
    store = place.store()
    place.write(".gitattributes", "* text eol=crlf ident\n")
    place.write("a", "$Id$\nline\r\n")
    one = await store.take("1")
    assert (await place.store("other").take("2")).changed == 0, "what is as it was is not read again"
    (place.workspace / "a").unlink()
    await store.restore(one.id)
    assert place.tree["a"] == ("file", b"$Id$\nline\r\n")


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_hostile_repository_runs_nothing(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path)
    (tmp_path / "marks").mkdir()
    traps = Traps(place.workspace, tmp_path / "marks")
    KINDS[kind](traps)
    store, before = place.store(), place.tree
    one = await store.take("1")
    for path in before:
        (place.workspace / path).unlink()
    two = await store.take("2")
    await store.changes(one.id, two.id)
    await store.restore(one.id)
    assert place.tree == before
    assert traps.sprung() == []


async def test_too_large_workspace_is_refused_before_it_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_store, "MAX_NEW_BYTES", 100)
    place.write("a", b"x" * 101)
    with pytest.raises(CheckpointError, match=r"too large for checkpoints: 1 files .* \.gitignore"):
        await place.store().take("1")


async def test_missing_git_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place.home))
    with pytest.raises(CheckpointError, match="Install git to use checkpoints"):
        await place.store().take("1")


@pytest.mark.parametrize("id", ["", "--output=/tmp/x", "HEAD", "0" * 40])
async def test_unknown_checkpoint_is_refused(place: Place, id: str) -> None:
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        await place.store().restore(id)


async def test_failed_restore_is_undone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.store()
    for name in ("a", "b", "deep/c"):
        place.write(name, "1")
    one = await store.take("1")
    place.write("a", "2")
    (place.workspace / "b").unlink()
    shutil.rmtree(place.workspace / "deep")
    place.write("new", "2")
    before = place.tree
    rename = os.replace

    def full(source: str, target: str, **options: int) -> None:
        if target == "c":
            raise OSError(28, "No space left on device")
        rename(source, target, **options)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(CheckpointError, match="No space left"):
        await store.restore(one.id)
    assert place.tree == before
    assert not [path for path in os.listdir(place.workspace) if path.startswith(".handloom")]


async def test_failed_undo_of_a_restore_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.store()
    place.write("a", "1")
    place.write("b", "1")
    one = await store.take("1")
    place.write("a", "2")
    place.write("b", "2")
    replace = os.replace

    def broken(source: str, target: str, **options: int) -> None:
        if target == "b":
            raise OSError(5, "Input/output error")
        replace(source, target, **options)

    def rename(source: str, target: str, **options: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", broken)
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(CheckpointError, match=r"could not be undone .* Restore the checkpoint"):
        await store.restore(one.id)
    monkeypatch.undo()
    before = (await store.list())[-1]
    await store.restore(before.id)
    assert place.tree == {"a": ("file", b"2"), "b": ("file", b"2")}


async def test_cancelled_checkpoint_leaves_the_store_unchanged(place: Place) -> None:
    store = place.store()
    place.write("a")
    first = await store.take("1")
    for number in range(200):
        place.write(f"new{number}", os.urandom(100_000))
    taking = asyncio.create_task(store.take("2"))
    while not list(place.home.rglob("*pack_*")):
        await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert await store.list() == [first]
    assert (await store.take("3")).files == 201


# -- pruning and deleting ----------------------------------------------------------------------------------------------


async def test_prune_deletes_the_oldest_and_keeps_the_newest(place: Place) -> None:
    store = place.store()
    for number in range(4):
        place.write("a", os.urandom(100_000))
        await store.take(str(number))
    assert await store.prune() == 0
    assert await store.prune(max_bytes=250 * 1024) == 2
    assert [kept.label for kept in await store.list()] == ["2", "3"]
    assert await store.prune(max_bytes=0) == 1
    (last,) = await store.list()
    place.write("a", "changed")
    await store.restore(last.id)
    assert len(place.tree["a"][1]) == 100_000


async def test_deleting_a_conversation_deletes_only_its_checkpoints(place: Place) -> None:
    one, other = place.store("one"), place.store("other")
    place.write("a", "1")
    mine = await one.take("1")
    place.write("a", "2")
    await other.take("2")
    await other.delete()
    assert await one.list() == [mine]
    assert await other.list() == []
    assert checkpoint_store.is_kept(place.home, str(place.workspace))
    await one.delete()
    assert list((place.home / checkpoint_store.FOLDER).iterdir()) == []
    assert not checkpoint_store.is_kept(place.home, str(place.workspace))


async def test_leftover_lock_is_removed_with_the_next_deletion(place: Place) -> None:
    await place.store().take("1")
    (lock,) = (place.home / checkpoint_store.FOLDER).glob("*.lock")
    await place.store().delete()
    lock.touch()
    assert checkpoint_store.is_kept(place.home, str(place.workspace))
    await place.store("other").delete()
    assert list((place.home / checkpoint_store.FOLDER).iterdir()) == []


async def test_waiting_for_a_removed_lock_waits_for_its_replacement(place: Place) -> None:
    await place.store().take("1")
    (path,) = (place.home / checkpoint_store.FOLDER).glob("*.lock")
    place.write("a", "2")
    with path.open() as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        taking = asyncio.create_task(place.store("other").take("2"))
        await waited_for(first.fileno())
        path.unlink()
        with path.open("w") as second:
            fcntl.flock(second, fcntl.LOCK_EX)
            first.close()
            await waited_for(second.fileno())
            assert not taking.done()
        assert (await taking).label == "2"


async def waited_for(fd: int) -> None:
    """Return when another one waits for the lock of an open file, as the kernel tells it."""
    waits = re.compile(rf"-> FLOCK .*:{os.fstat(fd).st_ino} ")
    async with asyncio.timeout(30):
        while not waits.search(await asyncio.to_thread(Path("/proc/locks").read_text)):
            pass


async def test_concurrent_takes_and_deletes(place: Place) -> None:
    place.write("a", "1")

    async def come_and_go(name: str) -> None:
        for _ in range(4):
            taken = await place.store(name).take("1")
            assert await place.store(name).list() == [taken]
            await place.store(name).delete()

    await asyncio.gather(*(come_and_go(f"c{number}") for number in range(4)))
    assert list((place.home / checkpoint_store.FOLDER).iterdir()) == []
