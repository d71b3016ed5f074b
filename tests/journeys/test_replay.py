"""`handloom replay` in a real terminal, and its error messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.journeys.terminal import Terminal
from tests.program import Handloom
from tests.tapes import long_tape


@pytest.fixture
def program(tmp_path: Path) -> Handloom:
    handloom = Handloom(tmp_path)
    asyncio.run(long_tape(30).keep(handloom.home))
    return handloom


@pytest.fixture
def terminal(program: Handloom) -> Iterator[Terminal]:
    with closing(Terminal(program, 120, 40)) as opened:
        yield opened


@pytest.mark.tmux
def test_conversation_is_played_stepped_through_and_closed(terminal: Terminal) -> None:
    terminal.handloom("replay", "long", "--speed", "64")
    terminal.wait_for("Replay: A long one", "64x", "ended · event 65 of 65", "said 29")
    terminal.press("Home")
    terminal.wait_for("paused · event 1 of 65")
    terminal.press("S-Right")
    terminal.wait_for("event 43 of 65", "turn 2 of 2", "Please do part 1.")
    terminal.press("C-q")
    terminal.wait_for("Replay", gone=True)
    assert not terminal.is_alternate


@pytest.mark.tmux
def test_unknown_conversation_is_reported(terminal: Terminal) -> None:
    terminal.handloom("replay", "nobody")
    terminal.wait_for("There is no conversation nobody.")


def test_wrong_usage_exits_with_2(program: Handloom) -> None:
    assert program("replay").status == 2
    assert program("replay", "long", "--speed", "fast").status == 2
    assert "0.25 to 64" in program("replay", "long", "--speed", "1000").err
    assert "needs a terminal" in program("replay", "long").err
