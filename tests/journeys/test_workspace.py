"""The workspace in a real terminal: started, worked in, left, found again, killed, and shared with other processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import Terminal
from tests.program import HANDLOOM, Ended, Handloom
from tests.runtime.conftest import has_ended

pytestmark = pytest.mark.tmux

WORK = [
    {"text": "I look at what is **here**.", "tool_calls": [bash("echo shown in the terminal"), bash("echo two")]},
    {"expect": "two", **FINISH},
]


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    return Handloom(tmp_path, HANDLOOM__AGENT__CONFIRM="never")


def settings_of_the_line(terminal: Terminal, file: Path) -> str:
    """What `stty -a` says, once it has said it."""
    terminal.run("sh", "-c", f"stty -a > {file}; echo settings kept")
    terminal.shows(lambda screen: "settings kept" in screen.splitlines())
    return file.read_text()


def descendants(pid: int) -> list[int]:
    """The processes below one."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


@pytest.mark.parametrize(("columns", "rows"), [(160, 48), (100, 30), (80, 24), (20, 5)], ids=str)
def test_the_demo_from_prompt_to_finish_and_the_terminal_as_it_was(
    columns: int, rows: int, handloom: Handloom, tmp_path: Path
) -> None:
    small = columns < 80
    with Terminal(handloom.environ, tmp_path, columns, rows) as terminal:
        before, modes = settings_of_the_line(terminal, tmp_path / "before"), terminal.modes
        terminal.press("C-l")
        terminal.run(*HANDLOOM, "demo")
        terminal.shows("Show me" if not small else "you can do.")
        assert terminal.modes["alternate_on"] == "1"
        terminal.press("Enter")
        terminal.shows("finished" if not small else "anthropic/claude")
        terminal.shows("anthropic/claude-sonnet" if not small else "-sonnet")
        terminal.press("F3")
        terminal.shows("→ finish")
        terminal.press("F4")
        terminal.shows("All of it works.")
        terminal.shows("NO ISOLATION")
        terminal.press("C-q")
        terminal.shows(lambda screen: screen.rstrip().endswith("ready>"))
        assert terminal.modes == modes
        terminal.press("C-l")
        assert settings_of_the_line(terminal, tmp_path / "after") == before


def test_a_conversation_is_there_when_the_workspace_is_opened_again(handloom: Handloom, tmp_path: Path) -> None:
    with Terminal(handloom.environ, tmp_path, 120, 40) as terminal:
        terminal.run("cd", str(handloom.workspace))
        terminal.run(*HANDLOOM, "--model", write_script(tmp_path, WORK))
        terminal.shows("waits for you")
        terminal.write("show me something")
        terminal.press("Enter")
        terminal.shows("• finished")
        terminal.press("C-q")
        terminal.shows(lambda screen: screen.rstrip().endswith("ready>"))
        terminal.run(*HANDLOOM)
        terminal.shows("• finished")
        for text in ("show me something", "I look at what is here.", "shown in the terminal", "All is done."):
            terminal.shows(text)
        terminal.press("F3")
        terminal.shows("→ finish")
        terminal.press("C-q")
        terminal.shows(lambda screen: screen.rstrip().endswith("ready>"))


def test_after_kill_9_in_the_middle_of_a_command_nothing_runs_on_and_the_work_can_go_on(
    handloom: Handloom, tmp_path: Path
) -> None:
    turns = [{"text": "I wait.", "tool_calls": [bash("echo it begins; sleep 600")]}, FINISH]
    with Terminal(handloom.environ, tmp_path, 120, 40) as terminal:
        terminal.run("cd", str(handloom.workspace))
        terminal.run(*HANDLOOM, "--model", write_script(tmp_path, turns))
        terminal.shows("waits for you")
        terminal.write("wait for it")
        terminal.press("Enter")
        terminal.shows(lambda screen: screen.count("it begins") > 1)
        workspace, *below = descendants(terminal.pid)
        assert below
        os.kill(workspace, signal.SIGKILL)
        assert all(has_ended(pid) for pid in below)
        terminal.run("reset")
        terminal.shows("ready>")
        terminal.press("C-l")
        terminal.run(*HANDLOOM)
        screen = terminal.shows("Interrupted by a restart")
        assert "wait for it" in screen
        terminal.write("go on")
        terminal.press("Enter")
        terminal.shows("• finished")
        terminal.press("C-q")
        terminal.shows(lambda screen: screen.rstrip().endswith("ready>"))
    (listed,) = handloom("list", "--json").out.splitlines()
    events = handloom.export(json.loads(listed)["conversation_id"])
    assert [event["id"] for event in events] == list(range(len(events)))
    (action,) = [event for event in events if event.get("action") == "run"]
    assert len([e for e in events if e.get("cause") == action["id"] and "observation" in e]) == 1


def test_three_runs_and_a_screen_share_one_home(handloom: Handloom, tmp_path: Path) -> None:
    turns = [
        {"text": f"Step {n}. " * 20, "tokens_per_s": 400, "tool_calls": [bash(f"seq {n}00"), bash(f"echo done {n}")]}
        for n in range(1, 7)
    ]
    model = write_script(tmp_path, [*turns, FINISH])
    with Terminal(handloom.environ, tmp_path, 120, 40) as terminal:
        terminal.run("cd", str(handloom.workspace))
        terminal.run(*HANDLOOM, "--model", model)
        terminal.shows("waits for you")
        terminal.write("work beside the others")
        terminal.press("Enter")
        runs = [handloom.start("run", f"run {n}", "--model", model, "--json") for n in range(3)]
        ended = []
        for process in runs:
            out, err = process.communicate(timeout=60)
            ended.append(Ended(process.returncode, out.decode(), err.decode()))
        terminal.shows("• finished")
        terminal.press("C-q")
        terminal.shows(lambda screen: screen.rstrip().endswith("ready>"))
    assert [done.status for done in ended] == [0, 0, 0], [done.err for done in ended]
    listed = [json.loads(line)["conversation_id"] for line in handloom("list", "--json").out.splitlines()]
    assert len(listed) == 4
    for conversation in listed:
        events = handloom.export(conversation)
        assert [event["id"] for event in events] == list(range(len(events)))
        assert events[-1]["extras"]["agent_state"] == "finished"
        assert len([event for event in events if event.get("observation") == "run"]) == 12
        for done in ended:
            if done.conversation == conversation:
                assert done.events == events
