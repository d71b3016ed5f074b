"""Files that the user's programs would execute are found at any depth and in any form, and hostile ones do no harm."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.autorun_paths import NAMES
from runtime.isolation import workspace_audit as survey_module
from runtime.isolation.workspace_audit import CUT, Baseline, audit
from tests.runtime.isolation.confined import isolated, own, repository, run

CHANGES: dict[str, tuple[str, str]] = {
    "git init -q deep/er; git -C deep/er config core.fsmonitor /x": ("deep/er/.git/config", "setting core.fsmonitor"),
    "git init -q a; echo x > a/.git/hooks/post-checkout": ("a/.git/hooks/post-checkout", "runs it as a hook"),
    "git init -q a; ln -sfn /x a/.git/hooks/pre-commit": ("a/.git/hooks/pre-commit", "runs it as a hook"),
    "git init -q a; rm -rf a/.git/hooks; ln -s ../../h a/.git/hooks": ("a/.git/hooks", "a link or no folder"),
    "git init -q a; ln -sf ../../c a/.git/config": ("a/.git/config", "cannot be read"),
    "git init -q a; echo '[core' > a/.git/config": ("a/.git/config", "cannot be understood (line 1)"),
    "git init -q a; head -c 300000 /dev/zero > a/.git/config": ("a/.git/config", "cannot be read"),
    "git init -q a; rm a/.git/config; mkfifo a/.git/config": ("a/.git/config", "cannot be read"),
    "git init -q a; echo '[include]path=x' > a/.git/config.worktree": (
        "a/.git/config.worktree",
        "setting include.path",
    ),
    "git init -q a; mkdir -p a/.git/modules/x/y; cd a/.git/modules/x/y; touch HEAD; echo '[core]pager=x' > config": (
        "a/.git/modules/x/y/config",
        "setting core.pager",
    ),
    "mkdir -p a/.git/worktrees/w; echo '[core]editor=x' > a/.git/worktrees/w/config.worktree": (
        "a/.git/worktrees/w/config.worktree",
        "setting core.editor",
    ),
    "git init -q --bare any; git -C any config core.hooksPath /x": ("any/config", "setting core.hookspath"),
    "mkdir a; echo 'gitdir: /elsewhere' > a/.git": ("a/.git", "takes its settings and hooks from /elsewhere"),
    "git init -q a; echo ../x > a/.git/commondir": ("a/.git/commondir", "takes its settings and hooks from ../x"),
    "git init -q a; echo ' .' > a/.git/commondir": ("a/.git/commondir", "takes its settings and hooks from  ."),
    "mkdir -p a/b; echo 'gitdir: b' > a/.git; touch a/b/HEAD; echo ../c > a/b/commondir": (
        "a/b/commondir",
        "takes its settings and hooks from ../c",
    ),
    "mkdir -p a/.git/worktrees/w; echo /x > a/.git/worktrees/w/commondir": (
        "a/.git/worktrees/w/commondir",
        "takes its settings and hooks from /x",
    ),
    "mkdir a; echo 'gitdir: b' > a/.git; ln -s ../.git/c a/b": ("a/.git", "takes its settings and hooks from b"),
    "mkdir -p a/b; echo 'gitdir:  b' > a/.git; ln -s ../.git/c 'a/ b'": ("a/.git", "settings and hooks from  b"),
    "mkdir -p a/b; printf 'gitdir: c\\0/b' > a/.git; ln -s ../.git/c a/c": ("a/.git", "settings and hooks from c"),
    "mkdir -p a/\ufffd; printf 'gitdir: \\377' > a/.git; ln -s /c $'a/\\377'": (
        "a/.git",
        "settings and hooks from \ufffd",
    ),
    "mkdir a; { echo 'gitdir: b'; yes '' | head -c 300000; } > a/.git": ("a/.git", "a file that cannot be read here"),
    "touch HEAD; mkdir objects refs; git init -q a; git -C a config core.pager x": ("a/.git/config", "core.pager"),
    "mkdir a b; ln -s ../b a/.git": ("a/.git", "a link or no file"),
    "mkdir -p a/.vscode; echo {} > a/.vscode/tasks.json": ("a/.vscode", "editors or tools"),
    "mkdir -p a/.hg; echo '[hooks]' > a/.hg/hgrc": ("a/.hg/hgrc", "editors or tools"),
    "mkdir a; echo x > a/lefthook-local.yml": ("a/lefthook-local.yml", "editors or tools"),
    "mkdir a; echo x > a/.envrc": ("a/.envrc", "editors or tools"),
    "mkdir a; ln -s /x a/.mcp.json": ("a/.mcp.json", "editors or tools"),
}
HARMLESS = (
    "git init -q a; cd a; git remote add origin https://example.org/x; git config user.name x; git checkout -qb new",
    "mkdir -p a/.idea",
    "git init -q a; echo . > a/.git/commondir; mkdir -p a/.git/worktrees/w; echo ../.. > a/.git/worktrees/w/commondir",
    "mkdir .git-x; echo x > envrc; ln -s / root; mkfifo pipe",
)


def found(folder: Path) -> list[str]:
    return [str(finding) for finding in audit(folder, NAMES).findings]


@pytest.mark.parametrize("change", CHANGES)
def test_audit_finds_everything_that_would_run(tmp_path: Path, change: str) -> None:
    baseline = Baseline(tmp_path, NAMES)
    subprocess.run(["bash", "-ec", change], cwd=tmp_path, check=True)
    path, what = CHANGES[change]
    (line,) = baseline.new()
    assert line.startswith(f"{path}: ")
    assert what in line


@pytest.mark.parametrize("change", HARMLESS)
def test_harmless_files_are_not_reported(tmp_path: Path, change: str) -> None:
    subprocess.run(["bash", "-ec", change], cwd=tmp_path, check=True)
    assert found(tmp_path) == []


COME_AND_GO = """
import pathlib, sys
from runtime.isolation.protected_paths import HeldMounts, protecting_mounts
while True:
    HeldMounts(protecting_mounts(pathlib.Path(sys.argv[1]), ()), None).close()
"""


def test_audit_ignores_placeholders(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    with subprocess.Popen([sys.executable, "-c", COME_AND_GO, tmp_path]) as other:
        try:
            while not (tmp_path / ".git/commondir").exists():
                assert other.poll() is None
            assert [line for _ in range(3000) for line in found(tmp_path)] == []
        finally:
            other.kill()


def test_existing_finding_is_reported_only_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".envrc").write_text("one")
    baseline = Baseline(tmp_path, NAMES)
    assert baseline.new() == []
    (tmp_path / "a" / ".envrc").write_text("another")
    assert len(baseline.new()) == 1


def test_job_start_time_survives_the_program(tmp_path: Path) -> None:
    workspace, kept = tmp_path / "workspace", tmp_path / "kept" / "before"
    workspace.mkdir()
    Baseline(workspace, NAMES, kept)
    (workspace / "a").mkdir()
    (workspace / "a" / ".envrc").write_text("made while nobody looked")
    assert len(Baseline(workspace, NAMES, kept).new()) == 1
    kept.write_text("damaged")
    assert Baseline(workspace, NAMES, kept).new() == []


def wide(folder: Path) -> None:
    for number in range(60):
        (folder / f"d{number}").mkdir()


def deep(folder: Path) -> None:
    (folder / "/".join("d" * 100)).mkdir(parents=True)


@pytest.mark.parametrize("shape", [wide, deep])
def test_audit_is_limited_and_reports_it(tmp_path: Path, shape: Callable[[Path], None]) -> None:
    baseline = Baseline(tmp_path, NAMES, max_folders=50)
    shape(tmp_path)
    cut = audit(tmp_path, NAMES, 50)
    assert cut.is_cut
    assert cut.folders <= 61
    assert baseline.new() == [CUT]
    assert Baseline(tmp_path, NAMES, max_folders=50).new() == [CUT], "also where it was so at the beginning"


def test_too_many_nested_paths_are_reported(tmp_path: Path) -> None:
    for number in range(survey_module.MAX_NESTED + 2):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / ".envrc").write_text("x")
    (told,) = Baseline(tmp_path, NAMES).new()
    assert told.startswith("2 repositories and files deeper in the workspace are not read-only")


def test_hostile_files_do_not_stop_the_audit(tmp_path: Path) -> None:
    """Links in circles, names that are no text, what cannot be read, and a secret beside the workspace."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / ".envrc").write_text("x")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "out").symlink_to("../secret")
    (workspace / "self").symlink_to(".")
    os.mkdir(os.fsencode(workspace) + b"/\xff\n\x1b[31m")
    with open(os.fsencode(workspace) + b"/\xff\n\x1b[31m/.envrc", "wb") as file:
        file.write(b"x")
    begun_at = time.thread_time()
    (line,) = found(workspace)
    assert time.thread_time() - begun_at < 1
    assert line.isprintable()


@pytest.mark.bubblewrap
async def test_nested_repositories_and_names_are_protected(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    subprocess.run(["git", "init", "--quiet", str(workspace / "deep" / "er")], check=True)
    (workspace / "deep" / ".vscode").mkdir()
    (workspace / "deep" / ".vscode" / "tasks.json").write_text("{}")
    (workspace / "deep" / "link").mkdir()
    (workspace / "deep" / "link" / ".envrc").symlink_to("../../.vscode")
    own(workspace)
    before = sorted(str(path) for path in workspace.rglob("*"))
    async with isolated(workspace) as runtime:
        for attack in (
            "git -C deep/er config core.fsmonitor x",
            "echo x > deep/er/.git/hooks/pre-commit",
            "mv deep/er/.git/hooks aside",
            "mv deep/er/.git aside",
            "mkdir -p deep/er/.git/modules/x/hooks",
            "echo x > deep/.vscode/tasks.json",
            "mv deep/.vscode aside",
        ):
            assert (await run(runtime, attack)).exit_code != 0, attack
        work = "cd deep/er && touch f && git add f && git -c user.name=a -c user.email=b commit -qm x && echo done"
        assert (await run(runtime, work)).content == "done"
        assert await runtime.left_behind() == []
    assert [path for path in before if not os.path.lexists(path)] == []
    assert not (workspace / "deep" / "er" / ".git" / "modules").exists()


@pytest.mark.bubblewrap
async def test_file_created_inside_is_reported_also_after_the_end(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    async with isolated(workspace) as runtime:
        await run(runtime, "git init -q new && git -C new config core.sshCommand x && mkdir sub && echo x > sub/.envrc")
        during = await runtime.left_behind()
    assert during == await runtime.left_behind()
    assert [line.partition(":")[0] for line in during] == ["new/.git/config", "sub/.envrc"]


def _written(name: str) -> str:
    """A command that writes a file of this name, or a file in a folder of it."""
    last = name.rpartition("/")[2]
    file = name if "." in last[1:] or last.endswith("rc") else f"{name}/file"
    return f"mkdir -p $(dirname {file}) && echo x > {file}"


WRITES = {f"{folder}{name}": _written(f"{folder}{name}") for folder in ("", "new/") for name in NAMES}
WRITES |= {
    f"{folder}.git: {what}": f"{make} && {command}"
    for folder, make in (("", "cd ."), ("new/", "mkdir -p new && cd new && git init -q ."))
    for what, command in {
        "a hook": "echo x > .git/hooks/pre-push",
        "a setting": "git config core.pager /x",
        "a filter": "git config filter.x.clean /x",
        "settings of a worktree": "echo '[core]pager=x' > .git/config.worktree",
        "a module": "cd .git && mkdir -p modules/m && cd modules/m && touch HEAD && echo '[core]pager=x' > config",
    }.items()
}


@pytest.mark.bubblewrap
async def test_every_attack_path_is_blocked_or_reported(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    outcomes, told_before = dict[str, str](), set[str]()
    async with isolated(workspace) as runtime:
        for name, write in WRITES.items():
            done = await run(runtime, f"({write}) 2>/dev/null")
            told = set(await runtime.left_behind())
            outcomes[name] = "blocked" if done.exit_code else "told" if told - told_before else "missed"
            if name in NAMES and name != ".vscode" and not (workspace / name).exists():
                outcomes[name] = "moved"
            told_before = told
    assert [name for name, outcome in outcomes.items() if outcome == "missed"] == []
    assert {outcome for name, outcome in outcomes.items() if name.startswith(".git:")} == {"blocked"}
    assert {name: outcome for name, outcome in outcomes.items() if name in NAMES} == {
        name: "blocked" if name == ".vscode" else "moved" for name in NAMES
    }
    assert len(outcomes) >= 40
