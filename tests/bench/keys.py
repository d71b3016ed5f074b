"""From a key to its character on the screen, in the whole program: at rest, while a command floods the terminal, and
while an answer streams, the log takes 1,000 events a second and the terminal is flooded at once.
"""

from __future__ import annotations

import random
from pathlib import Path

from tests.bench import busy
from tests.bench.figure import Figure, Limit, Target
from tests.bench.places import folder
from tests.bench.program import HELLO, HELLO_DRAWN, WORKSPACE, WORKSPACE_DRAWN, Program
from tests.bench.size import sized
from tests.doubles import FINISH, bash, write_script

KEYS, SEED = sized(100, 5), 2
FIRST_GLYPH = 0x2801
"""Braille characters, which no screen draws. Each key is a different one, because sent text stays visible."""
GAPS_S = (0.02, 0.05)
"""Between two keys of a fast typist."""
QUIET_S = 0.5
FLOOD = "while :; do seq 1 100; sleep 0.1; done"
"""1,000 lines a second."""
FLOOD_DRAWN = b"98"
BUSY = ("-m", "tests.bench.busy")


def measure() -> list[Figure]:
    with folder() as place, Program(HELLO, {}) as hello, Program(*_workspace(place)) as workspace:
        hello.drawn(HELLO_DRAWN)
        workspace.drawn(WORKSPACE_DRAWN)
        least: list[float] = []
        idle: list[float] = []
        for program in (hello, workspace):
            program.quiet(QUIET_S)
        _type([(hello, least), (workspace, idle)], FIRST_GLYPH)
        workspace.write("\r")
        workspace.drawn(FLOOD_DRAWN)
        flooded: list[float] = []
        _type([(workspace, flooded)], FIRST_GLYPH + KEYS)
    all_at_once: list[float] = []
    with Program(BUSY, {}) as busiest:
        busiest.drawn(busy.FLOOD_DRAWN)
        _type([(busiest, all_at_once)], FIRST_GLYPH + 2 * KEYS)
    limit = Limit("hello Textual at rest", least)
    return [
        Figure("key to paint, at rest", "ms", idle, limit, [Target(6), Target(16, "p95")]),
        Figure("key to paint, 1,000 lines a second", "ms", flooded, limit, [Target(16), Target(50, "p95")]),
        Figure("key to paint, all at once", "ms", all_at_once, limit, [Target(16), Target(50, "p95")]),
    ]


def _workspace(place: Path) -> tuple[list[str], dict[str, str]]:
    """A new conversation, in which the first message starts the flood."""
    model = write_script(place, [{"tool_calls": [bash(FLOOD)]}, FINISH])
    environ = {"HANDLOOM_HOME": str(place / "home"), "HANDLOOM__AGENT__CONFIRM": "never"}
    return [*WORKSPACE, "--workspace", str(place), "--model", model], environ


def _type(programs: list[tuple[Program, list[float]]], first_glyph: int) -> None:
    """Type the same characters into each program in turns, at a human's pace."""
    pace = random.Random(SEED)
    for number in range(KEYS):
        for program, taken in programs:
            program.watch(pace.uniform(*GAPS_S))
            taken.append(program.press(chr(first_glyph + number)))
