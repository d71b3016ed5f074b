"""What git would carry out by a settings file: what is not known to be harmless is named, and git reads it so, too."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from runtime.isolation.git_config import Setting, UnreadableError, dangerous, settings
from tests.journeys.hostile import GIT_SETTINGS

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
