"""Canary sweeps: a secret in each of sixty-five places, everything that Handloom does, then the search of every byte.

Each sweep has the commands in another order, so that what is found by its looks, or lent for the first time, comes
before or after everything else.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.campaign.trial import Facts, Result, check, run_trials
from tests.secrets.canaries import NEEDLES
from tests.secrets.sweep import sweep

PROMISE = "no secret stands outside of its place: not in a file, a row, an output or a request, in no usual encoding"
FULL = 4
"""Each takes minutes."""


def run(count: int, seed: int) -> Result:
    """So many sweeps, with seeds in a row."""
    return run_trials("canaries", PROMISE, _sweep, range(seed, seed + count), seed=seed)


def _sweep(seed: int) -> Facts:
    facts = Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-canaries-") as folder:
        search = asyncio.run(sweep(Path(folder) / "user", is_full=True, seed=seed))
    facts.counts["encodings of canaries looked for"] += len(NEEDLES)
    facts.counts["bytes searched"] += search.searched_bytes
    check(not search.hits, f"{len(search.hits)} hits: {sorted(search.hits)[:5]}")
    return facts
