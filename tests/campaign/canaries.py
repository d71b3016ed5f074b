"""Canary sweeps: a secret in each of sixty-five places, every function of Handloom, then a search of every byte.

Each sweep runs the commands in another order, so that secrets are detected or passed to commands at different times.
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
