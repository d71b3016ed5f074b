"""A command calls a host that the sandbox refuses: the line, the question, and the answer, in a real terminal."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import Terminal
from tests.program import Handloom
from tests.runtime.isolation.confined import own

pytestmark = [pytest.mark.tmux, pytest.mark.bubblewrap]

HOST = "shop.invalid"
LINE = f"The sandbox refused network access to {HOST}"
CALL = {"tool_calls": [bash(f"curl -sS http://{HOST}/ && touch reached")]}
SETTINGS = '[sandbox]\nisolation = "bubblewrap"\n[agent]\nconfirm = "never"\n'


def prepared(tmp_path: Path) -> Handloom:
    """The program in a folder of an ordinary user, isolated, in full auto."""
    handloom = Handloom(tmp_path / "user")
    own(handloom.workspace)
    handloom.home.mkdir(mode=0o700)
    (handloom.home / "config.toml").write_text(SETTINGS)
    return handloom


@pytest.mark.parametrize(("columns", "rows"), [(100, 30), (80, 24)])
def test_refused_host_is_told_and_allowed_for_the_project(tmp_path: Path, columns: int, rows: int) -> None:
    handloom = prepared(tmp_path)
    script = write_script(tmp_path, [CALL, FINISH, CALL, {"expect": "was not found", **FINISH}])
    with closing(Terminal(handloom, columns, rows)) as terminal:
        terminal.handloom("--model", script)
        terminal.wait_for("Ask for something")
        terminal.type("buy some")
        terminal.press("Enter")
        terminal.wait_for(f"Allow network access to {HOST}?", "❯ 4 Do not allow")
        terminal.wait_for(LINE[: columns - 30])
        terminal.choose(3)
        terminal.wait_for("I allowed network access from the sandbox")
        terminal.wait_for(f"Allow network access to {HOST}?", gone=True)
        terminal.press("C-q")
    (permission,) = json.loads((handloom.home / "permissions.json").read_text())["permissions"]
    assert (permission["pattern"], permission["scope"]) == (f"connect({HOST})", "project")
    told = handloom("run", "again", "--model", write_script(tmp_path, [CALL, FINISH], "later.yaml"))
    assert told.status == 0, told.err
    assert LINE not in told.err, "the project has it"


def test_headless_run_and_agent_are_told(tmp_path: Path) -> None:
    handloom = prepared(tmp_path)
    script = write_script(tmp_path, [CALL, {"expect": LINE, **FINISH}])
    done = handloom("run", "go", "--model", script)
    assert done.status == 0, done.err
    assert done.err.count(LINE) == 1
    assert "All is done." in done.out
