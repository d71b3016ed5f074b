"""What the agent is told about its sandbox: found in the real one, before and while it runs, short and clean."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from core.memory.context_events import environment_text, tokens_of
from runtime.local.local_runtime import LocalRuntime
from runtime.sandbox_facts import (
    BUBBLEWRAP,
    GIT,
    NETWORK,
    NO_SANDBOX,
    ORDER,
    PROGRAMS,
    SANDBOX,
    SHELL,
    SYSTEM,
    VALUE_CHARS,
    WITH_STATE,
    network_text,
    parsed,
    run_script,
)
from tests.runtime.isolation.confined import BUBBLEWRAP as ISOLATED
from tests.runtime.isolation.confined import isolated, own, run

PATIENT_S = 60.0
MAX_TOKENS = 200


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, "-C", str(folder), *words], check=True, capture_output=True)


def found(folder: Path, **environ: str) -> dict[str, str]:
    everything = {**os.environ, **WITH_STATE, **environ}
    return parsed(run_script((), folder=str(folder), environ=everything, timeout_s=PATIENT_S))


def test_branch_and_state_of_the_repository_are_found(tmp_path: Path) -> None:
    assert found(tmp_path)[GIT] == "no repository"
    git(tmp_path, "init", "-b", "main")
    assert found(tmp_path)[GIT] == "branch main, clean"
    (tmp_path / "a").write_text("1")
    assert found(tmp_path)[GIT] == "branch main, uncommitted changes"
    assert found(tmp_path, HANDLOOM_GIT_STATE="")[GIT] == "branch main"
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-m", "a")
    (tmp_path / "b").mkdir()
    assert found(tmp_path / "b")[GIT] == "branch main, clean"
    git(tmp_path, "checkout", "--detach")
    (tmp_path / ".git/MERGE_HEAD").write_text("")
    assert found(tmp_path)[GIT].startswith("no branch, a merge is in progress")


def test_without_the_state_nothing_that_a_repository_names_is_run(tmp_path: Path) -> None:
    """Without isolation the look must not run what a repository names; with it, only a filter within it."""
    git(tmp_path, "init", "-b", "main")
    (tmp_path / "hook").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "hook").chmod(0o755)
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    (tmp_path / ".gitattributes").write_text("* filter=x\n")
    for name in ("core.fsmonitor", "filter.x.clean", "filter.x.process", "core.sshCommand", "core.pager"):
        git(tmp_path, "config", name, str(tmp_path / "hook"))
    (tmp_path / "a").write_text("2")
    assert found(tmp_path, HANDLOOM_GIT_STATE="")[GIT] == "branch main"
    assert not (tmp_path / "ran").exists()


def test_programs_are_looked_for_and_missing_ones_named(tmp_path: Path) -> None:
    for name in ("sed", "tr", "uname", "bash"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    for name in ("rg", "make"):
        (tmp_path / name).touch(0o755)
    facts = found(tmp_path, PATH=str(tmp_path))
    assert facts[PROGRAMS] == "rg, make; missing: python3, node, git, gcc"
    assert facts[SHELL].startswith("bash ")
    assert GIT not in facts


def test_output_of_the_sandbox_is_limited_and_cleaned() -> None:
    output = b"system\tA\x1b[31m\rB\nother\tx\nshell\t\ngit\tone\ngit\ttwo\nprograms\t" + b"x" * 9000 + b"\n"
    assert parsed(output) == {SYSTEM: "A[31mB", GIT: "two"}
    assert parsed(b"git\t" + b"y" * 1000 + b"\nshell\tcut o") == {GIT: "y" * VALUE_CHARS}


def test_time_limit_keeps_what_was_printed(tmp_path: Path) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    slow.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    facts = parsed(run_script((), folder=str(tmp_path), environ=environ, timeout_s=2.0))
    assert (SYSTEM in facts, PROGRAMS in facts, GIT in facts) == (True, True, False)


def test_network_is_described_by_its_hosts() -> None:
    assert network_text(()) == "none"
    assert network_text(("a.example", "*.b.example")) == "only to a.example, *.b.example, through a proxy"
    assert network_text([f"h{n}" for n in range(10)]).endswith("h7 and 2 more, through a proxy")
    assert network_text(("*", "a.example")) == "every host, through a proxy"


async def test_without_isolation_the_agent_is_told_so(tmp_path: Path) -> None:
    facts = await LocalRuntime(tmp_path).facts()
    assert (facts[SANDBOX], facts[NETWORK]) == (NO_SANDBOX, "not limited")


@pytest.mark.bubblewrap
async def test_facts_are_the_same_before_the_sandbox_runs_and_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.sandbox_facts.run_script.__kwdefaults__", {"fds": (), "timeout_s": PATIENT_S})
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    git(workspace, "init", "-b", "main")
    own(workspace)
    listed = sorted(workspace.rglob("*"))
    before = await LocalRuntime(workspace, isolation=ISOLATED).facts()
    assert [*before] == [*ORDER]
    assert (before[SANDBOX], before[NETWORK], before[GIT]) == (BUBBLEWRAP, "none", "branch main, clean")
    assert sorted(workspace.rglob("*")) == listed, "the look writes nothing"
    assert tokens_of(environment_text(before)) < MAX_TOKENS
    async with isolated(workspace) as runtime:
        assert {**await runtime.facts()} == before
        await run(runtime, "git checkout -q -b topic; touch new")
        assert (await runtime.facts())[GIT] == "branch topic, uncommitted changes"
