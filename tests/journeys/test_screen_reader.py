"""The screen-reader mode on a terminal: a message, a question, an answer, an end, and nothing that is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


def test_a_task_from_message_to_end_without_a_drawn_line(handloom: Handloom) -> None:
    model = write_script(
        handloom.workspace.parent, [{"text": "I look.", "tool_calls": [bash("echo seen-$((40+2))")]}, FINISH]
    )
    with lines(handloom, "--model", model, term="dumb") as terminal:
        terminal.wait_for("You: ", raw=True)
        terminal.write("look around\n")
        terminal.wait_for("Command: echo seen", "Question: Run this command?", "Answer: ", raw=True)
        terminal.write("y\n")
        terminal.wait_for("Output: seen-42", "Exit 0", "Agent, finished: All is done.", "Status: finished", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
        text = terminal.raw.decode()
    assert "\x1b" not in text
    assert text.isascii()
    said = ("Agent: I look.", "Command:", "Question:", "Output:", "Exit 0", "Agent, finished:", "Left.")
    places = [text.index(words) for words in said]
    assert places == sorted(places)
    with lines(handloom, "--model", model) as again:
        again.wait_for("You: look around", "Agent, finished: All is done.", raw=True)


def test_a_no_with_its_reason_and_a_stop(handloom: Handloom) -> None:
    model = write_script(
        handloom.workspace.parent,
        [{"tool_calls": [bash("rm -rf x")]}, {"tool_calls": [bash("echo begun; sleep 600")]}, FINISH],
    )
    with lines(handloom, "--model", model) as terminal:
        terminal.wait_for("You: ", raw=True)
        terminal.write("tidy up\n")
        terminal.wait_for("Answer: ", raw=True)
        terminal.write("perhaps\n")
        terminal.wait_for("Answer y, n or a.", raw=True)
        terminal.write("n keep x\n")
        terminal.wait_for("Command: echo begun", raw=True)
        terminal.write("y\n")
        terminal.write(b"\x03")
        terminal.wait_for("Stopping the agent.", "Status: stopped", raw=True)
        terminal.write(b"\x03")
        terminal.wait_for("Nothing runs. Ctrl+D leaves.", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0
    (conversation,) = handloom.conversations()
    events = handloom.export(conversation["conversation_id"])
    assert any("keep x" in str(event) for event in events)


def test_a_plan_is_told_and_carried_out_after_a_yes(handloom: Handloom) -> None:
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
        terminal.wait_for("1. Write it", "Answer y to have this plan carried out", raw=True)
        terminal.write("y\n")
        terminal.wait_for("You approved the plan", "Command: echo made", "Answer: ", raw=True)
        terminal.write("y\n")
        terminal.wait_for("Agent, finished: All is done.", raw=True)
        terminal.write(b"\x04")
        assert terminal.end() == 0


def test_without_a_model_it_says_how_to_give_one(handloom: Handloom) -> None:
    with lines(handloom) as terminal:
        assert terminal.end() == 2
        assert b"No model is configured. Give one with --model" in terminal.raw


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_can_draw_nothing_is_told_about_it(handloom: Handloom, term: str) -> None:
    terminal = OurTerminal(handloom, "demo", TERM=term)
    try:
        assert terminal.end() == 2
        assert b"handloom --screen-reader" in terminal.raw
        assert b"\x1b" not in terminal.raw
    finally:
        terminal.close()
