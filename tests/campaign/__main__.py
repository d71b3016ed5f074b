"""Run the full campaign and publish the results.

    python -m tests.campaign [--seed N] [--only PART ...]

Writes docs/campaign.json and docs/campaign.md. With `--only`, the other parts keep their results, each with the commit
of its run. Exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from tests import machine
from tests.campaign import (
    agent_sessions,
    batches,
    browsers,
    canaries,
    checkpointing,
    commands,
    containers,
    edits,
    endurance,
    escapes,
    hostile_pages,
    imports,
    interleavings,
    kernels,
    keystrokes,
    kills,
    links,
    mending,
    owners,
    prefixes,
    replays,
    shells,
    streams,
    swaps,
    syscalls,
    trajectories,
)
from tests.campaign.trial import FULL, Result
from tests.program import ROOT

JSON_FILE = ROOT / "docs" / "campaign.json"
PAGE = ROOT / "docs" / "campaign.md"

PARTS: Mapping[str, Callable[[int], Result]] = {
    "kills": lambda seed: kills.run(kills.FULL, seed),
    "crash_points": lambda seed: syscalls.crash_points(None, seed),
    "disk_faults": lambda seed: syscalls.disk_faults(None, seed),
    "mending": lambda seed: mending.run(mending.FULL, seed),
    "owners": lambda seed: owners.run(owners.FULL, seed),
    "interleavings": lambda seed: interleavings.run(interleavings.FULL, seed),
    "shell_deaths": lambda seed: shells.deaths(shells.DEATHS, seed),
    "interrupts": lambda seed: shells.interrupts(shells.INTERRUPTS, seed),
    "browser_kills": lambda seed: browsers.run(browsers.KILLS, seed),
    "kernel_deaths": lambda seed: kernels.run(kernels.FULL, seed),
    "containers": lambda seed: containers.run(containers.FULL, seed),
    "links": lambda seed: links.run(links.FULL, seed),
    "prefixes": lambda seed: prefixes.run(1, seed),
    "trajectories": lambda seed: trajectories.run(trajectories.FULL, seed),
    "replays": lambda seed: replays.run(replays.FULL, seed),
    "imports": lambda seed: imports.run(imports.FULL, seed),
    "agent_sessions": lambda seed: agent_sessions.run(agent_sessions.FULL, seed),
    "edits": lambda seed: edits.run(None, seed),
    "swaps": lambda seed: swaps.run(swaps.FULL, seed),
    "checkpoint_kills": lambda seed: checkpointing.kills(checkpointing.KILLS_FULL, seed),
    "checkpoint_swaps": lambda seed: checkpointing.swaps(checkpointing.SWAPS_FULL, seed),
    "streams": lambda seed: streams.run(1, seed),
    "escapes": escapes.run,
    "canaries": lambda seed: canaries.run(canaries.FULL, seed),
    "commands": lambda seed: commands.run(commands.FULL, seed),
    "hostile_pages": lambda seed: hostile_pages.run(len(hostile_pages.NAMES), seed),
    "batches": lambda seed: batches.run(batches.FULL, seed),
    "keystrokes": lambda seed: keystrokes.run(keystrokes.FULL, seed),
    "endurance": lambda seed: endurance.run(None, seed),
}

INTRODUCTION = """\
# Campaign results

Counted trials of what must never happen. `make campaign` runs all of them and writes this page and
[campaign.json](campaign.json). The tests run a short form of each part, and its controls: a writer that acknowledges
too early, a codec that loses something, a controller without one of its rules. Each control has to be noticed.

A failure is reported with its case, which reproduces it. If nothing failed in *n* trials, the rate of failures is below
3/*n* with 95 % confidence. The trials show no more than that.
"""

MEANINGS = {
    "kills": "`handloom run --json` is killed (-9) after a random number of printed lines or of milliseconds, and "
    "sometimes the process that recovers is, too.",
    "crash_points": "A writer is killed at every single system call on the database, and at every acknowledgement.",
    "disk_faults": "EIO and ENOSPC at every write and every sync, once or from then on.",
    "mending": "A database is damaged in its events, index, head or log, cut off, emptied or taken away; it is mended, "
    "sometimes by a process that is killed (-9) at a step of it, and every event is there or told of as lost.",
    "prefixes": "Long logs of sessions with all that can happen in one end after each of their events; the state is "
    "folded from what is there, and the conversation is opened and brought to an end.",
    "owners": "Three processes want one conversation; whoever has it is stopped or killed (-9) in the middle.",
    "interleavings": "Random interleavings of user, model, memory, runtime and crashes around the controller.",
    "shell_deaths": "A shell ends itself or is killed (-9) at a random point; things were left running before.",
    "interrupts": "The request for a command is closed after a random time, whatever the command does with signals.",
    "browser_kills": "The browser's worker, its driver, Chromium or a part of it is killed (-9) in a step or between.",
    "kernel_deaths": "A kernel is killed (-9) or ends itself: between cells, in one, around one, while it starts.",
    "containers": "A container is removed, killed, stopped, restarted or paused, its server killed or stopped from "
    "inside, its socket removed, or the engine goes away: at a random moment of a command, in a real conversation.",
    "links": "The link to a server is cut, half closed, stalled or delayed at a random byte, again and again while an "
    "action runs, and sometimes the action is cancelled.",
    "trajectories": "Events and trajectories with types swapped, parts moved, bits flipped, ends cut off.",
    "replays": "A long session with a real shell is replayed by step and by seek; each pane is compared at each event.",
    "imports": "Files and folders of OpenHands and of its SDK, zipped ones and archives of ours, with bytes and values "
    "changed, moved, cut off and in other encodings, are imported into a home.",
    "agent_sessions": "Sessions of thirteen other agents, with lines, values and cells of databases dropped, moved, "
    "cut off and replaced by others, are found, read and made into events.",
    "edits": "An edit of a file is killed at every single system call, and a new server takes it back.",
    "swaps": "Files are read, written, edited and undone, while folders and files are swapped for links to outside.",
    "checkpoint_kills": "Whoever restores checkpoints is killed (-9) at a random moment, or between two files.",
    "checkpoint_swaps": "Checkpoints are taken and restored, while folders and files are swapped for links to outside.",
    "streams": "Answers as OpenAI, Anthropic and Google stream them are cut at every byte, by a reset or a plain end.",
    "canaries": "Sixty-five secrets, one in each place where a user has them; shell, cells, MCP servers, hooks, a "
    "delegate, pages, an editor, the screen, a replay and a crash show them, all is exported; every byte is searched.",
    "commands": "Commands of the corpora damaged, grown from a grammar, wrapped, disguised, made of what cannot be "
    "known, and short ones that are long once they are expanded; the time is the processor's, for less than 10 kB.",
    "hostile_pages": "Pages that direct whoever reads them, and a model that obeys every word: in live sessions with "
    "shell, browser, mail server and an internet of their own; the user says no to each question, or is not there.",
    "batches": "`handloom batch` is killed (-9) three times at a random moment, and run again until it is done.",
    "keystrokes": "Random keys and words are typed at questions of each kind, also those in dialogs, at random speeds; "
    "what the session is told is compared with the highlighted row, the prompt's text and how long the list was there.",
    "endurance": "A user who never rests works in the real program for an hour, with a model that never ends; each "
    "minute all comes to rest, and what is held is counted: memory, tasks, threads, open files, processes, the log.",
    "escapes": "Every escape attempt that is known to us; [escapes.md](escapes.md) has them all.",
}


def as_markdown(on: str, results: Sequence[Result]) -> str:
    """The page; `on` is the machine."""
    lines = [INTRODUCTION, f"On {on}.\n"]
    lines += ["| Part | Promise | Trials | Failures | Below, at 95 % | Took | Commit | Seed | Date |"]
    lines += ["|---|---|--:|--:|--:|--:|---|--:|---|"]
    for result in results:
        failed = f"**{len(result.failures)}**" if result.failures else "0"
        bound = "" if result.upper_bound is None else f"{result.upper_bound * 100:.3g} % "
        row = [result.name, result.promise, f"{result.trials}", failed]
        where = f"`{result.commit}` | {result.seed} | {result.date}"
        lines.append(f"| {' | '.join(row)} | {bound}| {result.seconds:.0f} s | {where} |")
    for result in results:
        lines += ["", f"## {result.name}", "", MEANINGS[result.name], ""]
        lines += [f"- {count} {what}" for what, count in result.counts.items()]
        lines += [f"- {value} {what}, at most" for what, value in result.peaks.items()]
        lines += [f"- failed: `{failure}`" for failure in result.failures]
    return "\n".join(lines) + "\n"


def kept() -> dict[str, Result]:
    """The last published results, by part."""
    published = json.loads(JSON_FILE.read_text("utf-8"))
    fields = {field.name for field in dataclasses.fields(Result)}
    return {
        result["name"]: Result(**{"failures": (), **{key: result[key] for key in fields & result.keys()}})
        for result in published["results"]
    }


def commit() -> str:
    """The commit that was tried, and whether there was more than that."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + (
        " with changes" if git("status", "--porcelain", "-uno", "--", ":!docs") else ""
    )


def main() -> int:
    """Run the requested parts. Returns 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description="Run the campaign in full.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=[], metavar="PART")
    options = parser.parse_args()
    os.environ[FULL] = "1"
    tried, on, today = commit(), machine.described(), datetime.now(UTC).date().isoformat()
    found = kept() if options.only else {}
    failed = False
    for name in options.only or PARTS:
        print(f"{name}: {MEANINGS[name]}", flush=True)
        result = found[name] = dataclasses.replace(PARTS[name](options.seed), commit=tried, date=today)
        failed |= bool(result.failures)
        print(f"  {result.trials} trials, {len(result.failures)} failures, {result.seconds:.0f} s", flush=True)
        for failure in result.failures:
            print(f"  failed: {failure}", flush=True)
    results = [found[name] for name in PARTS if name in found]
    published = {"machine": on, "results": [result.as_dict() for result in results]}
    JSON_FILE.write_text(json.dumps(published, indent=2) + "\n", "utf-8")
    PAGE.write_text(as_markdown(on, results), "utf-8")
    print(f"Written: {PAGE.relative_to(ROOT)} and {JSON_FILE.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
