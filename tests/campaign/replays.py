"""Long sessions with a real shell, replayed by step and by seek: every pane at every event is what it was."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from tests.campaign.trial import Facts, Result, check, run_trials
from tests.doubles import FINISH, bash, call, write_script
from tests.tui.replay.screens import Cells, as_it_was, go, live, replaying

PROMISE = "A replay draws what was drawn: every pane, text and styles, at every event."
FULL, SHORT = 60, 4
"""Answers of the model in each session."""
SESSIONS = 3


def run(answers: int, seed: int, sessions: int = SESSIONS) -> Result:
    """So many sessions of so many answers, with seeds in a row."""
    return run_trials("replays", PROMISE, trial, [(seed + n, answers) for n in range(sessions)], seed=seed)


def trial(case: tuple[int, int]) -> Facts:
    """One session, had and replayed."""
    seed, answers = case
    facts = Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-replays-") as folder:
        os.environ["HANDLOOM_HOME"] = folder  # nothing of the developer's own takes part
        asyncio.run(_session(Path(folder), Random(seed), answers, f"HANDLOOM_SEED={seed}", facts))
    return facts


async def _session(folder: Path, chance: Random, answers: int, case: str, facts: Facts) -> None:
    (folder / "work").mkdir()
    turns = [turn(chance, number) for number in range(answers)]
    half = len(turns) // 2
    model = write_script(folder, [*turns[:half], FINISH, *turns[half:], FINISH])
    id, lived = await live(folder / "home", folder / "work", model, ["Go on.", "And on."])
    seen = await as_it_was(lived)
    async with replaying(folder / "home", id) as it:
        for how, events in (("step", range(len(seen))), ("seek", reversed(range(len(seen))))):
            for event in events:
                same(seen[event], await go(it, event), f"{case}: {how} to event {event} of {len(seen)}")
                facts.counts[f"screens by {how}"] += 1


def same(seen: Cells, replayed: Cells, where: str) -> None:
    """Raise Violation where one pane shows something else."""
    check(set(seen) == set(replayed), f"{where}: {sorted(seen)} became {sorted(replayed)}")
    for pane, rows in seen.items():
        for number, (row, other) in enumerate(zip(rows, replayed[pane], strict=True)):
            check(row == other, f"{where}: row {number} of {pane}: {row} became {other}")


def turn(chance: Random, number: int) -> dict[str, Any]:
    """An answer of the model: a command that prints in some way, an edit, a thought."""
    word = chance.choice(["apple", "Ärger", "字幕", "fox"])
    command = chance.choice(
        [
            f"echo {word} {number}; false",
            f"for n in $(seq {chance.randint(1, 80)}); do printf '\\033[3%dm{word}\\033[0m\\n' $((n % 8)); done",
            f"for n in $(seq 0 20 100); do printf '\\r{word} %d %%' $n; done; echo",
            f"printf 'no end of line {number}'",
            f"printf 'one\\ntwo\\n\\033[1A\\033[2K{word}\\n'; printf '\\033]0;a title\\007'",
        ]
    )
    calls = [bash(command)]
    if chance.random() < 0.3:
        text = "".join(f"{word} {line}\n" for line in range(chance.randint(1, 30)))
        calls.append(call("str_replace_editor", command="create", path=f"{number}.txt", file_text=text))
    if chance.random() < 0.2:
        calls.append(call("think", thought=f"What of {word}?"))
    return {"text": chance.choice(["", f"Now **{word}**.", f"- {word}\n- {number}\n"]), "tool_calls": calls}
