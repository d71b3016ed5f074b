"""The first start in a real terminal by a new user: to the first answer, and to a stored setting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles import write_script
from tests.journeys.terminal import Terminal
from tests.openai_server import KEY
from tests.program import Handloom

pytestmark = pytest.mark.tmux


@pytest.fixture
def terminal(handloom: Handloom) -> Iterator[Terminal]:
    opened = Terminal(handloom, 120, 30)
    yield opened
    opened.close()


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a server that speaks like OpenAI and checks the key."""
    command = [sys.executable, "-m", "tests.openai_server", "--key", KEY]
    server = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield server.stdout.readline().split("OPENAI_BASE_URL=")[1].split()[0]
    server.terminate()
    server.wait(10)
    server.stdout.close()


def test_from_nothing_to_an_answer_with_a_key(handloom: Handloom, terminal: Terminal, url: str) -> None:
    home = Path(handloom.environ["HANDLOOM_HOME"])
    terminal.handloom()
    terminal.wait_for("Choose a model", "asks for your API key", "ctrl+q quits")
    terminal.highlight(5)
    terminal.press("Enter")
    terminal.wait_for("URL of the endpoint")
    terminal.type(url)
    terminal.wait_for(url)
    terminal.press("Enter")
    terminal.type("qwen3")
    terminal.wait_for(" qwen3 ")
    terminal.press("Enter")
    terminal.type("sk-wrong-0123456789")
    terminal.wait_for("•••••••••••••••••••")
    terminal.press("Enter")
    terminal.wait_for("did not accept this key")
    assert not (home / "config.toml").exists(), "no model without a working key becomes the default"
    terminal.press("C-u")
    terminal.wait_for("•••", gone=True)
    terminal.type(KEY)
    terminal.wait_for("•" * len(KEY))
    terminal.press("Enter")
    terminal.wait_for("Ask for something", "qwen3")
    terminal.type("hello")
    terminal.press("Enter")
    terminal.wait_for("You said: hello")
    found = [path.name for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert found in ([], ["secret-values.json"]), "in the keyring, or else in the private file"


def test_conversation_without_a_message_leaves_nothing(handloom: Handloom, terminal: Terminal) -> None:
    model = write_script(handloom.workspace.parent, [{"text": "It is done."}])
    terminal.handloom("--model", model)
    terminal.wait_for("Ask for something", "waiting for you")
    terminal.press("C-q")
    terminal.wait_for("Ask for something", gone=True)
    assert handloom("list").out == ""
    terminal.handloom("--model", model)
    terminal.wait_for("Ask for something", "waiting for you")
    terminal.type("hello")
    terminal.press("Enter")
    terminal.wait_for("▌ hello", "It is done.", "waiting for you")
    terminal.press("C-q")
    terminal.wait_for("Ask for something", gone=True)
    assert "hello" in handloom("list").out


def test_without_a_key_the_demo_is_two_keys_away(terminal: Terminal) -> None:
    terminal.handloom()
    terminal.wait_for("Choose a model", "Demo, without a model", "ctrl+q quits")
    terminal.highlight(7)
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
