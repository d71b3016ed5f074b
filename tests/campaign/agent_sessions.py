"""Damaged sessions of other agents: found, read and made into events, whatever is in their files.

The tests of the readers have a sample of each form and `survives`, which damages it; here they do that thousands of
times. The tests that are run are those whose name contains `damaged`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.campaign.trial import Facts, Result, Violation, run_trials
from tests.import_export.agents.fuzzed import TRIALS
from tests.program import ROOT

PROMISE = "a damaged session is read as far as it can be or refused; nothing crashes, hangs, or is written"
FULL, SHORT = 100_000, 400
CHUNK = 200
"""Damaged homes of one test in one process."""
FOLDER = Path("tests/import_export/agents")
MAX_S = 900.0


def damaged_tests() -> list[str]:
    """The tests that damage samples, by pytest's names."""
    found = []
    for file in sorted((ROOT / FOLDER).glob("test_*.py")):
        for line in file.read_text("utf-8").splitlines():
            if line.startswith("def test_damaged_"):
                found.append(f"{FOLDER / file.name}::{line[4:].partition('(')[0]}")
    return found


def run(count: int, seed: int) -> Result:
    """About so many damaged homes, the same number for each form."""
    tests = damaged_tests()
    chunk = min(CHUNK, max(1, count // len(tests)))
    rounds = max(1, count // (chunk * len(tests)))
    cases = [(seed + number, test, chunk) for number in range(rounds) for test in tests]
    return run_trials("agent_sessions", PROMISE, trial, cases, seed=seed, weight=chunk)


def trial(case: tuple[int, str, int]) -> Facts:
    """One test with a seed and a number of damaged homes."""
    seed, test, count = case
    environ = {**os.environ, "HANDLOOM_SEED": str(seed), TRIALS: str(count)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--timeout=0", test]
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=MAX_S, check=False)
    if ended.returncode:
        raise Violation(ended.stdout[-3000:])
    name = Path(test.partition("::")[0]).stem.removeprefix("test_")
    return Facts(Counter({name: count}))
