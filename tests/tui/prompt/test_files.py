"""Files for the picker: listed without a repository's say, found fast, likeliest first."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from runtime.git_files import git_files
from tests.journeys.hostile import Traps, git_settings
from tui.prompt import file_picker
from tui.prompt.file_picker import FileIndex, list_files


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with ignored files, and with another repository in it."""
    folder = tmp_path / "work space"
    for name in ("src", "node_modules", "inner"):
        (folder / name).mkdir(parents=True)
    for name in ("src/main.py", "a file.txt", "node_modules/x.js", "build.log", "private.txt", "inner/deep.py"):
        (folder / name).touch()
    (folder / ".gitignore").write_text("*.log\nnode_modules/\n")
    (folder / "inner" / "ignored.tmp").touch()
    (folder / "inner" / ".gitignore").write_text("*.tmp\n")
    for place in (folder, folder / "inner"):
        subprocess.run(["git", "init", "-q", str(place)], check=True)
    (folder / ".git" / "info" / "exclude").write_text("private.txt\n")
    return folder


FOUND = {".gitignore", "src/main.py", "a file.txt", "inner/deep.py", "inner/.gitignore"}


def test_git_lists_files_that_are_not_ignored_and_those_of_nested_repositories(repository: Path) -> None:
    assert set(git_files(repository) or ()) == FOUND
    assert set(list_files(repository)) == FOUND


def test_tracked_files_are_found_and_git_variables_ignored(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "-C", str(repository), "add", "src"], check=True)
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git" / "index"))
    assert set(git_files(repository) or ()) == FOUND


def test_hostile_repository_runs_nothing(tmp_path: Path) -> None:
    for name in ("workspace", "marks"):
        (tmp_path / name).mkdir()
    traps = Traps(tmp_path / "workspace", tmp_path / "marks")
    git_settings(traps)
    traps.write("inner/file.txt", "x")
    subprocess.run(["git", "init", "-q", str(traps.workspace / "inner")], check=True)
    settings = traps.workspace / "inner" / ".git" / "config"
    settings.write_text(settings.read_text() + f'[core]\n fsmonitor = "{traps.command("inner")}; false"\n')
    for mark in traps.marks.iterdir():  # laying the traps may have sprung some
        mark.unlink()
    assert "inner/file.txt" in (git_files(traps.workspace) or ())
    assert traps.sprung() == []


def test_walk_finds_files_and_skips_generated_folders(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert git_files(repository) is None
    found = list_files(repository)
    assert set(found) == FOUND | {"build.log", "private.txt", "inner/ignored.tmp"}
    assert found.index("a file.txt") < found.index("src/main.py"), "the upper folders come first"


def test_ripgrep_is_used_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, folder = tmp_path / "bin", tmp_path / "ws"
    programs.mkdir()
    folder.mkdir()
    program = programs / "rg"
    program.write_text(f"#!/bin/sh\nprintf '%s\\0' {folder}/sub/a.py {folder}/b.py\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    assert list_files(folder) == ["sub/a.py", "b.py"]


def test_unprintable_names_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "evil\x1b]0;x\x07.py").touch()
    (tmp_path / "good.py").touch()
    assert list_files(tmp_path) == ["good.py"]


def test_walk_does_not_follow_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("PATH", "/nonexistent")
    assert sorted(list_files(tmp_path)) == ["file", "loop"]


def test_names_match_before_paths_and_fuzzy_matches_come_last() -> None:
    paths = ["handler/x.py", "src/my_handler.py", "src/handler.py", "h/a/n/dler.py", "other.txt"]
    assert FileIndex(paths).find("handler", 10) == [
        "src/handler.py", "src/my_handler.py", "handler/x.py", "h/a/n/dler.py",
    ]  # fmt: skip
    assert FileIndex(paths).find("SRC/my", 10) == ["src/my_handler.py"], "case does not count"
    assert FileIndex(paths).find("", 2) == ["other.txt", "handler/x.py"], "nothing typed: near the top, then short"
    assert FileIndex(paths).find("zzz", 10) == []


def test_closer_letters_come_first() -> None:
    assert FileIndex(["a/lot/of/b/then/c.py", "x/a-b-c.py"]).find("abc", 2)[0] == "x/a-b-c.py"


@pytest.mark.parametrize("query", ["m", "main", "srvw", "no such file", "e" * 30])
def test_search_in_100_000_files_is_fast(query: str) -> None:
    """By counting: each test of a name is one pass in C, and nothing looks at all ways to scatter the letters."""
    chance = random.Random(1)
    words = ["src", "core", "view", "model", "main", "parser", "here", "eee"]
    paths = ["/".join(chance.choices(words, k=4)) + f"/{n}.py" for n in range(100_000)]
    index = FileIndex(paths)
    assert len(index.find(query, 50)) <= 50


def test_listing_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(20):
        (tmp_path / f"{n}.py").touch()
    monkeypatch.setattr(file_picker, "MAX_FILES", 7)
    assert len(list_files(tmp_path)) == 7
