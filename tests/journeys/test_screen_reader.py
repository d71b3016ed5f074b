"""The screen-reader mode on a terminal: a message, a question, an answer, an end, and nothing that is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import FINISH, bash, call, write_script
from tests.journeys.terminal_of_ours import OurTerminal
from tests.program import Handloom


@contextmanager
def lines(handloom: Handloom, *arguments: str, term: str = "xterm") -> Iterator[OurTerminal]:
    terminal = OurTerminal(handloom, "--screen-reader", *arguments, TERM=term)
    try:
        yield terminal
    finally:
        terminal.close()


def test_task_runs_without_drawn_lines(handloom: Handloom) -> None:
    model = write_script(
        handloom.workspace.parent, [{"text": "I look.", "tool_calls": [bash("echo seen-$((40+2))")]}, FINISH]
    )
    with lines(handloom, "--model", model, term="dumb") as terminal:
        terminal.wait_for("You: ", raw=True)
        terminal.write("look around\n")
        terminal.wait_for("Command: echo seen", "Question: Run this command?", "Answer: ", raw=True)
        terminal.write("yes\n")
        terminal.wait_for("Output: seen-42", "Exit 0", "Agent, finished: All is done.", "Status: finished", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
        text = terminal.raw.decode()
    assert "\x1b" not in text
    assert text.isascii()
    said = ("Agent: I look.", "Command:", "Question:", "Output:", "Exit 0", "Agent, finished:", "Quit.")
    places = [text.index(words) for words in said]
    assert places == sorted(places)
    with lines(handloom, "--model", model) as again:
        again.wait_for("You: look around", "Agent, finished: All is done.", raw=True)


def test_denial_with_a_reason_and_stop_work(handloom: Handloom) -> None:
    model = write_script(
        handloom.workspace.parent,
        [{"tool_calls": [bash("rm -rf x")]}, {"tool_calls": [bash("echo begun; sleep 600")]}, FINISH],
    )
    with lines(handloom, "--model", model) as terminal:
        terminal.wait_for("You: ", raw=True)
        terminal.write("tidy up\n")
        terminal.wait_for("Answer: ", raw=True)
        for word in ("perhaps", "y", "yes please", "always", "always a"):
            terminal.write(f"{word}\n")
        terminal.wait_for("Answer yes, no, stop, always or never.", raw=True)
        terminal.write("no keep x\n")
        terminal.wait_for("echo begun; sleep 600\r\nReason:", raw=True)
        terminal.write("yes\n")
        terminal.write(b"\x03")
        terminal.wait_for("Stopping the agent.", "Status: stopped", raw=True)
        terminal.write(b"\x03")
        terminal.wait_for("Nothing is running. Ctrl+D quits.", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
    (conversation,) = handloom.conversations()
    events = handloom.export(conversation["conversation_id"])
    assert any("keep x" in str(event) for event in events)


ASKED = "To always allow bash(git branch *), answer: always conversation, always project or always everywhere."


@pytest.mark.parametrize(
    ("scope", "kept"), [("conversation", False), ("project", True), ("everywhere bash(git *)", True)]
)
def test_approval_has_its_chosen_scope(handloom: Handloom, scope: str, kept: bool) -> None:
    turns = [{"tool_calls": [bash("git branch 1")]}, {"tool_calls": [bash("git branch 2")]}, FINISH]
    with lines(handloom, "--model", write_script(handloom.workspace.parent, turns)) as terminal:
        terminal.wait_for("You: ", raw=True)
        terminal.write("test it\n")
        terminal.wait_for(ASKED, "Reason: mode", "Answer: ", raw=True)
        terminal.write("always everywhere bash(make *)\n")
        terminal.wait_for("The pattern does not match this action: bash: git branch 1.", raw=True)
        terminal.write(f"always {scope}\n")
        terminal.wait_for("Command: git branch 2", "Agent, finished: All is done.", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
        assert terminal.raw.decode().count("Question: Run this command?") == 1
    listed = handloom("permissions", "list").out
    assert ("git" in listed) == kept
    assert "make" not in listed


def test_always_deny_is_stored_and_ask_rules_offer_no_always_allow(handloom: Handloom) -> None:
    handloom.home.mkdir(parents=True)
    (handloom.home / "policy.toml").write_text('ask = ["bash(git branch *)"]\n')
    turns: list[dict[str, Any]] = [{"tool_calls": [bash("git branch 1")]},
             {"expect": "does not want this", "tool_calls": [bash("git branch 1")]}, FINISH]  # fmt: skip
    with lines(handloom, "--model", write_script(handloom.workspace.parent, turns)) as terminal:
        terminal.wait_for("You: ", raw=True)
        terminal.write("test it\n")
        terminal.wait_for("Reason: policy.toml:1 ask", "This rule always asks", "Answer: ", raw=True)
        terminal.write("always project\n")
        terminal.wait_for("This rule always asks. Answer yes to allow the action once.", raw=True)
        terminal.write("never project\n")
        terminal.wait_for("Agent, finished: All is done.", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
        assert "To allow" not in terminal.raw.decode()
    assert "deny" in handloom("permissions", "list").out


def test_history_is_compacted_on_request(tmp_path: Path) -> None:
    summary = write_script(tmp_path, [{"text": "They echoed numbers."}], "summary.yaml")
    handloom = Handloom(tmp_path, HANDLOOM__LLM__SUMMARY_MODEL=summary, HANDLOOM__AGENT__CONFIRM="never")
    turns = [*({"tool_calls": [bash(f"echo {n}")]} for n in range(8)), FINISH]
    with lines(handloom, "--model", write_script(tmp_path, turns)) as terminal:
        terminal.wait_for("You: ", raw=True)
        terminal.write("/compact\n")
        terminal.wait_for("Error: No messages yet", raw=True)
        terminal.write("echo numbers\n")
        terminal.wait_for("Agent, finished: All is done.", "Status: finished", raw=True)
        terminal.write("/compact the third number\n")
        terminal.wait_for("Compacted: from your next message on, a summary replaces", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
    (conversation,) = handloom.conversations()
    (asked,) = [
        event for event in handloom.export(conversation["conversation_id"])
        if event.get("action") == "condensation_request"
    ]  # fmt: skip
    assert asked["args"]["keep"] == "the third number"


def test_folder_trust_is_asked_before_the_first_message(handloom: Handloom) -> None:
    (handloom.workspace / "AGENTS.md").write_text("Be kind.\nAlways.\n")
    model = write_script(handloom.workspace.parent, [FINISH, FINISH])
    with lines(handloom, "--model", model) as terminal:
        terminal.wait_for("Question: Trust ", "1. AGENTS.md, instructions, lines: 3", "Answer: ", raw=True)
        assert b"You: " not in terminal.raw
        terminal.write("do it all\n")
        terminal.wait_for("Please answer the question about the folder", raw=True)
        terminal.write("read 1\n")
        terminal.wait_for("AGENTS.md\r\nBe kind.\r\nAlways.", raw=True)
        terminal.write("yes\n")
        terminal.wait_for("Trusted from your next message on", "You: ", raw=True)
        terminal.write("hello\n")
        terminal.wait_for("Agent, finished: All is done.", raw=True)
        terminal.write("/trust\n")
        terminal.wait_for("You trust these files", raw=True)
        terminal.write("revoke\n")
        terminal.wait_for("Trust revoked.", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
    (conversation,) = handloom.conversations()
    events = handloom.export(conversation["conversation_id"])
    (context,) = [event for event in events if event.get("observation") == "recall"]
    assert context["extras"]["repo_instructions"] == "[AGENTS.md]\nBe kind.\nAlways."
    assert next(e["args"]["content"] for e in events if e.get("action") == "message") == "hello"
    assert handloom("trust", "list").out == ""


def test_denied_folder_trust_is_remembered(handloom: Handloom) -> None:
    (handloom.workspace / "AGENTS.md").write_text("Be kind.\n")
    model = write_script(handloom.workspace.parent, [FINISH])
    with lines(handloom, "--model", model) as terminal:
        terminal.wait_for("Question: Trust ", "Answer: ", raw=True)
        terminal.write("no\n")
        terminal.wait_for("Nothing was changed.", "You: ", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
    with lines(handloom, "--model", model) as again:
        again.wait_for("You: ", raw=True)
        assert b"Trust" not in again.raw


def test_plan_is_read_out_and_runs_after_approval(handloom: Handloom) -> None:
    tasks = [{"id": "1", "title": "Write it", "status": "todo"}]
    plan = [call("task_tracker", command="plan", task_list=tasks)]
    turns: list[dict[str, Any]] = [
        {"tool_calls": plan},
        {"text": "That is it."},
        {"tool_calls": [bash("echo made")]},
        FINISH,
    ]
    with lines(handloom, "--model", write_script(handloom.workspace.parent, turns), "--agent", "Planner") as terminal:
        terminal.wait_for("You: ", raw=True)
        terminal.write("write a file\n")
        terminal.wait_for("1. Write it", "Answer yes to carry out this plan", raw=True)
        terminal.write("yes\n")
        terminal.wait_for("You approved the plan", "Command: echo made", "Answer: ", raw=True)
        terminal.write("yes\n")
        terminal.wait_for("Agent, finished: All is done.", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0


def test_missing_model_is_explained(handloom: Handloom) -> None:
    with lines(handloom) as terminal:
        assert terminal.end() == 2
        assert b"No model is configured. Pass --model" in terminal.raw


@pytest.mark.parametrize("term", ["dumb", ""])
def test_dumb_terminal_gets_a_hint(handloom: Handloom, term: str) -> None:
    terminal = OurTerminal(handloom, "demo", TERM=term)
    try:
        assert terminal.end() == 2
        assert b"handloom --screen-reader" in terminal.raw
        assert b"\x1b" not in terminal.raw
    finally:
        terminal.close()
