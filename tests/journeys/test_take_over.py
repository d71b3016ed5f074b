"""The user takes over the agent's terminal: real tmux, real bash in the local sandbox, real programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import WAIT_S, Terminal
from tests.program import Handloom

pytestmark = pytest.mark.tmux

YOURS = "you have control, the agent is waiting"


@contextmanager
def workspace(handloom: Handloom, *turns: dict[str, object], columns: int = 100, rows: int = 30) -> Iterator[Terminal]:
    """The workspace with a scripted model that never asks, ready to be typed into."""
    model = write_script(handloom.workspace.parent, [*turns, FINISH])
    handloom.environ = {**handloom.environ, "HANDLOOM__AGENT__CONFIRM": "never"}
    terminal = Terminal(handloom, columns, rows)
    try:
        terminal.handloom("--model", model)
        terminal.wait_for("waiting for you")
        yield terminal
    finally:
        terminal.close()


def wait_until_written(handloom: Handloom, name: str, text: str) -> None:
    """Wait until a file of the workspace says this."""
    path, end = handloom.workspace / name, time.monotonic() + WAIT_S
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < end, f"{name} does not say {text!r}"
        time.sleep(0.05)


def told(handloom: Handloom) -> str:
    """All events of the one conversation, as JSON."""
    (conversation,) = handloom.conversations()
    return json.dumps(handloom.export(conversation["conversation_id"]))


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
def test_vim_edits_a_file_while_the_agent_waits(handloom: Handloom) -> None:
    ticking = bash("while :; do echo ti''ck; sleep 0.5; done")
    with workspace(handloom, {"tool_calls": [ticking]}, {"tool_calls": [bash("cat note.txt")]}) as terminal:
        terminal.type("go")
        terminal.press("Enter")
        terminal.wait_for("tick")
        terminal.press("F12")
        terminal.wait_for(YOURS, "returns control")
        terminal.press("C-c")
        terminal.wait_for("workspace #" if os.getuid() == 0 else "workspace $")
        terminal.type("vim -u NONE -N note.txt")
        terminal.press("Enter")
        terminal.wait_for("[New]")
        terminal.type("ihello from vim")
        terminal.wait_for("-- INSERT --", "hello from vim")
        terminal.press("Escape")
        terminal.wait_for("-- INSERT --", gone=True)
        terminal.type(":wq")
        terminal.press("Enter")
        wait_until_written(handloom, "note.txt", "hello from vim")
        terminal.press("F12")
        terminal.wait_for("finished")
        screen = terminal.wait_for("hello from vim")
        assert YOURS not in screen
        terminal.press("C-q")
    log = told(handloom)
    assert "The user ran:" in log
    assert "vim -u NONE -N note.txt" in log
    assert log.index("The user has given the terminal back") < log.index("cat note.txt")


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
def test_escape_and_following_keys_reach_vim_unchanged(handloom: Handloom) -> None:
    with workspace(handloom) as terminal:
        terminal.press("F12")
        terminal.wait_for(YOURS, "returns control")
        terminal.type("vim -u NONE -N note.txt")
        terminal.press("Enter")
        terminal.wait_for("[New]")
        terminal.press("i", "one three", "Escape", "b", "i", "two ", "Escape", "A", " four", "Escape", ":w", "Enter")
        wait_until_written(handloom, "note.txt", "one two three four\n")
        terminal.press("Escape", ":%s/one.*four/longer than what a parser waits for a sequence to be/", "Enter")
        terminal.press("o", "last", "Escape", ":wq", "Enter")
        wait_until_written(handloom, "note.txt", "longer than what a parser waits for a sequence to be\nlast\n")
        terminal.press("F12")
        terminal.wait_for(YOURS, gone=True)
        terminal.press("C-q")


def test_command_waiting_for_input_is_reported_and_answered(handloom: Handloom) -> None:
    with workspace(handloom, {"tool_calls": [bash("read -p 'go on? ' x; echo answer:$x")]}) as terminal:
        terminal.type("go")
        terminal.press("Enter")
        terminal.wait_for("The command is waiting for input.", "F12")
        terminal.press("F12")
        terminal.wait_for(YOURS, "returns control")
        terminal.type("yes")
        terminal.press("Enter")
        terminal.wait_for("answer:yes")
        terminal.press("F12")
        terminal.wait_for(YOURS, gone=True)
        assert "is waiting for input" not in terminal.screen
        terminal.press("C-q")
    assert "answer:yes" in told(handloom)


def wait_for_lines(terminal: Terminal, top_differs: int = 0, bottom_differs: int = 0) -> tuple[int, int]:
    """Wait until less, with `LINES`, says which lines it shows, other than these; the answer is first and last."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if found := re.search(r"lines (\d+)-(\d+)\b", terminal.screen):
            top, bottom = int(found[1]), int(found[2])
            if top != top_differs and bottom != bottom_differs:
                return top, bottom
        time.sleep(0.05)
    raise AssertionError(f"less shows no other lines than {top_differs} to {bottom_differs}:\n{terminal.screen}")


LINES = "less '-Pslines %lt-%lb.'"


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_less_pages_and_is_resized(handloom: Handloom) -> None:
    with workspace(handloom) as terminal:
        terminal.press("F12")
        terminal.wait_for(YOURS, "returns control")
        terminal.type(f"seq 1 500 | {LINES}")
        terminal.press("Enter")
        first, rows = wait_for_lines(terminal)
        assert first == 1
        terminal.press("G")
        assert wait_for_lines(terminal, top_differs=1) == (501 - rows, 500)
        terminal.resize(80, 24)
        # less keeps its first line, so that only the smaller one has another last line.
        assert wait_for_lines(terminal, bottom_differs=500)[0] == 501 - rows
        terminal.press("G")
        top, bottom = wait_for_lines(terminal, top_differs=501 - rows)
        assert (bottom, 501 - top < rows) == (500, True)
        terminal.type("q")
        terminal.type("stty size")
        terminal.press("Enter")
        terminal.wait_for(f"\n {502 - top} 78")
        terminal.press("C-]")
        terminal.wait_for(YOURS, gone=True)
        terminal.press("C-q")


@pytest.mark.skipif(shutil.which("htop") is None, reason="htop is not installed")
def test_htop_draws_and_ends(handloom: Handloom) -> None:
    with workspace(handloom) as terminal:
        terminal.press("F12")
        terminal.wait_for(YOURS, "returns control")
        terminal.type("htop")
        terminal.press("Enter")
        terminal.wait_for("PID", "F10")
        terminal.press("F10")
        terminal.wait_for("F10", gone=True)
        terminal.press("F12")
        terminal.wait_for(YOURS, gone=True)
        terminal.press("C-q")
