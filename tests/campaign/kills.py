"""kill -9 of `handloom run`, at random points: after so many printed lines, or after so many milliseconds.

Afterwards the home is opened again. Every printed event is there, no action is answered twice or carried out twice,
nothing that the killed process had started still runs, and the conversation goes on to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from core.events import envelope_from_dict
from tests.campaign import stored
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within
from tests.doubles import FINISH, bash, call, write_script
from tests.program import Ended, Handloom, events_in_archive
from tui.export import cli

PROMISE = "nothing that was printed is lost, nothing runs twice, nothing is left running, and the work goes on"
FULL, SHORT = 300, 8
TURNS = 8
LINES = 50
"""A little less than a whole run prints."""
ENDS_WITHIN_S = 2.0
AGAIN = 0.2
"""How often the process that recovers is killed, too."""


def run(trials: int, seed: int) -> Result:
    """So many kills, each of a new process on a new home."""
    return run_trials("kills", PROMISE, trial, range(seed, seed + trials), seed=seed)


def script(folder: Path) -> str:
    """Eight answers with two or three tool calls each, every one with an effect that can be counted."""

    def effect(number: str) -> dict[str, Any]:
        return bash(f"echo {number} >> effects; seq 1 20; echo did {number}")

    turns = []
    for turn in range(TURNS - 1):
        calls = [effect(f"{turn}.{n}") for n in range(2 + turn % 2)]
        if turn == 3:
            calls.append(call("str_replace_editor", command="create", path=str(folder / "workspace/a"), file_text="x"))
        text = f"Turn {turn}, in which something is said before anything is done."
        turns.append({"text": text, "tokens_per_s": 500, "tool_calls": calls, "usage": {"prompt_tokens": 10}})
    return write_script(folder, [*turns, *[FINISH] * 4])


def trial(seed: int) -> Facts:
    """One kill and its recovery, and sometimes a kill of the recovery."""
    chance, facts = random.Random(seed), Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-campaign-") as name:
        handloom = Handloom(Path(name))
        model = script(Path(name))
        printed, conversation = killed(handloom, ["run", "count", "--model", model], LINES, chance, facts)
        conversation = conversation or next(iter(stored.read(handloom.home)), "")
        if not conversation:
            facts.counts["before there was a conversation"] += 1
            check(handloom("run", "count", "--model", model).status == 0, "a new run does not end with 0")
            return facts
        goes_on = ["run", "go on", "--resume", conversation]
        if chance.random() < AGAIN:
            facts.counts["kills of the recovery"] += 1
            printed += killed(handloom, goes_on, max(1, LINES - len(printed)), chance, facts)[0]
        ended = handloom(*goes_on, "--json")
        check(ended.status == 0, f"going on ends with {ended.status}: {ended.err}")
        nobody_is_left(within(ENDS_WITHIN_S))
        events = exported(handloom, conversation)
        stored.check_printed(printed + ended.lines, events)
        stored.check_observations(events, finished=True)
        check_effects(handloom.workspace / "effects")
        log = [envelope_from_dict(row.event, conversation) for row in stored.read(handloom.home)[conversation]]
        check(log == [envelope_from_dict(event) for event in events], "the export is not the log")
    return facts


def killed(
    handloom: Handloom, command: list[str], lines: int, chance: random.Random, facts: Facts
) -> tuple[list[str], str]:
    """Start a command and kill it, usually before it has printed `lines` lines. Returns its output and conversation."""
    process = handloom.start(*command, "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    out = b""
    if chance.random() < 0.75:
        lines = chance.randrange(lines)
        while out.count(b"\n") < lines and (more := os.read(process.stdout.fileno(), 65536)):
            out += more
        time.sleep(chance.choice([0.0, chance.uniform(0, 0.005), chance.uniform(0, 0.05)]))
    else:
        time.sleep(chance.uniform(0.05, 1.2))
    process.kill()
    rest, err = process.communicate()
    facts.counts["had ended before the kill" if process.returncode == 0 else "kills"] += 1
    facts.peak("seconds until what it had started was gone", nobody_is_left(within(ENDS_WITHIN_S)))
    printed = (out + rest).decode().split("\n")[:-1]  # what comes after the last line's end is no whole event
    facts.counts["events printed before a kill"] += len(printed)
    for rows in stored.read(handloom.home).values():
        waiting = stored.check_observations([row.event for row in rows], finished=False)
        facts.counts["actions in flight at a kill"] += waiting
    announced = "conversation " in err.decode()
    return printed, Ended(0, "", err.decode()).conversation if announced else ""


def exported(handloom: Handloom, conversation: str) -> list[dict[str, Any]]:
    """What `handloom export -o` writes; in this process, because starting another takes most of a trial."""
    file = handloom.home.parent / "export.zip"
    os.environ["HANDLOOM_HOME"] = str(handloom.home)
    wanted = {"all_agents": False, "agents_named": None, "format": "archive", "mask": False, "allow_secrets": True}
    asyncio.run(cli.export(argparse.Namespace(id=conversation, output=file, **wanted)))
    return events_in_archive(file)


def check_effects(file: Path) -> None:
    """Every action had its effect once."""
    done = file.read_text().split() if file.exists() else []
    check(len(done) == len(set(done)), f"carried out twice: {done}")
