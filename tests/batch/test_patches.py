"""Patches of hostile and of merely odd files: nothing of them runs, hangs or costs the rest of the patch."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.batch import patches
from core.batch.patches import Patch, make_patch
from core.batch.tasks import BatchTask, read_tasks
from core.batch.workspaces import prepare
from core.errors import UsageError
from core.git import GitError, run_git
from tests.batch.test_batch import git, repository

__all__ = ["repository"]
CHANGED = "+x = 2\n"


@pytest.fixture
def work(tmp_path: Path, repository: Path) -> Callable[[], Patch]:
    """A clone in `tmp_path/t/work` with a change, and what makes its patch."""
    task, folder = BatchTask("t", "x", repo=str(repository)), tmp_path / "t" / "work"
    commit = prepare(task, folder, tmp_path / "out")
    (folder / "a.py").write_text("x = 2\n")
    return lambda: make_patch(task, folder, tmp_path / "out", commit)


def test_repository_inside_runs_nothing(tmp_path: Path, work: Callable[[], Patch]) -> None:
    folder = tmp_path / "t" / "work"
    for name in ("sub", "other/sub"):
        inside = folder / name
        inside.mkdir(parents=True)
        git(inside, "init", "-q")
        (inside / "f").write_text("1\n")
        git(inside, "add", "-A")
        git(inside, "commit", "-qm", "x")
        trap = f"touch {tmp_path}/trapped; cat"
        for setting in ("filter.evil.clean", "core.fsmonitor", "core.sshCommand"):
            git(inside, "config", setting, trap)
        (inside / ".gitattributes").write_text("* filter=evil\n")
        (inside / "f").write_text("2\n")
    made = work()
    assert CHANGED in made.text
    assert "Subproject" not in made.text
    assert made.note == "Repositories inside are not in the patch: other/sub, sub."
    assert not (tmp_path / "trapped").exists()


def test_submodule_of_the_repository_runs_nothing(tmp_path: Path, repository: Path) -> None:
    git(
        repository, "update-index", "--add", "--cacheinfo", f"160000,{git(repository, 'rev-parse', 'HEAD').strip()},sub"
    )
    git(repository, "commit", "-qm", "submodule")
    task, folder = BatchTask("t", "x", repo=str(repository)), tmp_path / "t" / "work"
    commit = prepare(task, folder, tmp_path / "out")
    (folder / "a.py").write_text("x = 2\n")
    inside = folder / "sub"
    git(tmp_path, "clone", "-q", str(repository), str(inside))
    git(inside, "checkout", "-q", "HEAD~1")
    (inside / ".git" / "HEAD").write_text(git(repository, "rev-parse", "HEAD~1"))
    git(inside, "config", "filter.evil.clean", f"touch {tmp_path}/trapped; cat")
    (inside / ".gitattributes").write_text("* filter=evil\n")
    (inside / "a.py").write_text("changed")
    git(folder, "rm", "-q", "--cached", "sub")
    made = make_patch(task, folder, tmp_path / "out", commit)
    assert CHANGED in made.text
    assert "sub" not in made.text
    assert not (tmp_path / "trapped").exists()


def test_git_folder_in_a_tracked_folder_costs_nothing_of_the_patch(tmp_path: Path, repository: Path) -> None:
    (repository / "src").mkdir()
    (repository / "src" / "b.py").write_text("y = 1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "src")
    task, folder = BatchTask("t", "x", repo=str(repository)), tmp_path / "t" / "work"
    commit = prepare(task, folder, tmp_path / "out")
    git(folder / "src", "init", "-q")
    (folder / "src" / "b.py").write_text("y = 2\n")
    made = make_patch(task, folder, tmp_path / "out", commit)
    assert "+y = 2\n" in made.text
    assert (made.note, (folder / "src" / ".git").is_dir()) == ("", True)


def test_pipe_does_not_hang(tmp_path: Path, work: Callable[[], Patch]) -> None:
    for name in (".gitignore", ".gitattributes", "new"):
        (tmp_path / "t" / "work" / name).unlink(missing_ok=True)
        os.mkfifo(tmp_path / "t" / "work" / name)
    assert CHANGED in work().text


def test_odd_files_cost_only_themselves(tmp_path: Path, work: Callable[[], Patch]) -> None:
    folder = tmp_path / "t" / "work"
    (folder / "secret").write_text("1\n")
    (folder / "secret").chmod(0)
    (folder / "closed").mkdir()
    (folder / "closed" / "in").write_text("in\n")
    (folder / "closed").chmod(0)
    (folder / "odd.txt").write_bytes(b"\xff\xfe\x00")
    (folder / ".gitattributes").write_text("odd.txt working-tree-encoding=UTF-16LE-BOM\n")
    made = work()
    assert CHANGED in made.text
    assert "+in\n" in made.text
    assert made.note == ""


def test_file_behind_a_link_is_not_read(tmp_path: Path, work: Callable[[], Patch]) -> None:
    (tmp_path / "private").write_text("the host's\n")
    (tmp_path / "t" / "work" / "link").symlink_to(tmp_path / "private")
    (tmp_path / "t" / "work" / "folder").symlink_to(tmp_path)
    made = work()
    assert "the host's" not in made.text
    assert f"+{tmp_path}/private\n" in made.text


def test_large_file_is_left_out_and_named(
    tmp_path: Path, work: Callable[[], Patch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patches, "MAX_FILE_BYTES", 1024**2)
    with (tmp_path / "t" / "work" / "big").open("wb") as file:
        file.truncate(64 * 1024**3)
    made = work()
    assert CHANGED in made.text
    assert made.note == "Files above 1 MB are not in the patch: big."


def test_patch_that_is_too_large_is_none(
    tmp_path: Path, work: Callable[[], Patch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patches, "MAX_PATCH_BYTES", 1024**2)
    (tmp_path / "t" / "work" / "random").write_bytes(os.urandom(3 * 1024**2))
    assert work() == Patch("", "There is no patch: it is larger than 1 MB.")


def test_git_that_takes_too_long_is_ended(work: Callable[[], Patch], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GitError, match="git failed: status -9"):
        run_git("-c", "alias.wait=!sleep 60", "wait", limit_s=0.2)

    def slow(*arguments: str, **options: Any) -> str:
        raise GitError("git failed: status -9")

    monkeypatch.setattr(patches, "run_git", slow)
    assert work() == Patch("", "There is no patch: git failed: status -9")


def test_output_of_git_is_read_up_to_a_limit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "big").write_text("line\n" * 200_000)
    blob = git(tmp_path, "hash-object", "-w", "big").strip()
    assert run_git("-C", str(tmp_path), "cat-file", "blob", blob, most_bytes=10) == "line\nline\n"


def test_copy_of_a_folder_leaves_out_the_batch_and_what_has_no_end(tmp_path: Path) -> None:
    out = tmp_path / "results"
    out.mkdir()
    (tmp_path / "a").write_text("1")
    (tmp_path / "run").touch(0o755)
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    prepare(BatchTask("t", "x", workspace=str(tmp_path)), out / "t" / "attempt-1" / "work", out)
    copied = out / "t" / "attempt-1" / "work"
    assert sorted(path.name for path in copied.iterdir()) == ["a", "link", "run"]
    assert os.access(copied / "run", os.X_OK)
    assert os.readlink(copied / "link") == "a"


def test_files_of_the_kernel_are_copied_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    copying = threading.Thread(
        target=prepare,
        args=(BatchTask("t", "x", workspace="/proc/sys/kernel/random"), tmp_path / "w" / "work", tmp_path / "out"),
    )
    copying.start()
    copying.join(30)
    assert not copying.is_alive()


@pytest.mark.parametrize("id", ["results.jsonl", "Summary.md", "batch.db", "batch.lock"])
def test_id_that_is_a_file_of_the_batch_is_refused(tmp_path: Path, id: str) -> None:
    (tmp_path / "t.jsonl").write_text(f'{{"id": "{id}", "task": "x"}}\n')
    with pytest.raises(UsageError, match="is the name of a file of the batch"):
        read_tasks(tmp_path / "t.jsonl")
