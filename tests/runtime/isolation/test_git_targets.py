"""What git's settings and hooks point at in a workspace is found, and is read-only in a sandbox."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runtime.isolation.git_config import MAX_TARGETS, targets
from runtime.isolation.protected_paths import protecting_mounts
from tests.runtime.isolation.confined import own, repository, run, walled

POINTING = {
    "ln -s ../../scripts/hook .git/hooks/pre-commit": "scripts/hook",
    "git config include.path ../shared.conf": "shared.conf",
    "git config includeIf.gitdir:/.path ../shared.conf": "shared.conf",
    "git config core.hooksPath scripts": "scripts",
    "git config core.fsmonitor ./scripts/hook": "scripts/hook",
    "git config core.sshCommand 'ssh -o ProxyCommand=scripts/hook'": "scripts/hook",
    "git config filter.x.clean 'sh -c \"scripts/hook %f\"'": "scripts/hook",
    "git config filter.x.smudge 'python3 tools/clean.py'": "tools",
    "git config diff.x.textconv scripts/hook": "scripts/hook",
    "git config alias.x '!scripts/hook; true'": "scripts/hook",
    'git config credential.helper "$PWD/scripts/hook"': "scripts/hook",
    "printf '[include]\\npath = more.conf\\n' > .git/more.conf; echo '[alias]x = !scripts/hook' > shared.conf; "
    "git config include.path ../shared.conf": "scripts/hook",
    "cp scripts/hook .git/filter; git config filter.x.clean .git/filter": ".git/filter",
    "mkdir .husky; ln -s ../scripts/hook .husky/pre-push": "scripts/hook",
}
"""By what sets it, the path that is protected then."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = repository(tmp_path / "workspace")
    for name in ("scripts/hook", "tools/clean.py", "shared.conf", "README.md", "src/code.c"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("")
    (workspace / "scripts" / "hook").chmod(0o755)
    return workspace


def set_up(workspace: Path, command: str) -> None:
    trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}  # not root's
    subprocess.run(["bash", "-ec", command], cwd=workspace, check=True, env={**os.environ, **trusted})
    own(workspace)


@pytest.mark.parametrize("command", POINTING)
def test_it_is_found(workspace: Path, command: str) -> None:
    set_up(workspace, command)
    read_only = [mount.path for mount in protecting_mounts(workspace, [".husky"]).mounts if mount.access == "read-only"]
    assert workspace / POINTING[command] in read_only


def test_non_executable_target_stays_writable(workspace: Path) -> None:
    (workspace / ".git" / "refs" / "heads" / "main").write_text("")
    set_up(workspace, "git config alias.x '!grep TODO README.md src tests'; git config user.name src/code.c")
    set_up(workspace, "git config alias.y '!git log refs/heads/main; cat .git/HEAD'")
    assert targets(workspace, [workspace / ".git"]).existing == []


def test_targets_outside_the_workspace_are_ignored(workspace: Path) -> None:
    set_up(workspace, "git config core.hooksPath /etc; ln -s /etc/passwd .git/hooks/x; ln -s loop .git/hooks/loop")
    (workspace / ".git" / "config.worktree").mkdir()
    assert targets(workspace, [workspace / ".git"]).existing == []


def test_unprotected_targets_are_counted(workspace: Path) -> None:
    for number in range(MAX_TARGETS + 3):
        (workspace / f"t{number}.sh").touch()
    set_up(workspace, "for n in $(seq 0 102); do ln -s ../../t$n.sh .git/hooks/h$n; done")
    assert targets(workspace, [workspace / ".git"]).left_out == 3
    assert protecting_mounts(workspace, []).left_out == 3


@pytest.mark.bubblewrap
async def test_it_cannot_be_changed_in_the_sandbox_and_git_on_the_host_runs_what_was_there(workspace: Path) -> None:
    settings = "; ".join(command for command in POINTING if "more.conf" not in command and "sshCommand" not in command)
    set_up(workspace, settings.replace("core.fsmonitor ./scripts/hook", "core.fsmonitor false"))
    async with walled(workspace) as runtime:
        for attack in (
            "echo x >> scripts/hook",
            "rm scripts/hook",
            "mv scripts aside",
            "echo x > shared.conf",
            "mv -f README.md shared.conf",
            "echo x > tools/clean.py",
            "echo x > tools/json.py",
            "mv tools aside",
        ):
            assert (await run(runtime, attack)).exit_code != 0, attack
        assert (await run(runtime, "echo x > src/code.c && echo x > README.md && echo x > new")).exit_code == 0
        assert await runtime.left_behind() == []


@pytest.mark.bubblewrap
async def test_missing_hooks_folder_is_moved_aside_when_it_appears(workspace: Path) -> None:
    set_up(workspace, "git config core.hooksPath my/hooks")
    async with walled(workspace) as runtime:
        done = await run(runtime, "mkdir -p my/hooks && echo x > my/hooks/pre-commit")
        assert "my/hooks: moved to my/hooks.from-sandbox" in done.metadata.suffix
    assert not (workspace / "my" / "hooks").exists()


@pytest.mark.bubblewrap
async def test_too_many_targets_are_reported(workspace: Path) -> None:
    for number in range(MAX_TARGETS + 3):
        (workspace / f"t{number}.sh").touch()
    set_up(workspace, "for n in $(seq 0 102); do ln -s ../../t$n.sh .git/hooks/h$n; done")
    async with walled(workspace) as runtime:
        (told,) = await runtime.left_behind()
    assert told.startswith("3 files that settings and hooks of git point at are not read-only")
