"""git on the host, asked for the user's name: where no repository can have a say, as `git_files` asks for files."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from runtime.isolation.git_config import identity_environment
from tests.journeys.hostile import Traps, git_settings
from tests.program import ROOT


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
        "runtime/checkpoints/shadow_git.py",  # with a repository and settings of our own
        "runtime/git_files.py",
        "runtime/isolation/git_config.py",
        "tui/doctor/checks.py",  # for its version
        "tui/doctor/report.py",  # the name of a row
    ]
