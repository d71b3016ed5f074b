"""Approvals in real terminals: typed through, too long for the screen, and with two screens on one conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import Terminal
from tests.program import Handloom

pytestmark = pytest.mark.tmux

Screens = Callable[[], Terminal]


@pytest.fixture
def screens(handloom: Handloom) -> Iterator[Screens]:
    """Makes terminals, and closes them."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Terminal(handloom, 120, 40)))


def test_second_screen_is_read_only_and_names_the_owner(handloom: Handloom, screens: Screens) -> None:
    model = write_script(handloom.workspace.parent, [{"tool_calls": [bash("echo seen-$((40+2))")]}, FINISH])
    first, second = screens(), screens()
    begin(first, model)
    first.wait_for("Run this command?")
    (conversation,) = handloom.conversations()
    id = conversation["conversation_id"]
    second.handloom("--resume", id)
    second.wait_for("is open in another Handloom (process ", "read-only", "look around", "approval required")
    second.press("y", "Enter")
    second.press("C-q")
    second.wait_for("look around", gone=True)
    second.handloom()
    second.wait_for("is open in another Handloom (process ", "This is a new one.", "new conversation")
    second.press("C-q")
    second.wait_for("This is a new one.", gone=True)
    assert "Run this command?" in first.screen, "it was answered by one who only reads"
    first.agree()
    first.wait_for("seen-42", "finished")
    first.press("C-q")
    first.wait_for("look around", gone=True)
    second.handloom("--resume", id)
    second.wait_for("seen-42", "finished")


def test_typed_letters_answer_nothing_and_none_is_lost(handloom: Handloom, screens: Screens) -> None:
    turns = [
        {"tool_calls": [bash("touch made")], "first_token_s": 5.0},
        {"expect": "Reason: not in here", **FINISH},
    ]
    terminal = screens()
    begin(terminal, write_script(handloom.workspace.parent, turns))
    terminal.wait_for("running")
    typed, more = "", 0
    while more < 12:  # until the question has been there for some keys
        terminal.type(key := "ynlapwsev"[len(typed) % 9])
        typed += key
        time.sleep(0.12)  # as fast as people type
        more += "Run this command?" in terminal.screen
        assert len(typed) < 300, "the question did not come, or did not stay"
    shown = terminal.wait_for("Run this command?", "(risk: low)", typed[-18:])
    assert typed in "".join(line.strip(" │▊▎") for line in shown.split("\n"))
    assert not (handloom.workspace / "made").exists()
    terminal.press("C-c")
    terminal.read_the_question()
    terminal.type("not in here")
    terminal.press("Enter")
    terminal.wait_for("finished", "rejected")
    assert not (handloom.workspace / "made").exists()


def test_command_longer_than_the_screen_can_be_read_completely(handloom: Handloom, screens: Screens) -> None:
    long = "echo begin\n" + "\n".join(f"echo line {n}" for n in range(200)) + "\nrm -f ./\u202egpj.exe\u200b"
    terminal = screens()
    terminal.resize(80, 24)
    begin(terminal, write_script(handloom.workspace.parent, [{"tool_calls": [bash(long)]}, FINISH]))
    terminal.wait_for("Run this command?", "202 lines", "echo begin", "Deny and stop the agent")
    terminal.press("C-End")
    terminal.wait_for("U+202E", "U+200B", "echo line 199")
    terminal.press("C-Home")
    terminal.wait_for("echo begin")


def begin(terminal: Terminal, model: str) -> None:
    terminal.handloom("--model", model)
    terminal.wait_for("Ask for something")
    terminal.type("look around")
    terminal.press("Enter")
