"""FIFOs and sockets in place of files that git or the sandbox reads hold up nothing: the rest is kept and listed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.checkpoints.checkpoint_store import WorkspaceCheckpoints
from runtime.git_files import git_files, unblock_pipes
from tests.base.test_regular_files import fifo, sock

MAKES: dict[str, Callable[[Path], None]] = {"a FIFO": fifo, "a socket": sock}
WHERE = ("", "sub", "sub/deep")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Three folders with a file in each."""
    made = tmp_path / "workspace"
    (made / "sub" / "deep").mkdir(parents=True)
    for folder in WHERE:
        (made / folder / "file").write_text("1")
    return made


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("folder", WHERE, ids=["root", "nested", "deep"])
async def test_checkpoints_are_taken_and_restored(
    workspace: Path, tmp_path: Path, folder: str, make: Callable[[Path], None]
) -> None:
    store = WorkspaceCheckpoints(tmp_path / "home", str(workspace), "one")
    for name in (".gitignore", ".gitattributes"):
        make(workspace / folder / name)
    one = await store.take("1")
    assert one.files == 3
    (workspace / folder / "file").write_text("2")
    assert [change.path for change in (await store.restore(one.id)).changes] == [os.path.join(folder, "file")]
    assert (workspace / folder / "file").read_text() == "1"


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_files_are_listed_and_other_folders_keep_their_patterns(workspace: Path, make: Callable[[Path], None]) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    subprocess.run(["git", "init", "-q", str(workspace / "sub")], check=True)
    for folder in ("", "sub/deep"):
        make(workspace / folder / ".gitignore")
    (workspace / "sub" / ".gitignore").write_text("*.log\n")
    (workspace / "sub" / "x.log").touch()
    assert set(git_files(workspace) or ()) == {"file", "sub/file", "sub/deep/file", "sub/.gitignore"}


def test_fifo_created_while_git_runs_does_not_block_it(tmp_path: Path) -> None:
    """The program in place of git makes the FIFOs itself, one after the other, once the search has begun."""
    with unblock_pipes(str(tmp_path)):
        script = "for n in 1 2; do mkdir $n; mkfifo $n/.gitignore; : <$n/.gitignore; done; mkfifo other; echo done"
        done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"done\n"


def test_git_files_writes_nothing_and_ends_its_thread(tmp_path: Path) -> None:
    fifo(tmp_path / ".gitignore")
    with unblock_pipes(str(tmp_path)):
        assert (tmp_path / ".gitignore").read_bytes() == b""
    assert not [thread for thread in threading.enumerate() if thread.name == "git-pipes"]


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("is_deeper", [False, True], ids=["itself", "the file that names it in turn"])
def test_worktree_files_do_not_block_a_sandbox(
    workspace: Path, tmp_path: Path, is_deeper: bool, make: Callable[[Path], None]
) -> None:
    if is_deeper:
        (workspace / ".git").write_text(f"gitdir: {tmp_path}\n")
    make((tmp_path / "gitdir") if is_deeper else workspace / ".git")
    script = (
        "import pathlib, sys; from runtime.isolation.protected_paths import protecting_mounts;"
        " print(protecting_mounts(pathlib.Path(sys.argv[1]), ()).writable)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(workspace)], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"[]\n"
