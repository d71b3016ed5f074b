"""Random interleavings of user, model, memory, runtime, crashes and restarts around the controller.

The invariants, and the mutations that prove that the check bites, are in tests/controller.
"""

from __future__ import annotations

from tests.campaign.trial import Facts, Result, Violation, run_trials
from tests.controller import simulation

PROMISE = "every action gets one observation, no message stays unread, nothing runs unasked, and the fold is the state"
FULL = 20_000
CHUNK = 500
"""Interleavings that one task of a worker plays."""


def run(count: int, seed: int) -> Result:
    """So many interleavings, with seeds in a row."""
    return run_trials(
        "interleavings", PROMISE, trial, range(seed, seed + count, CHUNK), seed=seed, weight=min(CHUNK, count)
    )


def trial(first: int) -> Facts:
    """A chunk of interleavings."""
    facts = Facts()
    for seed in range(first, first + CHUNK):
        world = simulation.World(seed)
        try:
            world.run()
        except simulation.Violation as violation:
            raise Violation(f"HANDLOOM_SEED={seed}: {violation}") from violation
        facts.counts["events"] += len(world.log)
        facts.counts["actions carried out"] += len(world.executed)
        facts.peak("events of the longest", len(world.log))
    return facts
