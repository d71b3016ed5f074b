"""The workspace in a real terminal in ordinary use: start, task, answer, quit, resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import Terminal
from tests.program import Handloom
from tests.runtime.conftest import has_ended

pytestmark = pytest.mark.tmux


@pytest.fixture
def terminal(handloom: Handloom, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    opened = Terminal(handloom, *getattr(request, "param", (120, 36)))
    yield opened
    opened.close()


def descendants(pid: int) -> list[int]:
    """The processes below one."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents if its_parent == parent]
    return found[1:]


@pytest.mark.usefixtures("no_isolation")
@pytest.mark.parametrize("terminal", [(160, 48), (100, 30), (80, 24)], indirect=True, ids=lambda s: f"{s[0]}x{s[1]}")
def test_demo_runs_from_prompt_to_finish(terminal: Terminal) -> None:
    before = terminal.shell("stty -a")
    terminal.handloom("demo")
    terminal.wait_for("Show me what you can do.", "NO SANDBOX")
    terminal.press("Enter")
    terminal.wait_for("finished", "The primes are right")
    terminal.press("F4")
    terminal.wait_for("25 primes below 100", "All of it works.")
    terminal.press("F3")
    terminal.wait_for("agent_state_changed", "finish")
    assert terminal.is_alternate
    terminal.press("C-q")
    terminal.wait_for("Show me what you can do.", gone=True)
    assert terminal.shell("stty -a") == before
    assert not terminal.is_alternate


@pytest.mark.usefixtures("no_isolation")
@pytest.mark.parametrize("terminal", [(160, 48)], indirect=True)
def test_log_is_filtered_and_two_conversations_are_shown_in_a_split(terminal: Terminal) -> None:
    terminal.handloom("demo")
    terminal.wait_for("Show me what you can do.", "NO SANDBOX")
    terminal.press("Enter")
    terminal.wait_for("finished", "The primes are right")
    terminal.press("F3")
    terminal.wait_for("filter")
    terminal.type("/type:run failed")
    terminal.press("Enter")
    terminal.wait_for("type=run failed · 1", "exit 1")
    terminal.press("Enter")
    terminal.wait_for("observation  run", "r JSON")
    terminal.press("Escape")
    terminal.wait_for("r JSON", gone=True)
    terminal.press("Escape")
    terminal.wait_for("agent_state_changed")
    terminal.press("C-n")
    terminal.wait_for("2 ◆ new conversation")
    terminal.press("C-x")
    terminal.type("v")
    terminal.wait_for("✓ Show me what you can do.──", "The primes are right", "No messages yet")
    terminal.press("C-q")
    terminal.wait_for("2 ◆ new conversation", gone=True)


@pytest.mark.usefixtures("no_isolation")
@pytest.mark.parametrize("terminal", [(20, 5)], indirect=True)
def test_terminal_of_20x5_is_usable(terminal: Terminal) -> None:
    terminal.handloom("demo")
    terminal.wait_for("NO SANDBOX")
    terminal.press("Enter")
    terminal.wait_for("provider.", "✓       NO SANDBOX")
    terminal.press("C-q")
    terminal.wait_for("NO SANDBOX", gone=True)


def test_reopened_workspace_is_unchanged(handloom: Handloom, terminal: Terminal) -> None:
    model = write_script(
        handloom.workspace.parent, [{"text": "I look.", "tool_calls": [bash("echo seen-$((40+2))")]}, FINISH]
    )
    terminal.handloom("--model", model)
    terminal.wait_for("Ask for something")
    terminal.type("look around")
    terminal.press("Enter")
    terminal.agree()
    terminal.wait_for("seen-42", "All is done.", "finished")
    terminal.press("C-q")
    terminal.wait_for("All is done.", gone=True)
    terminal.handloom()
    terminal.wait_for("look around", "seen-42", "All is done.", "finished")
    (conversation,) = handloom.conversations()
    assert conversation["title"] == "look around"


def test_workspace_is_unchanged_after_a_kill(handloom: Handloom, terminal: Terminal) -> None:
    turns = [{"text": "I wait.", "tool_calls": [bash("echo begun; sleep 600")]}, FINISH]
    terminal.handloom("--model", write_script(handloom.workspace.parent, turns))
    terminal.wait_for("Ask for something")
    terminal.type("wait for me")
    terminal.press("Enter")
    terminal.agree()
    terminal.wait_for("begun", "running")
    (pid,) = subprocess.run(["pgrep", "-f", f"scripted:{handloom.workspace.parent}"], capture_output=True,
                            text=True, check=True).stdout.split()  # fmt: skip
    started = descendants(int(pid))
    assert started
    os.kill(int(pid), signal.SIGKILL)
    assert all(has_ended(process) for process in started)
    terminal.wait_for("Killed")
    terminal.type("stty sane; clear")
    terminal.press("C-j")  # the terminal is still in raw mode, where Enter ends no line
    terminal.wait_for("Killed", gone=True)
    terminal.handloom()
    terminal.wait_for("wait for me", "I wait.", "Interrupted by a restart", "interrupted by a restart")
    terminal.type("go on")
    terminal.press("Enter")
    terminal.wait_for("finished")
    (conversation,) = handloom.conversations()
    events = handloom.export(conversation["conversation_id"])
    (action,) = [event for event in events if event.get("action") == "run"]
    assert len([e for e in events if e.get("cause") == action["id"] and "observation" in e]) == 1


def test_interrupt_stops_the_command(handloom: Handloom, terminal: Terminal) -> None:
    turns = [{"tool_calls": [bash("echo begun; sleep 600")]}, FINISH]
    terminal.handloom("--model", write_script(handloom.workspace.parent, turns))
    terminal.wait_for("Ask for something")
    terminal.type("go")
    terminal.press("Enter")
    terminal.agree()
    terminal.wait_for("begun", "esc to stop")
    terminal.press("Escape")
    terminal.wait_for("Interrupted", "stopped")


def test_three_headless_runs_and_one_screen_share_a_home(handloom: Handloom, terminal: Terminal) -> None:
    terminal.handloom("demo")
    terminal.wait_for("Show me what you can do.")
    turns = [{"tool_calls": [bash(f"echo {n}")]} for n in range(25)]
    model = write_script(handloom.workspace.parent, [*turns, FINISH])
    runs = [handloom.start("run", f"task {n}", "--model", model, "--json") for n in range(3)]
    terminal.press("Enter")
    printed = []
    for run in runs:
        out, told = run.communicate(timeout=100)
        assert run.returncode == 0, told.decode()
        printed.append([json.loads(line) for line in out.splitlines()])
    terminal.wait_for("finished", "The primes are right")
    assert len(handloom.conversations()) == 4
    for events in printed:
        exported = handloom.export(events[0]["conversation_id"])
        assert exported == events
        assert [e["id"] for e in exported] == list(range(len(exported)))
        assert [e["content"] for e in exported if e.get("observation") == "run"] == [str(n) for n in range(25)]
    screen = next(c for c in handloom.conversations() if c["title"] == "Show me what you can do.")
    shown = handloom.export(screen["conversation_id"])
    assert [e["id"] for e in shown] == list(range(len(shown)))
    states = [event for event in shown if event.get("observation") == "agent_state_changed"]
    assert states[-1]["extras"]["agent_state"] == "finished"


def test_workspace_ends_with_its_terminal(terminal: Terminal, handloom: Handloom) -> None:
    terminal.handloom("--model", write_script(handloom.workspace.parent, [FINISH]))
    terminal.wait_for("waiting for you")
    (pid,) = subprocess.run(["pgrep", "-f", f"scripted:{handloom.workspace.parent}"], capture_output=True,
                            text=True, check=True).stdout.split()  # fmt: skip
    terminal.close()
    assert has_ended(int(pid), within_s=20.0)
