"""Agents from the command line: which there are, `--agent`, and the consent to a project's."""

from __future__ import annotations

import json
import os
import pty
from pathlib import Path

from tests.agent.test_agent_files import PLAN, REVIEWER
from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom


def project_agent(handloom: Handloom, text: str = "") -> None:
    folder = handloom.workspace / ".handloom" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "r.md").write_text(REVIEWER.format(model="demo") + text)


def test_agents_are_listed_and_broken_files_reported(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    project_agent(handloom)
    own = handloom.home / "agents"
    own.mkdir(parents=True)
    (own / "mine.md").write_text("---\ndescription: Helps.\nmore: x\n---\nHelp.\n")
    listed = handloom("agents")
    assert listed.status == 0
    names = [line.split()[0] for line in listed.lines]
    assert names == ["CodeActAgent", "ReadOnlyAgent", "BrowsingAgent", "Planner", "ACPAgent", "Reviewer"]
    assert "(the project's, not allowed yet)" in listed.out
    assert f"{own / 'mine.md'}:3: 'more' is not known" in listed.err
    (reviewer,) = [one for one in map(json.loads, handloom("agents", "--json").lines) if one["name"] == "Reviewer"]
    assert (reviewer["allowed"], reviewer["model"]) == (False, "demo")


def test_named_agent_is_used(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    model = write_script(tmp_path, [{"tool_calls": [bash("echo x > x.txt")]}, FINISH])
    done = handloom("run", "change it", "--model", model, "--agent", "ReadOnlyAgent", "--json")
    assert done.status == 0, done.err
    assert not (handloom.workspace / "x.txt").exists()
    assert "Tool execute_bash is not registered" in done.out
    nobody = handloom("run", "x", "--model", model, "--agent", "Nobody")
    assert nobody.status == 2
    assert "There is no agent 'Nobody'. Choose one of: ACPAgent, BrowsingAgent, CodeActAgent" in nobody.err


def test_plan_waits_for_approval_unless_approved_by_option(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    work = [{"tool_calls": [bash("echo made > made.txt")]}, FINISH]
    first = handloom("run", "plan it", "--model", write_script(tmp_path, [*PLAN, *work]), "--agent", "Planner")
    assert first.status == 0, first.err
    assert not (handloom.workspace / "made.txt").exists()
    advice = f"handloom run --resume {first.conversation} --approve-plan 'go on'"
    assert advice in first.err
    again = write_script(tmp_path, [*PLAN, {"text": "It stands."}, *work])
    done = handloom("run", "go on", "--resume", first.conversation, "--approve-plan", "--model", again)
    assert done.status == 0, done.err
    assert (handloom.workspace / "made.txt").read_text() == "made\n"


def test_conversation_keeps_its_agent_and_says_so(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    for command in (("run", "x", "--resume", "any", "--agent", "Planner"), ("--resume", "--agent", "Planner")):
        refused = handloom(*command)
        assert (refused.status, refused.out) == (2, "")
        assert "keeps its agent" in refused.err


def test_project_agent_works_after_approval_in_a_terminal(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path)
    project_agent(handloom, "Obey.\n")
    model = write_script(tmp_path, [FINISH])
    run = ("run", "look", "--model", model, "--agent", "Reviewer")
    refused = handloom(*run)
    assert refused.status == 2
    assert "handloom agents --allow Reviewer" in refused.err
    alone = handloom("agents", "--allow", "Reviewer", stdin="y\n")
    assert alone.status == 2
    assert "Obey." in alone.out
    for typed in (b"n\n", b"y\n"):
        assert "Obey." in answered(handloom, typed)
        assert handloom(*run).status == 2
    answered(handloom, b"\n", early=b"yes\n")
    assert handloom(*run).status == 2, "a line that was typed before the question appeared is no answer to it"
    answered(handloom, b"yes\n")
    assert handloom(*run).status == 0
    project_agent(handloom, "Obey me more.\n")
    assert handloom(*run).status == 2


def answered(handloom: Handloom, answer: bytes, *, early: bytes = b"") -> str:
    """What `handloom agents --allow` shows in a terminal in which this is typed, and `early` before the question."""
    ours, theirs = pty.openpty()
    try:
        process = handloom.start("agents", "--allow", "Reviewer", stdin=theirs, stderr=theirs)
        os.write(ours, early)
        said = b""
        while b"Type yes" not in said:
            said += os.read(ours, 1000)
        os.write(ours, answer)
        out, _ = process.communicate(timeout=60)
        return str(out.decode())
    finally:
        os.close(ours)
        os.close(theirs)
