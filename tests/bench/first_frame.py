"""From the start of the process to the first frame, beside the least Textual program started the same way."""

from __future__ import annotations

from pathlib import Path

from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder
from tests.bench.program import HELLO, HELLO_DRAWN, WORKSPACE, WORKSPACE_DRAWN, Program
from tests.bench.size import sized

ROUNDS = sized(11, 1)
START_SCREEN_DRAWN = b"Choose a model"
"""The store is open and the models are loaded by then, so typed keys are handled."""


def measure() -> list[Figure]:
    hello: list[float] = []
    first: list[float] = []
    usable: list[float] = []
    hello_mb: list[float] = []
    first_mb: list[float] = []
    with folder() as place:
        for number in range(-1, ROUNDS):  # the first round compiles what is not compiled yet, and does not count
            with Program(HELLO, {}) as program:
                drawn = program.drawn(HELLO_DRAWN)
                hello_mb.append(program.memory_mb)
            hello.append(drawn)
            with Program(WORKSPACE, _fresh(place / str(number))) as program:
                first.append(program.drawn(WORKSPACE_DRAWN))
                first_mb.append(program.memory_mb)
                usable.append(program.drawn(START_SCREEN_DRAWN))
    least = Limit("hello Textual", hello[1:])
    return [
        Figure("first frame", "ms", first[1:], least, [Target(1.7, "ratio"), Target(300), Target(450, "p95")]),
        Figure("start screen, store open", "ms", usable[1:], least),
        Figure("memory at the first frame", "MB", first_mb[1:], Limit("hello Textual", hello_mb[1:]), [Target(55)]),
    ]


def _fresh(home: Path) -> dict[str, str]:
    """The environment of a first start: no conversation, no model."""
    return {"HANDLOOM_HOME": str(home), "HANDLOOM_MODEL": ""}
