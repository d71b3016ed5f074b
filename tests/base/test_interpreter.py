"""Which folders Handloom's processes import from, as far as that can be seen without starting one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from core.interpreter import OWN, leave_out, start_command, workspaces_of
from tests.program import ROOT

STARTS = re.compile(r"""["']-m["'],\s*["'](?:core|runtime|tui)\b""")
"""A command that starts a Handloom module by its name."""


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`sys.path` for this test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    return sys.path


def given(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put these on PYTHONPATH and `sys.path`, as Python does at its start."""
    names = [str(folder) for folder in folders]
    monkeypatch.setenv("PYTHONPATH", ":".join(names))
    sys.path[:0] = names
    return names


def test_workspaces_are_found_in_the_command_line() -> None:
    assert workspaces_of(["handloom"]) == ["."]
    assert workspaces_of(["handloom", "run", "x", "--workspace", "a", "--work=b"]) == [".", "a", "b"]
    assert workspaces_of(["handloom-server", "--working-dir=c", "--key-file", "d"]) == [".", "c"]
    assert workspaces_of(["handloom", "--workspace"]) == [".", ""]


def test_folders_inside_or_around_a_workspace_are_removed_from_the_path(
    searched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, other = tmp_path / "above" / "workspace", tmp_path / "workspace-of-another"
    (workspace / "deep").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "link").symlink_to(workspace)
    before = list(searched)
    bad = [workspace, workspace / "deep", workspace / "not there", tmp_path / "above", tmp_path / "link", tmp_path]
    given([*bad, other, tmp_path / "nowhere"], monkeypatch)
    leave_out(str(workspace))
    assert searched == [str(other), str(tmp_path / "nowhere"), *before]


def test_removed_folders_are_passed_to_child_processes(
    searched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workspace").mkdir()
    given([tmp_path / "workspace", tmp_path / "other"], monkeypatch)
    leave_out(str(tmp_path / "workspace"))
    python, *rest = start_command("core.llm.model_host", "x")
    assert python == sys.executable
    assert rest == ["-P", f"{OWN}/core/interpreter.py", str(tmp_path / "workspace"), "core.llm.model_host", "x"]


def test_installed_packages_and_own_folders_stay_on_the_path(
    searched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace often holds the environment that Handloom is installed in, and PYTHONPATH may name that, too."""
    monkeypatch.setenv("PYTHONPATH", ":".join(searched))
    wanted = [folder for folder in searched if folder == OWN or folder.endswith("site-packages")]
    leave_out("/")
    assert [folder for folder in searched if folder in wanted] == wanted


def test_no_other_code_starts_a_handloom_module() -> None:
    """What runs in an image is started there with `-I`."""
    found = {
        path.relative_to(ROOT).as_posix()
        for part in ("core", "runtime", "tui", "handloom")
        for path in (ROOT / part).rglob("*.py")
        if STARTS.search(path.read_text("utf-8"))
    }
    assert found == {"runtime/image/__init__.py"}
