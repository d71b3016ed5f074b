"""A figure: samples of one quantity, the limit that physics sets it, and the targets that we set ourselves.

Pure. Times are good when they are low, rates (units that end in `/s`) when they are high.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Statistic = Literal["median", "p95", "max", "ratio"]


@dataclass(frozen=True, slots=True)
class Limit:
    """The same quantity without us: the least that the machine needs for it, measured in the same run."""

    name: str
    samples: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that a figure shall keep: on its samples, or on its ratio to the limit."""

    bound: float
    of: Statistic = "median"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity. There is at least one sample."""

    name: str
    unit: str
    samples: Sequence[float]
    limit: Limit | None = None
    targets: Sequence[Target] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def is_rate(self) -> bool:
        return self.unit.endswith("/s")

    @property
    def p95(self) -> float:
        """The value that 95 of 100 samples keep: from above where low is good, from below for rates."""
        from_best = sorted(self.samples, reverse=self.is_rate)
        return from_best[min(len(from_best) - 1, int(len(from_best) * 0.95))]

    @property
    def ratio(self) -> float | None:
        """The median of Handloom's figure divided by that of the limit."""
        return self.median / self.limit.median if self.limit else None

    def value(self, of: Statistic) -> float:
        """What a target limits."""
        match of:
            case "median":
                return self.median
            case "p95":
                return self.p95
            case "max":
                return max(self.samples)
            case "ratio":
                assert self.ratio is not None
                return self.ratio

    def keeps(self, target: Target) -> bool:
        """Whether the bound is kept."""
        value = self.value(target.of)
        return value >= target.bound if self.is_rate else value <= target.bound
