"""`handloom run --repo`: a task on a repository, from the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom


def test_task_runs_in_a_clone_of_the_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "repo.git")], check=True)
    handloom = Handloom(tmp_path)
    script = write_script(tmp_path, [{"tool_calls": [bash("pwd; git branch --show-current")]}, FINISH])
    done = handloom("run", "go", "--model", script, "--repo", f"{tmp_path}/repo.git#work", "--verbose")
    assert done.status == 0, done.err
    assert f"{handloom.workspace}/repo\nwork\n" in done.err
    assert "> Running command: git clone" not in done.err, "the environment's own commands are hidden"
    assert f"Cloning {tmp_path}/repo.git#work: done in " in done.err
    (info,) = handloom.conversations()
    again = handloom("run", "go", "--resume", info["conversation_id"], "--repo", "/x")
    assert (again.status, again.out) == (2, "")
    assert "keeps its repository" in again.err


@pytest.mark.parametrize("url", ["--upload-pack=x", "https://me:hunter2hunter2@example.org/b", "ext::sh -c x"])
def test_forbidden_address_is_refused_before_anything_is_created(tmp_path: Path, url: str) -> None:
    handloom = Handloom(tmp_path)
    done = handloom("run", "go", "--model", write_script(tmp_path, [FINISH]), f"--repo={url}")
    assert (done.status, done.out) == (2, "")
    assert "epository address" in done.err
    assert "hunter2" not in done.err
    assert handloom.conversations() == []
