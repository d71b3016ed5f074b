"""Commands made by chance, each read as the guard reads it. `tests.security.fuzzed` makes and checks them."""

from __future__ import annotations

from core.security.facts import prepare
from tests.campaign.trial import Facts, Result, check, run_trials
from tests.security.fuzzed import check_one

PROMISE = "no command makes the reader fail or takes it 50 ms, and no disguise lets through what is bad in it"
FULL = 100_000
CHUNK = 1_000
"""Commands of one case."""


def run(count: int, seed: int) -> Result:
    """So many commands."""
    return run_trials("commands", PROMISE, _chunk, range(seed, seed + count // CHUNK), seed=seed, weight=CHUNK)


def _chunk(seed: int) -> Facts:
    prepare()
    facts = Facts()
    wrong = list(filter(None, (check_one(f"{seed}-{number}", facts.counts) for number in range(CHUNK))))
    check(not wrong, f"{len(wrong)} commands: {wrong[:3]}")
    return facts
