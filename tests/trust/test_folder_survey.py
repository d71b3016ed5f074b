"""The files of a project are read completely within limits, despite obstacles, and never from elsewhere."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from core.trust.folder_reader import FolderReader, UnreadableError
from core.trust.folder_survey import MAX_BYTES, MAX_FILES, Kind, survey_home, survey_project


def put(folder: Path, path: str, text: str = "x") -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def found(folder: Path, *along: str) -> list[tuple[Kind, str]]:
    return [(piece.kind, piece.path) for piece in survey_project(folder, along).pieces]


def test_every_source_is_found_in_its_order(tmp_path: Path) -> None:
    for path in (
        ".openhands_instructions", ".cursorrules", ".handloom/instructions.md", "AGENTS.md", "AGENT.md", "a/AGENTS.md",
        "a/b/agents.md", "c/AGENTS.md", ".openhands/microagents/repo.md", ".openhands/microagents/README.md",
        ".openhands/microagents/deep/er.md", ".handloom/microagents/own.md", ".handloom/skills/one/SKILL.md",
        ".agents/skills/two/SKILL.md", ".handloom/skills/one/other.md", ".handloom/commands/go.md",
        ".handloom/agents/Me.md", ".handloom/hooks.toml", ".mcp.json", ".github/copilot-instructions.md", "CLAUDE.md",
        "GEMINI.md", ".claude/skills/three/SKILL.md", ".claude/commands/ship.md", "b/CLAUDE.md",
    ):  # fmt: skip
        put(tmp_path, path)
    assert found(tmp_path, "a", "a/b") == [
        (Kind.INSTRUCTIONS, ".openhands_instructions"),
        (Kind.INSTRUCTIONS, ".cursorrules"),
        (Kind.INSTRUCTIONS, ".github/copilot-instructions.md"),
        (Kind.INSTRUCTIONS, ".handloom/instructions.md"),
        (Kind.INSTRUCTIONS, "AGENTS.md"),
        (Kind.INSTRUCTIONS, "a/AGENTS.md"),
        (Kind.INSTRUCTIONS, "a/b/agents.md"),
        (Kind.MICROAGENT, ".openhands/microagents/deep/er.md"),
        (Kind.MICROAGENT, ".openhands/microagents/repo.md"),
        (Kind.MICROAGENT, ".handloom/microagents/own.md"),
        (Kind.SKILL, ".handloom/skills/one/SKILL.md"),
        (Kind.SKILL, ".agents/skills/two/SKILL.md"),
        (Kind.SKILL, ".claude/skills/three/SKILL.md"),
        (Kind.COMMAND, ".handloom/commands/go.md"),
        (Kind.COMMAND, ".claude/commands/ship.md"),
        (Kind.AGENT, ".handloom/agents/Me.md"),
        (Kind.HOOKS, ".handloom/hooks.toml"),
        (Kind.MCP, ".mcp.json"),
    ]
    assert survey_project(tmp_path).problems == ()


@pytest.mark.parametrize("name", ["agents.md", "AGENT.md", "agent.md", "CLAUDE.md", "GEMINI.md"])
def test_other_spellings_are_found(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    assert found(tmp_path) == [(Kind.INSTRUCTIONS, name)]


def test_links_out_of_the_folder_are_not_read(tmp_path: Path) -> None:
    outside, folder = put(tmp_path, "secret", "SECRET"), tmp_path / "w"
    folder.mkdir()
    (folder / "AGENTS.md").symlink_to("/etc/shadow")
    (folder / ".cursorrules").symlink_to("../secret")
    (folder / ".mcp.json").symlink_to(outside)
    put(tmp_path, "elsewhere/one/SKILL.md", "SECRET")
    (folder / ".handloom").mkdir()
    (folder / ".handloom/skills").symlink_to(tmp_path / "elsewhere")
    (folder / ".openhands").symlink_to(tmp_path / "elsewhere")
    looked = survey_project(folder)
    assert looked.pieces == ()
    assert any("AGENTS.md: a link" in problem for problem in looked.problems)
    assert any(".handloom/skills: a link" in problem for problem in looked.problems)


def test_link_to_a_file_in_the_same_folder_is_read(tmp_path: Path) -> None:
    put(tmp_path, "CLAUDE.md", "Be kind.")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    (tmp_path / ".cursorrules").symlink_to(".openhands_instructions")
    (tmp_path / ".openhands_instructions").symlink_to(".cursorrules")
    looked = survey_project(tmp_path)
    assert [(piece.path, piece.text) for piece in looked.pieces] == [("AGENTS.md", "Be kind.")]
    assert len(looked.problems) == 2, "links in a circle are told"


def test_fifo_or_device_does_not_block(tmp_path: Path) -> None:
    (tmp_path / ".handloom/skills/one").mkdir(parents=True)
    os.mkfifo(tmp_path / "AGENTS.md")
    os.mkfifo(tmp_path / ".handloom/skills/one/SKILL.md")
    os.mkfifo(tmp_path / ".mcp.json")
    (tmp_path / ".cursorrules").symlink_to("/dev/zero")
    (tmp_path / ".handloom/hooks.toml").mkdir()
    looked = survey_project(tmp_path)
    assert looked.pieces == ()
    assert sum("not a regular file" in problem for problem in looked.problems) == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_device_is_not_opened(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "AGENTS.md", 0o20666, os.makedev(1, 5))
    except OSError:
        pytest.skip("no devices can be made here")
    assert survey_project(tmp_path).pieces == ()


def test_ten_thousand_files_are_surveyed_in_time(tmp_path: Path) -> None:
    folder = tmp_path / ".openhands/microagents"
    folder.mkdir(parents=True)
    one = put(tmp_path, "one")
    for number in range(10_000):
        os.link(one, folder / f"{number:05}.md")
    began = time.thread_time()
    looked = survey_project(tmp_path)
    assert time.thread_time() - began < 10
    assert len(looked.pieces) == MAX_FILES
    assert looked.problems == (f".openhands/microagents: only the first {MAX_FILES} of 10000 files are read",)


def test_timeout_is_reported_and_keeps_what_was_found(tmp_path: Path) -> None:
    put(tmp_path, ".cursorrules")
    put(tmp_path, "AGENTS.md")
    ticks = iter([0.0, 0.0, 0.0, *[99.0] * 100])
    looked = survey_project(tmp_path, clock=lambda: next(ticks))
    assert [piece.path for piece in looked.pieces] == [".cursorrules"]
    assert len(looked.problems) == 1


def test_too_long_or_binary_file_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "AGENTS.md", "x" * (MAX_BYTES + 1))
    (tmp_path / ".cursorrules").write_bytes(b"one\n\xff\n")
    with (tmp_path / ".mcp.json").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    looked = survey_project(tmp_path)
    assert looked.pieces == ()
    assert [problem.partition(": ")[0] for problem in looked.problems] == [".cursorrules:2", "AGENTS.md", ".mcp.json"]


def test_missing_folder_has_no_pieces(tmp_path: Path) -> None:
    assert survey_project(tmp_path / "no").pieces == ()
    assert survey_home(tmp_path / "no").problems == ()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", ".", "a/../b", "a\0b", ""])
def test_path_outside_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    with FolderReader(tmp_path) as reader, pytest.raises(UnreadableError):
        reader.read(path, 10)
