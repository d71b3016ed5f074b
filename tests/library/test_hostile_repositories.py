"""git in a repository that somebody made to do harm, as a session can name one."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest

import core.git
from core.git import GitError, clone_at, has_commit

MISSING = "1" * 40


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    _git("init", "--quiet", str(folder))
    _git(
        "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "x"
    )
    return folder


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_commit_that_is_missing_is_not_fetched_with_a_command_of_the_repository(
    repository: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "executed"
    settings = {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(repository),
        "remote.origin.uploadpack": f"touch {shlex.quote(str(mark))}; git-upload-pack",
    }
    for name, value in settings.items():
        _git("-C", str(repository), "config", name, value)
    assert not has_commit(repository, MISSING)
    with pytest.raises(GitError):
        clone_at(repository, MISSING, tmp_path / "copy")
    clone_at(repository, _git("-C", str(repository), "rev-parse", "HEAD"), tmp_path / "copy")
    assert not mark.exists()
    assert (tmp_path / "copy/.git").is_dir()


def test_fifo_in_a_repository_does_not_keep_git_waiting(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.git, "_LOOK_S", 0.5)
    (repository / ".git/config").unlink()
    os.mkfifo(repository / ".git/config")
    begin = time.monotonic()
    assert not has_commit(repository, MISSING)
    assert time.monotonic() - begin < 10
