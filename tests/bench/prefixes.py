"""How much of each prompt a provider has already: 100 steps with a model whose context is small.

The provider is the test server, which counts with a tokenizer; nothing is timed.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.bench.figure import Figure, Target
from tests.bench.size import sized
from tests.memory.long_run import run

STEPS, WINDOW = sized(100, 20), 16_000


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        counting, _state, _condensed = asyncio.run(run(Path(folder), STEPS, WINDOW))
    anew = 100 * (1 - counting.cached_share)
    return [
        Figure(f"of the prompts of {STEPS} steps in {WINDOW:,} tokens, sent anew", "%", [anew], targets=[Target(20.0)]),
        Figure("the largest of them, of the window", "%", [100 * counting.largest / WINDOW], targets=[Target(100.0)]),
    ]
