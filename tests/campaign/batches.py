"""kill -9 of `handloom batch`, at random moments, until the batch is done.

Afterwards every task was accepted once, what had been accepted before a kill was not begun again, each attempt carried
out its command at most once, and nothing that a killed process had started still runs.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from core.store.database import sqlite3
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within
from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom

PROMISE = "a task of a killed batch is accepted once, and what was accepted is not begun again"
FULL, SHORT = 34, 1
"""Batches; each is killed three times."""
KILLS, TASKS = 3, 6
ENDS_WITHIN_S = 2.0


def run(trials: int, seed: int) -> Result:
    """So many batches, each of a new home."""
    return run_trials("batches", PROMISE, trial, range(seed, seed + trials), seed=seed)


def trial(seed: int) -> Facts:
    """One batch with its kills."""
    chance, facts = random.Random(seed), Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-campaign-") as name:
        folder = Path(name)
        handloom, out = Handloom(folder), folder / "out"
        model = write_script(folder, [{"tool_calls": [bash("echo x >> effects; sleep 0.2")]}, FINISH])
        lines = (json.dumps({"id": f"t{n}", "task": "Do it.", "check": "test -f effects"}) for n in range(TASKS))
        (folder / "tasks.jsonl").write_text("\n".join(lines))
        command = ["batch", str(folder / "tasks.jsonl"), "--out", str(out), "--model", model, "--workers", "3"]
        for _ in range(KILLS):
            process = handloom.start(*command)
            time.sleep(chance.choice([chance.uniform(0.1, 2.0), chance.uniform(1.5, 8.0)]))
            process.kill()
            process.communicate()
            facts.counts["had ended before the kill" if process.returncode == 0 else "kills"] += 1
            facts.peak("seconds until what it had started was gone", nobody_is_left(within(ENDS_WITHIN_S)))
            accepted = _accepted(out)
            facts.counts["tasks accepted before a kill"] += len(accepted)
        done = handloom(*command)
        check(done.status == 0, f"the last run ended with {done.status}: {done.err}")
        attempts = _attempts(out)
        ends = Counter(id for id, _, state in attempts if state == "finished")
        check(ends == {f"t{n}": 1 for n in range(TASKS)}, f"accepted: {ends}")
        check({state for _, _, state in attempts} <= {"finished", "lost"}, f"attempts: {attempts}")
        again = [one for one in attempts if accepted.get(one[0], one[1]) != one[1] and one[1] > accepted[one[0]]]
        check(not again, f"begun again after they were accepted: {again}")
        for id, number, _ in attempts:
            effects = out / id / f"attempt-{number}" / "work" / "effects"
            check(not effects.exists() or effects.read_text() == "x\n", f"{id}, attempt {number} ran twice")
        facts.counts["attempts lost"] += sum(state == "lost" for _, _, state in attempts)
    return facts


def _accepted(out: Path) -> dict[str, int]:
    """The tasks that are done, with the attempt that was accepted."""
    return {id: number for id, number, state in _attempts(out) if state == "finished"}


def _attempts(out: Path) -> list[tuple[str, int, str]]:
    if not (out / "batch.db").exists():
        return []
    with closing(sqlite3.connect(out / "batch.db")) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'attempts'").fetchone():
            return []
        return list(database.execute("SELECT task, number, state FROM attempts ORDER BY task, number"))
