"""A batch at a terminal: it is started, looked at, changed, left, and attached to again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from core.batch.progress import ProgressReader
from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import Terminal
from tests.program import Handloom

pytestmark = [pytest.mark.tmux, pytest.mark.usefixtures("no_isolation")]


@pytest.fixture
def terminal(handloom: Handloom) -> Iterator[Terminal]:
    with closing(Terminal(handloom, 110, 30)) as terminal:
        yield terminal


def write_tasks(handloom: Handloom, *ids: str) -> None:
    lines = (json.dumps({"id": id, "task": f"do {id}"}) for id in ids)
    (handloom.workspace / "tasks.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_batch_is_started_opened_changed_left_and_attached_again(handloom: Handloom, terminal: Terminal) -> None:
    waits = (  # a command that prints nothing ends after some seconds
        "case $PWD in"
        " */slow/attempt-1/*) echo seen-$((40+2)); while true; do echo .; sleep 0.5; done;;"
        " */stay/*) until test -e ../../../go; do echo .; sleep 0.5; done;;"
        " esac"
    )
    model = write_script(handloom.workspace.parent, [{"tool_calls": [bash(waits)]}, FINISH])
    write_tasks(handloom, "quick", "slow", "stay")
    terminal.handloom("batch", "tasks.jsonl", "--out", "out", "--model", model, "--workers", "3")
    terminal.wait_for("✓ done", "33% 1 of 3", "▶ running", "3 workers")
    terminal.press("Down", "Enter")
    terminal.wait_for("do slow", "seen-$((40+2))", "follows process")
    terminal.press("C-x", "B")
    terminal.wait_for("33% 1 of 3")
    terminal.press("x")
    terminal.wait_for("✕ failed", "cancelled", "66% 2 of 3")
    terminal.press("r")
    terminal.wait_for("✓ 2 done", "▶ 1 running")
    terminal.press("p")
    terminal.wait_for("Paused")
    terminal.press("Space", "-")
    terminal.wait_for("Paused", gone=True)
    terminal.wait_for("2 workers")
    terminal.press("q")
    terminal.wait_for("do slow")
    terminal.press("C-q")
    terminal.wait_for("The batch goes on. To see it: handloom batch attach out")
    terminal.handloom("batch", "attach", "out")
    terminal.wait_for("▶ running", "66% 2 of 3")
    (handloom.workspace / "out" / "go").touch()
    terminal.wait_for("Finished: all tasks are done.", "100% 3 of 3")
    terminal.press("Escape")
    terminal.wait_for("3 tasks, 3 done", "out/results.jsonl")
    assert terminal.shell("echo $?").strip() == "0"
    assert not terminal.is_alternate
    results = map(json.loads, (handloom.workspace / "out" / "results.jsonl").read_text().splitlines())
    assert [(one["id"], one["state"], one["attempt"]) for one in results] == [
        ("quick", "done", 1),
        ("slow", "done", 2),
        ("stay", "done", 1),
    ]


def test_batch_that_cannot_begin_says_why_and_shows_no_screen(handloom: Handloom, terminal: Terminal) -> None:
    write_tasks(handloom, "a", "a")
    terminal.handloom("batch", "tasks.jsonl", "--out", "out", "--model", "demo")
    terminal.wait_for("handloom:")
    assert terminal.shell("echo $?").strip() == "2"
    assert terminal.shell("ls").split() == ["tasks.jsonl"]


def test_killed_driver_is_noticed(handloom: Handloom, terminal: Terminal) -> None:
    model = write_script(
        handloom.workspace.parent, [{"tool_calls": [bash("while true; do echo .; sleep 0.5; done")]}, FINISH]
    )
    write_tasks(handloom, "a")
    terminal.handloom("batch", "tasks.jsonl", "--out", "out", "--model", model)
    terminal.wait_for("▶ running")
    with ProgressReader(handloom.workspace / "out") as reader:
        os.kill(reader.read().driver.pid, signal.SIGKILL)
    terminal.wait_for("ended unexpectedly", "run: handloom batch tasks.jsonl --out out")
    terminal.press("Escape")
    terminal.wait_for("1 task, 1 lost")
