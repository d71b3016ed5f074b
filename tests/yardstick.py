"""Bounds on processor time that hold on a slow or busy machine too: multiples of a loop, timed around the work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

ROUNDS = 200_000
"""Of the loop: some milliseconds."""


def loop_s() -> float:
    """The processor time of one loop, in seconds."""
    begun, total = time.process_time(), 0
    for number in range(ROUNDS):
        total += number
    assert total
    return time.process_time() - begun


@contextmanager
def costs_at_most(loops: float) -> Iterator[None]:
    """Fail if what runs inside takes more processor time than so many loops; the slowest of some around it counts."""
    slowest = max(loop_s() for _ in range(3))
    begun = time.process_time()
    yield
    took = time.process_time() - begun
    slowest = max(slowest, *(loop_s() for _ in range(3)))
    assert took < loops * slowest, f"it took {took:.3f} s, which is {took / slowest:.0f} loops of {slowest:.4f} s"
