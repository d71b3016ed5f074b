"""Settings of git: dangerous ones, the files that they point at, and the committer's identity."""

from __future__ import annotations

import ast
import os
import random
import subprocess
from pathlib import Path

import pytest

from runtime.isolation.git_config import (
    MAX_TARGETS,
    Setting,
    UnreadableError,
    dangerous,
    identity_environment,
    settings,
    targets,
)
from runtime.isolation.protected_paths import protecting_mounts
from tests.journeys.hostile import GIT_SETTINGS, Traps, git_settings
from tests.program import ROOT
from tests.runtime.isolation.confined import isolated, own, repository, run

CLONED = """\
[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
	fsmonitor = true
[remote "origin"]
	url = git@example.org:a/b.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
[submodule "s"]
	active = true
	url = https://[2001:db8::1]/s.git
[filter "lfs"]
	clean = git-lfs clean -- %f
	smudge = git-lfs smudge -- %f
	process = git-lfs filter-process
	required = true
[alias]
	st = status --short
[user]
	name = "A ; B" # a comment
"""


def names(text: str) -> list[str]:
    return [setting.name for setting in dangerous(text)]


def test_settings_written_by_git_are_harmless() -> None:
    assert names(CLONED) == []


@pytest.mark.parametrize("name", GIT_SETTINGS)
def test_dangerous_settings_are_found(name: str) -> None:
    assert names(GIT_SETTINGS[name].replace("{}", "touch x"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[core]\nFSMonitor = x", "core.fsmonitor"),
        ("[CORE] hooksPath=x", "core.hookspath"),
        ('[core]\nfsmonitor = "tr"ue', None),
        ("[core]\nfsmonitor", None),
        ("[core]\nfsmonitor =", None),
        ("[core]\nfsmonitor = tr\\\nue", None),
        ("[core]\nfsmonitor = truex", "core.fsmonitor"),
        ("[core]\nbare = false\\\n\n\tsshCommand = x", "core.sshcommand"),
        ("[core]\nbare = false\\\n\tsshCommand = x", None),
        ('[core]\nbare = "\nsshCommand = x"', UnreadableError),
        ("# [x]\n[core] ; y\nsshCommand = x", "core.sshcommand"),
        ("[core]\n# sshCommand = x", None),
        ("[include]\npath = x", "include.path"),
        ('[includeIf "gitdir:/"]\npath = x', "includeif.gitdir:/.path"),
        ('[remote "o"]\nurl = ext::sh -c x', "remote.o.url"),
        ('[remote "o"]\nurl = --upload-pack=x', "remote.o.url"),
        ('[remote "o"]\nvcs = x', "remote.o.vcs"),
        ('[url "ext::sh"]\ninsteadOf = https:', "url.ext::sh.insteadof"),
        ('[filter "a]b\\"c"]\nclean = x', 'filter.a]b"c.clean'),
        ("[filter.Lfs]\nclean = x", "filter.lfs.clean"),
        ('[filter "lfs"]\nclean = "git-lfs clean -- %f; x"', "filter.lfs.clean"),
        ("[alias]\nx = -c core.pager=y log", "alias.x"),
        ("[core]\nworktree = /", "core.worktree"),
        ("[unheard]\nof = x", "unheard.of"),
        ("\ufeff[core]\r\nsshCommand = x\r\n", "core.sshcommand"),
        ("[core\nsshCommand = x", UnreadableError),
        ("sshCommand = x", UnreadableError),
        ("[core]\n= x", UnreadableError),
        ("[core]\nbare = \\q", UnreadableError),
        ("[core]\nbare = x\0\nsshCommand = x", UnreadableError),
    ],
)
def test_config_syntax_is_parsed_like_git(tmp_path: Path, text: str, name: str | type[Exception] | None) -> None:
    if name is UnreadableError:
        with pytest.raises(UnreadableError, match=r"line \d"):
            dangerous(text)
    else:
        assert names(text) == ([name] if name else [])


def test_random_configs_are_parsed_like_git_or_reported(tmp_path: Path, seed: int) -> None:
    """git in a folder of its own, on a file by its name, lists settings and carries none out."""
    chance, agreed = random.Random(seed), 0
    pieces = [
        *'[]"=#;\\ \t\n',
        "core",
        "alias",
        "remote",
        "x",
        "bare",
        "sshCommand",
        "[core]\n",
        '[remote "o"]\n',
        "a = b\n",
    ]
    for _ in range(60):
        text = "[core]\n" + "".join(chance.choice(pieces) for _ in range(chance.randint(1, 25)))
        file = tmp_path / "config"
        file.write_text(text)
        command = ["git", "config", "--file", str(file), "--null", "--list"]
        git = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        try:
            ours: list[Setting] = list(settings(text))
        except UnreadableError:
            continue
        if git.returncode == 0:
            theirs = [tuple(entry.partition("\n")[::2]) for entry in git.stdout.split("\0") if entry]
            assert [setting.name for setting in ours] == [name for name, _ in theirs], text
            for setting, (_, value) in zip(ours, theirs, strict=True):
                assert setting.value.split() == (value or "true").split() or not value, text
            agreed += 1
    assert agreed


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
def test_executable_target_is_found(workspace: Path, command: str) -> None:
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
async def test_executable_target_cannot_be_changed_in_the_sandbox(workspace: Path) -> None:
    settings = "; ".join(command for command in POINTING if "more.conf" not in command and "sshCommand" not in command)
    set_up(workspace, settings.replace("core.fsmonitor ./scripts/hook", "core.fsmonitor false"))
    async with isolated(workspace) as runtime:
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
    async with isolated(workspace) as runtime:
        done = await run(runtime, "mkdir -p my/hooks && echo x > my/hooks/pre-commit")
        assert "my/hooks: moved to my/hooks.from-sandbox" in done.metadata.suffix
    assert not (workspace / "my" / "hooks").exists()


@pytest.mark.bubblewrap
async def test_too_many_targets_are_reported(workspace: Path) -> None:
    for number in range(MAX_TARGETS + 3):
        (workspace / f"t{number}.sh").touch()
    set_up(workspace, "for n in $(seq 0 102); do ln -s ../../t$n.sh .git/hooks/h$n; done")
    async with isolated(workspace) as runtime:
        (told,) = await runtime.left_behind()
    assert told.startswith("3 files that settings and hooks of git point at are not read-only")


def test_hostile_repository_cannot_influence_git_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("workspace", "marks", "out"):
        (tmp_path / name).mkdir()
    traps = Traps(tmp_path / "workspace", tmp_path / "marks")
    git_settings(traps)
    subprocess.run(["git", "-C", str(traps.workspace), "config", "user.name", "Mallory"], check=True)
    (tmp_path / "mine").write_text("[user]\n\tname = Ada\n")
    monkeypatch.chdir(traps.workspace)
    for mark in traps.marks.iterdir():  # laying the traps may have sprung some
        mark.unlink()
    for name, value in {"GIT_DIR": ".git", "GIT_WORK_TREE": ".", "GIT_CONFIG_GLOBAL": str(tmp_path / "mine")}.items():
        monkeypatch.setenv(name, str(traps.workspace / value) if name != "GIT_CONFIG_GLOBAL" else value)
    environ = identity_environment(tmp_path / "out")
    assert traps.sprung() == []
    written = Path(environ["GIT_CONFIG_GLOBAL"]).read_text()
    assert "Ada" in written
    assert "Mallory" not in written


def test_only_known_modules_run_git_on_the_host() -> None:
    """No list of words begins with git but where no repository has a say; the commands of `core.repository` are for
    the shell of the sandbox."""
    found = []
    for package in ("core", "runtime", "tui"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                words = (
                    node.elts
                    if isinstance(node, ast.List | ast.Tuple)
                    else node.args
                    if isinstance(node, ast.Call)
                    else []
                )
                if words and isinstance(words[0], ast.Constant) and words[0].value == "git":
                    found.append(str(file.relative_to(ROOT)))
    assert sorted(found) == [
        "core/git.py",  # in clones that nobody has worked in, with a repository of its own, and to clone one
        "runtime/checkpoints/shadow_git.py",  # with its own repository and settings
        "runtime/git_files.py",
        "runtime/isolation/git_config.py",
        "tui/doctor/checks.py",  # for its version
        "tui/doctor/report.py",  # the name of a row
    ]
