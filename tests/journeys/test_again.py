"""`handloom rerun`, as a user types it: what it prints, and the exit status that says whether it came out the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    return Handloom(tmp_path)


@pytest.fixture
def recording(handloom: Handloom, tmp_path: Path) -> str:
    """The id of a session that read a file, and failed at something."""
    (handloom.workspace / "given").write_text("then\n")
    turns: list[dict[str, Any]] = [{"tool_calls": [bash("cat given; date"), bash("ls /nowhere")]}, FINISH]
    return handloom("run", "go", "--model", write_script(tmp_path, turns)).conversation


def test_equal_rerun_exits_with_0_and_a_difference_with_1(handloom: Handloom, tmp_path: Path, recording: str) -> None:
    same = handloom("rerun", recording)
    assert same.status == 0, same.err
    lines = same.lines
    assert lines[0] == "   1 ≈ same except for expected differences: Running command: cat given; date"
    assert lines[1].startswith("       Except for: times")
    assert lines[2] == "   2 ✓ same: Running command: ls /nowhere"
    assert lines[3] == "1 same, 1 same except for expected differences."
    assert "a copy of the workspace as it was at the beginning" in same.err

    other = tmp_path / "other"
    other.mkdir()
    (other / "given").write_text("now\n")
    different = handloom("rerun", recording, "--workspace", str(other), "--stop-at-first")
    assert different.status == 1
    assert different.lines == [
        "   1 ✕ different: Running command: cat given; date",
        "     - then",
        "     + now",
        "Stopped at the first difference.",
        "1 different, 1 not reached.",
    ]


def test_json_has_one_object_for_each_action_and_a_summary(handloom: Handloom, recording: str) -> None:
    done = handloom("rerun", recording, "--json")
    first, second, last = map(json.loads, done.lines)
    assert (first["outcome"], first["differences"]) == ("alike", [])
    assert (second["outcome"], second["number"], second["action"]) == ("same", 2, "run")
    assert (last["summary"]["of"], last["summary"]["is_same"], last["summary"]["same"]) == (recording, True, 1)


def test_conversation_that_cannot_be_rerun_exits_with_2(handloom: Handloom, tmp_path: Path, recording: str) -> None:
    nobody = handloom("rerun", "nobody")
    assert (nobody.status, nobody.out) == (2, "")
    assert "There is no conversation nobody." in nobody.err
    nowhere = handloom("rerun", recording, "--workspace", str(tmp_path / "nowhere"))
    assert nowhere.status == 2
    assert "is not a folder" in nowhere.err
