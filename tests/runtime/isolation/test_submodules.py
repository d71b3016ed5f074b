"""A sandbox cannot make a repository whose settings `git status` of the workspace obeys."""

from __future__ import annotations

import random
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.isolation.submodules import gitlinks
from runtime.isolation.workspace_guard import WorkspaceGuard

RUNS = "touch ran; false"
"""What git runs as `core.fsmonitor`, in the folder of the repository."""


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def submodule(workspace: Path, path: str) -> Path:
    """Make a repository and add it to the index of `workspace`, as a sandbox could."""
    made = repository(workspace / path)
    git(workspace, "update-index", "--add", "--cacheinfo", f"160000,{git(made, 'rev-parse', 'HEAD').strip()},{path}")
    return made


def ran(workspace: Path) -> bool:
    """Whether the user's `git status` runs a command of a submodule's settings."""
    git(workspace, "status")
    return any(workspace.rglob("ran"))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return repository(tmp_path / "workspace")


@pytest.fixture
def guard(workspace: Path) -> WorkspaceGuard:
    guard = WorkspaceGuard(workspace, (".envrc",))
    guard.audit()
    return guard


def test_git_runs_the_settings_of_an_unguarded_submodule(workspace: Path) -> None:
    git(submodule(workspace, "sub"), "config", "core.fsmonitor", RUNS)
    assert ran(workspace)


@pytest.mark.parametrize("path", ["sub", "deep/er/sub", "ü x"])
def test_hostile_submodule_is_moved_aside(workspace: Path, guard: WorkspaceGuard, path: str) -> None:
    git(submodule(workspace, path), "config", "core.fsmonitor", RUNS)
    lines = guard.move_aside()
    assert len(lines) == 1
    assert "/restore " in lines[0]
    assert (workspace / path / ".git.from-sandbox").is_dir()
    assert not ran(workspace)


def test_harmless_submodule_stays_until_its_settings_change(workspace: Path, guard: WorkspaceGuard) -> None:
    sub = submodule(workspace, "sub")
    assert guard.move_aside() == []
    git(sub, "config", "core.fsmonitor", RUNS)  # the index of the workspace is the same
    assert guard.move_aside() != []
    assert not ran(workspace)


def test_nested_submodule_is_found(workspace: Path, guard: WorkspaceGuard) -> None:
    inner = submodule(submodule(workspace, "outer"), "inner")
    git(inner, "config", "core.fsmonitor", RUNS)
    assert [line.split(":")[0] for line in guard.move_aside()] == ["outer/inner/.git"]
    assert not ran(workspace)


@pytest.mark.parametrize("arguments", [["--index-version", "4"], ["--split-index"]])
def test_every_index_format_is_read(workspace: Path, guard: WorkspaceGuard, arguments: list[str]) -> None:
    git(submodule(workspace, "sub"), "config", "core.fsmonitor", RUNS)
    git(workspace, "update-index", *arguments)
    assert guard.move_aside() != []
    assert not ran(workspace)


def test_submodule_with_an_unreadable_index_is_moved_aside(workspace: Path, guard: WorkspaceGuard) -> None:
    sub = submodule(workspace, "sub")
    submodule(sub, "inner")
    (sub / ".git" / "index").write_bytes(b"no index")
    assert guard.move_aside() != []


@pytest.mark.parametrize("target", ["../evil", "evil", "../.git/modules/../../evil"])
def test_submodule_with_settings_elsewhere_is_moved_aside(workspace: Path, guard: WorkspaceGuard, target: str) -> None:
    sub = submodule(workspace, "sub")
    evil = (sub / target).resolve()
    (sub / ".git").rename(evil)
    (sub / ".git").write_text(f"gitdir: {target}\n")
    git(evil, "config", "core.fsmonitor", RUNS)
    assert guard.move_aside() != []
    assert not ran(workspace)


def test_submodule_in_the_modules_folder_of_the_workspace_stays(workspace: Path, guard: WorkspaceGuard) -> None:
    sub = submodule(workspace, "sub")
    (workspace / ".git" / "modules").mkdir()
    (sub / ".git").rename(workspace / ".git" / "modules" / "sub")
    (sub / ".git").write_text("gitdir: ../.git/modules/sub\n")
    assert guard.move_aside() == []


def test_existing_and_restored_submodules_stay(workspace: Path) -> None:
    git(submodule(workspace, "old"), "config", "core.fsmonitor", RUNS)
    guard = WorkspaceGuard(workspace, (".envrc",))
    guard.audit()
    assert guard.move_aside() == []
    git(submodule(workspace, "new"), "config", "core.fsmonitor", RUNS)
    assert guard.move_aside() != []
    assert guard.put_back("new/.git") == "new/.git"
    assert guard.move_aside() == []
    assert (workspace / "new" / ".git").is_dir()


def test_submodules_are_found_in_large_repositories_of_both_object_formats(tmp_path: Path) -> None:
    for format in ("sha1", "sha256"):
        workspace = tmp_path / format
        git(tmp_path, "init", "-q", f"--object-format={format}", str(workspace))
        (workspace / "files").mkdir()
        for number in range(200):
            (workspace / "files" / f"{'x' * (number % 9)}{number}").write_text(str(number))
        git(workspace, "add", "-A")
        name = "1" * (40 if format == "sha1" else 64)
        for path in ("a", "files/sub", "zü"):
            git(workspace, "update-index", "--add", "--cacheinfo", f"160000,{name},{path}")
        for version in ("2", "4"):
            git(workspace, "update-index", "--index-version", version)
            assert set(gitlinks((workspace / ".git" / "index").read_bytes())) >= {"a", "files/sub", "zü"}


def test_random_index_is_read_or_refused(workspace: Path, seed: int) -> None:
    submodule(workspace, "sub")
    index = (workspace / ".git" / "index").read_bytes()
    rng = random.Random(seed)
    for _ in range(2_000):
        changed = bytearray(index)
        for _ in range(rng.randint(1, 8)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        with suppress(ValueError):
            gitlinks(bytes(changed[: rng.randint(0, len(changed))]))


def test_workspace_without_a_repository_has_no_submodules(tmp_path: Path) -> None:
    guard = WorkspaceGuard(tmp_path, (".envrc",))
    guard.audit()
    assert guard.move_aside() == []
