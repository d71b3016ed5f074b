"""Opening a hostile repository, and working in it with walls, carries out nothing of it on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.hostile import KINDS, Traps, count
from tests.program import Handloom
from tests.runtime.walled import own

LOOK = "git status; git diff; git log -p -1 | cat; git submodule status; git stash list; git branch -a; git add -A; ls"
COMMIT = "git -c user.name=a -c user.email=b commit -m second; python3 -c 'import json, asyncio'; make; . ./.envrc"


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    for name in ("workspace", "marks"):
        (tmp_path / name).mkdir()
    return Traps(tmp_path / "workspace", tmp_path / "marks")


def test_there_are_enough_of_them() -> None:
    assert count() >= 30


@pytest.mark.bubblewrap
@pytest.mark.parametrize("kind", KINDS)
def test_working_in_one_carries_out_nothing_on_the_host(traps: Traps, tmp_path: Path, kind: str) -> None:
    KINDS[kind](traps)
    own(traps.workspace)
    handloom = Handloom(tmp_path)
    script = write_script(tmp_path, [{"tool_calls": [bash(LOOK)]}, {"tool_calls": [bash(COMMIT)]}, FINISH])
    done = handloom("run", "go", "--model", script)
    assert done.status == 0, done.err
    assert "No isolation" not in done.err
    assert "first" in done.out, "the commands were run, inside"
    assert traps.sprung() == []


@pytest.mark.parametrize("kind", KINDS)
def test_opening_one_without_walls_carries_out_nothing_either(traps: Traps, tmp_path: Path, kind: str) -> None:
    """What the agent runs is the agent's; what we do by ourselves is nothing of the repository's."""
    KINDS[kind](traps)
    handloom = Handloom(tmp_path, HANDLOOM__SANDBOX__ISOLATION="none")
    done = handloom("run", "go", "--model", write_script(tmp_path, [{"tool_calls": [bash("echo begun")]}, FINISH]))
    assert done.status == 0, done.err
    assert "begun" in done.out
    assert traps.sprung() == []


def test_whoever_is_careless_on_the_host_springs_them(traps: Traps) -> None:
    """The control: git and Python in the same folders do."""
    for kind in ("settings of git", "files of others"):
        folder = traps.workspace / kind.partition(" ")[0]
        folder.mkdir()
        KINDS[kind](Traps(folder, traps.marks))
        for command in (["git", "status"], ["git", "diff"], ["git", "add", "-A"], [sys.executable, "-m", "litellm"]):
            subprocess.run(command, cwd=folder, capture_output=True, check=False)
    sprung = traps.sprung()
    assert {"core.fsmonitor", "filter.clean", "filter.process", "module-litellm"} <= set(sprung)
