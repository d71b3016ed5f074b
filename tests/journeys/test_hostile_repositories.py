"""Opening a hostile repository, and working in it with isolation, runs nothing of it on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.hostile import KINDS, Traps, count, files_for_agents
from tests.program import HANDLOOM, Handloom
from tests.runtime.isolation.confined import own

LOOK = "git status; git diff; git log -p -1 | cat; git submodule status; git stash list; git branch -a; git add -A; ls"
COMMIT = "git -c user.name=a -c user.email=b commit -m second; python3 -c 'import json, asyncio'; make; . ./.envrc"


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    for name in ("workspace", "marks"):
        (tmp_path / name).mkdir()
    return Traps(tmp_path / "workspace", tmp_path / "marks")


def test_there_are_enough_hostile_repositories() -> None:
    assert count() >= 30


@pytest.mark.bubblewrap
@pytest.mark.parametrize("kind", KINDS)
def test_work_in_a_hostile_repository_runs_nothing_on_the_host(traps: Traps, tmp_path: Path, kind: str) -> None:
    KINDS[kind](traps)
    own(traps.workspace)
    handloom = Handloom(tmp_path)
    script = write_script(tmp_path, [{"tool_calls": [bash(LOOK)]}, {"tool_calls": [bash(COMMIT)]}, FINISH])
    done = handloom("run", "go", "--model", script, "--verbose")
    assert done.status == 0, done.err
    assert "No sandbox" not in done.err
    assert "first" in done.err, "the commands were run, inside"
    assert traps.sprung() == []


@pytest.mark.parametrize("kind", KINDS)
def test_opening_a_hostile_repository_without_isolation_runs_nothing(traps: Traps, tmp_path: Path, kind: str) -> None:
    """Commands of the agent may run it; what Handloom does itself runs nothing of the repository."""
    KINDS[kind](traps)
    handloom = Handloom(tmp_path, HANDLOOM__SANDBOX__ISOLATION="none")
    script = write_script(tmp_path, [{"tool_calls": [bash("echo begun")]}, FINISH])
    done = handloom("run", "go", "--model", script, "--verbose")
    assert done.status == 0, done.err
    assert "begun" in done.err
    assert traps.sprung() == []


@pytest.mark.parametrize(
    ("options", "isolation"),
    [
        ([], "none"),
        (["--trust"], "none"),
        pytest.param(["--trust"], "auto", marks=pytest.mark.bubblewrap),
    ],
)
def test_agent_files_run_nothing_on_the_host_trusted_or_not(
    traps: Traps, tmp_path: Path, options: list[str], isolation: str
) -> None:
    files_for_agents(traps)
    own(traps.workspace)
    handloom = Handloom(tmp_path, HANDLOOM__SANDBOX__ISOLATION=isolation)
    script = write_script(tmp_path, [{"tool_calls": [bash("echo begun; git status; git diff")]}, FINISH])
    done = handloom("run", "look at one", "--json", "--model", script, *options)
    assert done.status == 0, done.err
    assert traps.sprung() == []
    said = json.dumps(done.events)
    assert ("hostile words" in said) is bool(options)
    assert "root:" not in said
    if options:
        assert ".openhands_instructions: not a regular file" in done.err
        assert ("A hook denied" in said) is (isolation == "auto")
    else:
        assert "handloom trust give" in done.err


def test_hooks_run_if_scripts_are_allowed_without_isolation(traps: Traps, tmp_path: Path) -> None:
    """The control: they are there to be run."""
    files_for_agents(traps)
    careless = {"HANDLOOM__SANDBOX__ISOLATION": "none", "HANDLOOM__SANDBOX__RUN_REPOSITORY_SCRIPTS": "always"}
    script = write_script(tmp_path, [{"tool_calls": [bash("echo begun")]}, FINISH])
    Handloom(tmp_path, **careless)("run", "look", "--model", script, "--trust")
    assert "our-before_action" in traps.sprung()


@pytest.mark.strace
def test_opening_starts_no_program_of_the_repository(traps: Traps, tmp_path: Path) -> None:
    """By the system calls: no program of the workspace is started, and none with words of its files."""
    for kind in ("files of others", "files for agents"):
        KINDS[kind](Traps(traps.workspace, traps.marks))
    (traps.workspace / ".git").rename(tmp_path / "git")
    handloom = Handloom(tmp_path, HANDLOOM__SANDBOX__ISOLATION="none")
    calls = tmp_path / "calls"
    script = write_script(tmp_path, [{"text": "Nothing to do."}])
    command = ["strace", "-f", "-qq", "-s", "4096", "-e", "trace=execve", "-o", str(calls), *HANDLOOM]
    done = subprocess.run(
        [*command, "run", "look", "--model", script],
        cwd=handloom.workspace, env=dict(handloom.environ), capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    started = calls.read_text("utf-8", "replace")
    assert "execve(" in started
    assert str(traps.marks) not in started
    assert f'execve("{traps.workspace}' not in started


def test_git_and_python_on_the_host_trigger_the_traps(traps: Traps) -> None:
    """The control: git and Python in the same folders do."""
    for kind in ("settings of git", "files of others"):
        folder = traps.workspace / kind.partition(" ")[0]
        folder.mkdir()
        KINDS[kind](Traps(folder, traps.marks))
        for command in (["git", "status"], ["git", "diff"], ["git", "add", "-A"], [sys.executable, "-m", "litellm"]):
            subprocess.run(command, cwd=folder, capture_output=True, check=False)
    sprung = traps.sprung()
    assert {"core.fsmonitor", "filter.clean", "filter.process", "module-litellm"} <= set(sprung)
