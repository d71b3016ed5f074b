"""How much is measured: the counts of `make bench`, or the few of `--small`, which only show that an area works."""

from __future__ import annotations

import os

SMALL = "HANDLOOM_BENCH_SMALL"
"""Set for the processes that measure, where the counts are the small ones."""


def sized(full: int, small: int) -> int:
    """A count as large as this run wants it."""
    return small if os.environ.get(SMALL) else full
