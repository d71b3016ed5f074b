"""The first start in a real terminal by a new user: to the first answer, and to a stored setting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.terminal import Terminal
from tests.program import Handloom

pytestmark = pytest.mark.tmux


@pytest.fixture
def terminal(handloom: Handloom) -> Iterator[Terminal]:
    opened = Terminal(handloom, 120, 30)
    yield opened
    opened.close()


def test_without_a_key_enter_alone_starts_the_demo(terminal: Terminal) -> None:
    terminal.handloom()
    terminal.wait_for("Choose a model", "ANTHROPIC_API_KEY", "ctrl+q quits")
    terminal.read_the_question()
    terminal.press("Enter")
    terminal.wait_for("Show me what you can do.")
    terminal.press("Enter")
    terminal.wait_for("finished", "The primes are right")


@pytest.mark.usefixtures("no_isolation")
def test_changed_setting_applies_to_the_next_conversation(handloom: Handloom, terminal: Terminal) -> None:
    home = Path(handloom.environ["HANDLOOM_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text("# mine\n")
    terminal.handloom("--model", "demo")
    terminal.wait_for("Ask for something", "NO SANDBOX")
    terminal.press("C-x", ",")
    terminal.wait_for("Settings", "The most common settings.")
    terminal.type("/max_iter")
    terminal.wait_for("The most common settings.", gone=True)
    terminal.press("Down", "Enter")
    terminal.wait_for("Enter saves")
    terminal.press("C-u")
    terminal.wait_for("empty: 500")  # a binding runs later than the letter typed after it
    terminal.type("77")
    terminal.wait_for(" 77 ")
    terminal.press("Enter")
    terminal.wait_for("agent.max_iterations is saved")
    assert (home / "config.toml").read_text() == "# mine\n\n[agent]\nmax_iterations = 77\n"
    terminal.press("Escape", "Escape")
    terminal.wait_for("Settings", gone=True)
    terminal.press("C-n")
    terminal.wait_for("0/77")
