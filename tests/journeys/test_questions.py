"""Every kind of question in a real terminal, answered by keyboard alone, at three sizes.

What was on the screen is kept as an asciicast: in HANDLOOM_CASTS, where that names a folder, else for the test alone.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import FINISH, bash, call, write_script
from tests.journeys.recorder import Recorder
from tests.journeys.terminal import GUARD_MS, Terminal
from tests.program import ROOT, Handloom

pytestmark = pytest.mark.tmux

PLAN = {
    "tool_calls": [
        call("task_tracker", command="plan", task_list=[{"id": "1", "title": "Look around", "status": "todo"}])
    ]
}
REVIEWER = "---\nname: Reviewer\ndescription: Reads what was changed.\n---\nRead each line.\n"
REMOVE = call("execute_bash", command="rm -rf build", security_risk="HIGH")


def turns(workspace: Path) -> list[dict[str, Any]]:
    """The script of the first conversation: one question of each kind."""
    path = str(workspace / "notes.txt")
    edit = call("str_replace_editor", command="create", path=path, file_text="one\ntwo\n", security_risk="LOW")
    return [
        PLAN,
        {"text": "That is my plan."},
        {"tool_calls": [bash("echo seen")]},
        {"tool_calls": [REMOVE]},
        {"expect": "please don't", "tool_calls": [edit]},
        {"text": "A summary.", "fault": "server_error"},
        {"tool_calls": [bash("git status")]},
        {"tool_calls": [bash("git status")]},
        {"tool_calls": [REMOVE]},
        FINISH,
    ]


def later_turns() -> list[dict[str, Any]]:
    """The script of the second conversation: a loop, a limit, an MCP tool, and the end."""
    return [
        *[{"tool_calls": [bash("echo again")]}] * 4,
        {"tool_calls": [call("good__add", a=2, b=3)]},
        FINISH,
    ]


def last_turns() -> list[dict[str, Any]]:
    """The script of the third conversation: two actions at once, provider failures, a dead sandbox."""
    return [
        {"tool_calls": [bash("echo one"), bash("echo two")]},
        {"tool_calls": [bash("kill -9 $PPID")], "fault": "rate_limit"},
        FINISH,
    ]


@pytest.mark.parametrize("size", [(160, 48), (80, 24), (40, 12)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_every_kind_of_question_is_answered_by_keyboard(tmp_path: Path, size: tuple[int, int]) -> None:
    handloom = Handloom(tmp_path, HANDLOOM__LLM__NUM_RETRIES="1")
    (handloom.workspace / "build").mkdir()
    (handloom.workspace / "AGENTS.md").write_text("Be brief.\n")
    with closing(Terminal(handloom, *size)) as terminal:
        seen = Recorder(terminal, *size)
        terminal.handloom("--agent", "Planner", "--model", write_script(tmp_path, turns(handloom.workspace)))
        _answer_all(terminal, seen)
        terminal.press("C-q")
        terminal.wait_for("NO SANDBOX", gone=True)
    later = Handloom(tmp_path / "later", HANDLOOM__AGENT__MAX_ITERATIONS="5")
    later.home.mkdir(parents=True, exist_ok=True)
    (later.home / "config.toml").write_text(
        f"[mcp.servers.good]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = {json.dumps([str(ROOT / 'tests/mcp/server.py'), 'stdio'])}\n"
    )
    with closing(Terminal(later, *size)) as terminal:
        seen.terminal = terminal
        terminal.handloom("--model", write_script(tmp_path, later_turns(), "later.yaml"))
        _answer_halts(terminal, seen)
        terminal.press("C-q")
        terminal.wait_for("NO SANDBOX", gone=True)
    last = Handloom(tmp_path / "last", HANDLOOM__LLM__NUM_RETRIES="1")
    agents = last.workspace / ".handloom" / "agents"
    agents.mkdir(parents=True)
    (agents / "reviewer.md").write_text(REVIEWER)
    with closing(Terminal(last, *size)) as terminal:
        seen.terminal = terminal
        terminal.handloom("--model", write_script(tmp_path, last_turns(), "last.yaml"))
        _answer_rest(terminal, seen)
        seen.save(tmp_path, f"questions-{size[0]}x{size[1]}.cast")
        terminal.press("C-q")
        terminal.wait_for("NO SANDBOX", gone=True)
    assert (handloom.workspace / "build").is_dir()
    assert (handloom.workspace / "notes.txt").read_text() == "one\ntwo\n"
    (conversation,) = handloom.conversations()
    events = handloom.export(conversation["conversation_id"])
    messages = [event for event in events if event.get("action") == "message" and event["source"] == "user"]
    said = [message["args"]["content"] for message in messages]
    assert said == ["look around", "summary please", "go on"]
    assert len([event for event in events if event.get("action") == "run"]) == 5


def _answer_all(terminal: Terminal, seen: Recorder) -> None:
    seen.sees("Trust ", "Do not trust them")
    terminal.choose(2)
    seen.sees("Do not trust them", gone=True)
    terminal.type("look around")
    terminal.press("Enter")
    seen.sees("Approve this plan?", "Approve the plan")
    terminal.choose(1)
    seen.sees("Run this command?", "echo seen")
    terminal.choose(1)
    seen.sees("rm -rf build", "❯ 3 Deny")
    terminal.read_the_question()
    terminal.type("please don't")
    terminal.press("Enter")
    seen.sees("Create this file?", "Allow once")
    terminal.choose(1)
    seen.sees("The model did not answer", "Try again")
    terminal.read_the_question()
    terminal.type("summary please")
    terminal.press("Enter")
    seen.sees("The model did not answer", gone=True)
    seen.sees("A summary.")
    terminal.type("go on")
    terminal.press("Enter")
    seen.sees("git status", "❯ 1 Allow once")
    terminal.choose(2)
    seen.sees("Always allow in this", "bash(git status")
    terminal.read_the_question()
    terminal.press("Enter")
    seen.sees("rm -rf build", "❯ 3 Deny")
    terminal.read_the_question()
    terminal.press("Escape")
    seen.sees("This action is still waiting")
    terminal.press("BTab", "BTab")
    seen.sees("Now denied by")
    terminal.choose(4)
    seen.sees("Now denied by", gone=True)


def _answer_halts(terminal: Terminal, seen: Recorder) -> None:
    seen.sees("waiting for you")
    terminal.press("C-x", "M")
    terminal.wait_for("6 tools")  # the server is ready
    terminal.press("Escape")
    terminal.wait_for("6 tools", gone=True)
    terminal.type("add them")
    terminal.press("Enter")
    seen.sees("echo again", "Allow once")
    terminal.choose(2)
    seen.sees("Always allow in this")
    terminal.read_the_question()
    terminal.press("Enter")
    seen.sees("The agent seems stuck in a loop", "Tell the agent")
    terminal.choose(1)
    seen.sees("good__add", "Allow once")
    terminal.choose(1)
    seen.sees("A limit was reached", "Extend the limit")
    terminal.choose(1)
    seen.sees("finished")


def _answer_rest(terminal: Terminal, seen: Recorder) -> None:
    seen.sees("Trust ", "Do not trust them")
    terminal.choose(1)
    seen.sees("Do not trust them", gone=True)
    seen.sees("waiting for you")
    terminal.press("C-x", "G")
    seen.sees("Type to narrow down")
    terminal.type("Reviewer")
    seen.sees("CodeActAgent", gone=True)
    terminal.press("Enter")
    seen.sees("Do not use it", "Allow this agent")
    terminal.choose(2)
    seen.sees("Do not use it", gone=True)
    seen.sees("2 ◆")
    terminal.type("begin")
    terminal.press("Enter")
    seen.sees("echo one", "Allow once")
    terminal.choose(1)
    seen.sees("▌ echo two", "Allow once")  # the chat has "$ echo two" already
    terminal.choose(1)
    seen.sees("The model did not answer", "❯ 1 Try again")
    terminal.choose(2)
    seen.sees("Type to narrow down")
    terminal.press("Escape")
    seen.sees("The model did not answer", "❯ 2 Choose another model")
    terminal.choose(1)
    seen.sees("kill -9", "❯ 2 Deny")
    terminal.choose(1)
    seen.sees("The sandbox has stopped", "Restart the sandbox")
    terminal.choose(1)
    seen.sees("finished")


def test_early_keys_do_not_answer(tmp_path: Path) -> None:
    handloom = Handloom(tmp_path, **{GUARD_MS: "60000"})
    with closing(Terminal(handloom, 100, 30)) as terminal:
        terminal.handloom("--model", write_script(tmp_path, [{"tool_calls": [bash("touch made")]}, FINISH]))
        terminal.wait_for("Ask for something")
        terminal.type("go")
        terminal.press("Enter")
        terminal.wait_for("Run this command?")
        terminal.press("Enter")
        terminal.wait_for("the key was ignored")
        terminal.type("yes")
        terminal.press("Enter")
        assert "Run this command?" in terminal.wait_for("yes", "1 Allow once")
        assert not (handloom.workspace / "made").exists()
