"""Trust on the command line: nothing of a project is used before approval, which can be listed and revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom
from tests.runtime.isolation.confined import own


def told(handloom: Handloom, tmp_path: Path, *options: str) -> tuple[bool, str]:
    """Whether the agent got the project's instructions, and the standard error."""
    done = handloom("run", "go", "--json", "--model", write_script(tmp_path, [FINISH]), *options)
    assert done.status == 0, done.err
    return any("Words of the project" in json.dumps(event) for event in done.events), done.err


def test_trust_is_given_listed_and_revoked(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    (handloom.workspace / "AGENTS.md").write_text("Words of the project. \x1b[31m")
    (handloom.workspace / ".mcp.json").write_text('{"mcpServers": {"one": {"command": "true"}}}')
    is_told, err = told(handloom, tmp_path)
    assert not is_told
    assert f"handloom trust give {handloom.workspace}" in err
    assert handloom("trust", "list").out == ""
    nowhere = handloom("trust", "give", str(tmp_path / "nowhere"))
    assert (nowhere.status, "does not exist" in nowhere.err) == (2, True)
    nothing = handloom("trust", "list")
    assert (nothing.out, "No folder is trusted." in nothing.err) == ("", True)
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


def test_run_can_trust_by_option(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    (handloom.workspace / "AGENTS.md").write_text("Words of the project.")
    assert told(handloom, tmp_path, "--trust")[0]
    assert len(handloom("trust", "list").lines) == 1


@pytest.mark.bubblewrap
def test_skill_files_are_read_and_run_in_the_sandbox(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    own(handloom.workspace)
    folder = handloom.home / "skills" / "greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nRun run.sh.")
    (folder / "run.sh").write_text(f"cat {folder}/words; touch {tmp_path}/outside {folder}/written; echo ran")
    (folder / "words").write_text("Good day.\n")
    turns = [{"tool_calls": [bash(f"cat {folder}/SKILL.md; sh {folder}/run.sh")]}, FINISH]
    done = handloom("run", "hello", "--json", "--model", write_script(tmp_path, turns))
    assert done.status == 0, done.err
    assert "No sandbox" not in done.err
    context = next(event for event in done.events if event.get("observation") == "recall")
    assert f"- greet ({folder}/SKILL.md): Greets." in context["extras"]["additional_agent_instructions"]
    (output,) = [event["content"] for event in done.events if event.get("observation") == "run"]
    assert "Run run.sh." in output
    assert "Good day." in output
    assert "ran" in output
    assert not (tmp_path / "outside").exists()
    assert not (folder / "written").exists()
