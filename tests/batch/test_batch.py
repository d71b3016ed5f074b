"""`handloom batch` as people use it: real conversations in sandboxes, a ledger that survives, patches that can be
trusted."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from core.batch.ledger import AttemptState, Ledger, TaskState
from core.batch.patches import make_patch
from core.batch.tasks import BatchTask
from core.batch.workspaces import BatchFolderError, prepare
from tests.doubles import FINISH, bash, write_script
from tests.program import Ended, Handloom

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "cost": 0.01}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a.py").write_text("x = 1\n")
    (folder / ".gitignore").write_text("*.pyc\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


class Batch:
    """A batch with a scripted model."""

    def __init__(self, folder: Path, turns: list[dict[str, Any]]) -> None:
        self.handloom, self.out = Handloom(folder), folder / "out"
        self.model = write_script(folder, [{**turn, "usage": USAGE} for turn in turns])
        self.tasks = folder / "tasks.jsonl"

    def write(self, *tasks: dict[str, str]) -> None:
        self.tasks.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("batch", str(self.tasks), "--out", str(self.out), "--model", self.model)

    def run(self, *options: str) -> Ended:
        return self.handloom(*self.arguments, *options)

    def results(self) -> dict[str, dict[str, Any]]:
        lines = (self.out / "results.jsonl").read_text().splitlines()
        return {one["id"]: one for one in map(json.loads, lines)}


def test_tasks_run_in_clones_of_their_own_and_patches_are_kept(tmp_path: Path, repository: Path) -> None:
    batch = Batch(tmp_path, [bash_turn("echo 'x = 2' > a.py; echo b > new.txt; touch c.pyc"), FINISH])
    batch.write(*({"id": f"t{n}", "task": "x", "repo": str(repository), "check": "grep 2 a.py"} for n in range(3)))
    done = batch.run("--workers", "2")
    assert (done.status, done.out) == (0, f"{batch.out / 'results.jsonl'}\n"), done.err
    assert "[3/3, $0.06 spent]" in done.err
    results = batch.results()
    assert {one["state"] for one in results.values()} == {"done"}
    assert len({one["conversation_id"] for one in results.values()}) == 3
    predictions = list(map(json.loads, (batch.out / "predictions.jsonl").read_text().splitlines()))
    assert [one["instance_id"] for one in predictions] == ["t0", "t1", "t2"]
    text = predictions[0]["model_patch"]
    assert "-x = 1\n+x = 2\n" in text
    assert "+++ b/new.txt" in text
    assert "c.pyc" not in text
    clean = tmp_path / "clean"
    git(tmp_path, "clone", "-q", str(repository), str(clean))
    subprocess.run(["git", "apply"], cwd=clean, input=text, text=True, check=True)
    assert (clean / "a.py").read_text() == "x = 2\n"
    shown = batch.handloom("show", results["t1"]["conversation_id"])
    assert shown.status == 0, "an attempt is a conversation like any other"
    assert (batch.out / "t1" / "trajectory.json").is_file()


def bash_turn(command: str) -> dict[str, Any]:
    return {"tool_calls": [bash(command)]}


def test_failed_check_is_final_and_trouble_of_the_machine_is_not(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [FINISH])
    batch.write({"id": "check", "task": "x", "check": "exit 7"}, {"id": "clone", "task": "x", "repo": "/nowhere"})
    done = batch.run()
    assert done.status == 1
    results = batch.results()
    assert (results["check"]["outcome"], results["check"]["attempt"]) == ("failed", 1)
    assert results["check"]["reason"] == "The check failed with exit code 7: exit 7"
    assert (results["clone"]["outcome"], results["clone"]["attempt"]) == ("error", 2)
    assert "| clone | 2 | error |" in (batch.out / "summary.md").read_text()
    again = batch.run()
    assert (again.status, "2 tasks, 0 to do." in again.err) == (1, True), "a failure is not tried again by itself"
    retried = batch.run("--retry-failed", "failed")
    assert "1 failed tasks run again." in retried.err
    assert batch.results()["check"]["attempt"] == 2


def test_budget_is_never_exceeded_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [bash_turn("true"), FINISH])
    batch.write(*({"id": f"t{n}", "task": "x"} for n in range(6)))
    done = batch.run("--workers", "3", "--budget", "0.075")
    assert done.status == 4, done.err
    assert "The budget is spent" in done.err
    with Ledger(batch.out) as ledger:
        assert ledger.spent() <= 0.075
        assert ledger.counts()[TaskState.FAILED] == 0
        before = ledger.counts()[TaskState.DONE]
    assert 0 < before < 6
    done = batch.run("--workers", "3", "--budget", "1")
    assert done.status == 0, done.err
    assert {one["state"] for one in batch.results().values()} == {"done"}


def test_killed_driver_goes_on_and_runs_nothing_twice(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [bash_turn("sleep 0.3"), FINISH])
    batch.write(*({"id": f"t{n}", "task": "x"} for n in range(5)))
    for _ in range(2):
        with batch.handloom.start(*batch.arguments, "--workers", "2", "--json") as process:
            assert process.stdout is not None
            for line in process.stdout:
                if b'"finished"' in line:
                    break
            time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
    done = batch.run("--workers", "2")
    assert done.status == 0, done.err
    with Ledger(batch.out) as ledger:
        rows = ledger.rows()
    assert [row.state for row in rows] == [TaskState.DONE] * 5
    finished = ledger_states(batch.out)
    assert [state for state in finished if state == "finished"] == ["finished"] * 5, "each was accepted once"
    assert set(finished) <= {"finished", "lost"}


def ledger_states(out: Path) -> list[str]:
    from core.store.database import sqlite3

    database = sqlite3.connect(out / "batch.db")
    try:
        return [state for (state,) in database.execute("SELECT state FROM attempts")]
    finally:
        database.close()


def test_interrupted_batch_says_how_to_go_on(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [bash_turn("sleep 60"), FINISH])
    batch.write({"id": "t", "task": "x"})
    with batch.handloom.start(*batch.arguments, "--json") as process:
        assert process.stdout is not None
        assert b'"running"' in process.stdout.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130
    with Ledger(batch.out) as ledger:
        (row,) = ledger.rows()
    assert row.state is TaskState.WAITING
    assert row.ended is not None
    assert row.ended.state is AttemptState.INTERRUPTED


def test_batch_of_another_process_is_watched(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [bash_turn("sleep 1"), FINISH])
    batch.write(*({"id": f"t{n}", "task": "x"} for n in range(3)))
    with batch.handloom.start(*batch.arguments, "--workers", "1", "--json") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        refused = batch.run()
        assert refused.status == 2
        assert f"handloom batch attach {batch.out}" in refused.err
        watched = batch.handloom("batch", "attach", str(batch.out))
        process.communicate(timeout=60)
    assert watched.status == 0, watched.err
    assert "1 running" in watched.err
    assert watched.err.splitlines()[-1] == "3 tasks, 3 done, $0.06"


def test_wrong_list_begins_nothing(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [FINISH])
    batch.write({"id": "t", "tasks": "x"})
    done = batch.run()
    assert (done.status, batch.out.exists()) == (2, False)
    assert "there is no field 'tasks'" in done.err


def test_patch_runs_nothing_of_the_attempt(tmp_path: Path, repository: Path) -> None:
    task, work, out = BatchTask("t", "x", repo=str(repository)), tmp_path / "t" / "work", tmp_path / "out"
    commit = prepare(task, work, out)
    trap = f"touch {tmp_path}/trapped"
    for name in ("core.fsmonitor", "filter.f.clean", "filter.f.smudge", "diff.d.command", "diff.d.textconv"):
        git(work, "config", name, trap)
    (work / ".gitattributes").write_text("* filter=f diff=d\n")
    (work / ".git" / "hooks" / "post-index-change").write_text(f"#!/bin/sh\n{trap}\n")
    (work / ".git" / "hooks" / "post-index-change").chmod(0o755)
    (work / "a.py").write_text("x = 3\n")
    assert "+x = 3\n" in make_patch(task, work, out, commit).text
    assert not (tmp_path / "trapped").exists()


def test_git_of_the_current_folder_has_no_say(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    git(here, "init", "-q")
    trap = f"touch {tmp_path}/trapped; false"
    for name in (
        "core.fsmonitor",
        "core.sshCommand",
        "core.gitProxy",
        "credential.helper",
        "uploadpack.packObjectsHook",
    ):
        git(here, "config", name, trap)
    monkeypatch.chdir(here)
    monkeypatch.setenv("GIT_DIR", str(here / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(here / "index"))
    task, work = BatchTask("t", "x", repo=str(repository)), tmp_path / "t" / "work"
    commit = prepare(task, work, tmp_path / "out")
    (work / "a.py").write_text("x = 3\n")
    assert "+x = 3\n" in make_patch(task, work, tmp_path / "out", commit).text
    assert not (tmp_path / "trapped").exists()


def test_attempts_share_no_file(tmp_path: Path, repository: Path) -> None:
    task = BatchTask("t", "x", repo=str(repository))
    one, two = tmp_path / "one", tmp_path / "two"
    assert prepare(task, one, tmp_path / "out") == prepare(task, two, tmp_path / "out")
    inodes = [{path.stat().st_ino for path in folder.rglob("*") if path.is_file()} for folder in (one, two)]
    assert not inodes[0] & inodes[1]
    assert git(one, "remote", "get-url", "origin").strip() == str(repository)


def test_older_commit_is_checked_out(tmp_path: Path, repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD").strip()
    (repository / "a.py").write_text("x = 9\n")
    git(repository, "commit", "-qam", "two")
    task = BatchTask("t", "x", repo=str(repository), commit=first)
    assert prepare(task, tmp_path / "work", tmp_path / "out") == first
    assert (tmp_path / "work" / "a.py").read_text() == "x = 1\n"
    with pytest.raises(BatchFolderError, match="has no commit nothing"):
        prepare(BatchTask("u", "x", repo=str(repository), commit="nothing"), tmp_path / "w2", tmp_path / "out")


def test_folder_is_copied(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a").write_text("1")
    prepare(BatchTask("t", "x", workspace=str(tmp_path / "code")), tmp_path / "work", tmp_path / "out")
    (tmp_path / "work" / "a").write_text("2")
    assert (tmp_path / "code" / "a").read_text() == "1"
