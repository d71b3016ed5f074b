"""Two screens on one conversation: the second sees what goes on in the first, and goes on with it once that is dead."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.doubles import FINISH, bash, write_script
from tests.journeys.terminal import Terminal
from tests.program import Handloom

pytestmark = pytest.mark.tmux


@pytest.fixture
def screens(handloom: Handloom) -> Iterator[tuple[Terminal, Terminal]]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(closing(Terminal(handloom, *size))) for size in ((120, 40), (80, 24)))
        yield first, second


def test_second_screen_follows_and_takes_over_after_a_kill(
    handloom: Handloom, screens: tuple[Terminal, Terminal]
) -> None:
    first, second = screens
    turns = [
        {"tool_calls": [bash("echo seen-$((40+2))")]},
        FINISH,
        {"tool_calls": [bash("echo again-$((40+3)); sleep 600")]},
        {"text": "It goes on here."},
    ]
    first.handloom("--model", write_script(handloom.workspace.parent, turns))
    first.wait_for("Ask for something")
    first.type("look around")
    first.press("Enter")
    first.wait_for("Run this command?")
    (conversation,) = handloom.conversations()
    second.handloom("--resume", conversation["conversation_id"])
    shown = second.wait_for("is open in another Handloom", "answer in process", "needs approval", "seen-$((")
    found = re.search(r"answer in process (\d+) \(pts/\d+\)", shown)
    assert found, shown
    second.press("Escape", "y", "n", "a")
    first.agree()
    second.wait_for("seen-42", "All is done.", "✓ finished", "follows process")
    first.type("once more")
    first.press("Enter")
    first.agree()
    second.wait_for("once more", "sleep 600", "▶ running", "follows process")
    os.kill(int(found[1]), signal.SIGKILL)
    second.wait_for("is no longer open in", "not open anywhere: b continues")
    second.press("b")
    second.wait_for("interrupted by a restart")
    second.type("go on")
    second.press("Enter")
    second.wait_for("It goes on here.")
