"""Trust on the command line: nothing of a project counts before a yes, which can be listed and taken back."""

from __future__ import annotations

import json
from pathlib import Path

from tests.doubles import FINISH, write_script
from tests.program import Handloom


def told(handloom: Handloom, tmp_path: Path, *options: str) -> tuple[bool, str]:
    """Whether the agent was told of the project's words, and what stood on standard error."""
    done = handloom("run", "go", "--json", "--model", write_script(tmp_path, [FINISH]), *options)
    assert done.status == 0, done.err
    return any("Words of the project" in json.dumps(event) for event in done.events), done.err


def test_a_yes_is_given_listed_and_taken_back(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    (handloom.workspace / "AGENTS.md").write_text("Words of the project. \x1b[31m")
    (handloom.workspace / ".mcp.json").write_text('{"mcpServers": {"one": {"command": "true"}}}')
    is_told, err = told(handloom, tmp_path)
    assert not is_told
    assert f"handloom trust give {handloom.workspace}" in err
    assert handloom("trust", "list").out == ""
    asked = handloom("trust", "give")
    assert asked.status == 2, "nobody is there to be asked"
    given = handloom("trust", "give", str(handloom.workspace), "--yes")
    assert given.status == 0, given.err
    assert "== AGENTS.md" in given.out
    assert "Words of the project" in given.out
    assert "\x1b" not in given.out
    assert told(handloom, tmp_path)[0]
    listed = handloom("trust", "list", "--json")
    assert [json.loads(line) for line in listed.lines] == [{"folder": str(handloom.workspace), "files": 2}]
    assert json.loads((handloom.home / "mcp.json").read_text())["servers"]
    assert handloom("trust", "revoke", str(handloom.workspace)).status == 0
    assert handloom("trust", "list").out == ""
    assert json.loads((handloom.home / "mcp.json").read_text())["servers"] == {}
    assert not told(handloom, tmp_path)[0]


def test_a_run_may_say_yes_beforehand(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    (handloom.workspace / "AGENTS.md").write_text("Words of the project.")
    assert told(handloom, tmp_path, "--trust")[0]
    assert len(handloom("trust", "list").lines) == 1
