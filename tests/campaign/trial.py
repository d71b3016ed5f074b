"""Counted trials: each from its seed, in worker processes, with their failures and counts.

A trial is a function of its seed. It returns Facts, or raises Violation if an invariant does not hold; any other
exception is a failure of the trial too, and is stored with its traceback.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

WORKERS = 2
_PR_SET_CHILD_SUBREAPER = 36
FULL = "HANDLOOM_FULL_CAMPAIGN"
"""The environment variable that `python -m tests.campaign` sets."""
HANG_GUARD_S = 60.0


class Violation(AssertionError):
    """A promise that does not hold."""


def within(limit_s: float) -> float:
    """A published limit, checked in the full campaign, which runs alone.

    In the short form, beside other tests, nobody judges speed: there it is a guard against hanging.
    """
    return limit_s if FULL in os.environ else max(limit_s, HANG_GUARD_S)


def check(holds: bool, what: str) -> None:
    """Raise Violation unless `holds`."""
    if not holds:
        raise Violation(what)


@dataclass
class Facts:
    """What a trial saw. Counts are added up over trials; of peaks, the highest is kept."""

    counts: Counter[str] = field(default_factory=Counter)
    peaks: dict[str, float] = field(default_factory=dict)

    def peak(self, name: str, value: float) -> None:
        self.peaks[name] = max(value, self.peaks.get(name, value))

    def add(self, other: Facts) -> None:
        self.counts.update(other.counts)
        for name, value in other.peaks.items():
            self.peak(name, value)


@dataclass(frozen=True)
class Result:
    """One part of the campaign."""

    name: str
    promise: str
    seed: int
    trials: int
    failures: tuple[str, ...]
    counts: dict[str, int]
    peaks: dict[str, float]
    seconds: float
    commit: str = ""
    """What was tried; set by the caller that publishes it."""
    date: str = ""

    @property
    def upper_bound(self) -> float | None:
        """The upper bound of the failure rate at 95 % confidence if no trial failed: about 3 in n."""
        return 3 / self.trials if not self.failures and self.trials else None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "failure_rate_below_at_95_percent": self.upper_bound}


Trial = Callable[[Any], Facts]


def run_trials(
    name: str, promise: str, trial: Trial, cases: Sequence[Any], *, seed: int, weight: int = 1, workers: int = WORKERS
) -> Result:
    """Run a trial for each case, which is a seed or begins with one. `weight` says how many trials one case stands for.

    `trial` and the cases go to worker processes, so they have to be picklable.
    """
    begun, facts, failures = time.monotonic(), Facts(), []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker) as pool:
        for case, (found, failure) in zip(cases, pool.map(_guarded, [trial] * len(cases), cases), strict=True):
            facts.add(found)
            if failure:
                failures.append(f"{case}: {failure}")
    counts = dict(sorted(facts.counts.items()))
    peaks = {peak: round(value, 3) for peak, value in sorted(facts.peaks.items())}
    seconds = round(time.monotonic() - begun, 1)
    return Result(name, promise, seed, len(cases) * weight, tuple(failures), counts, peaks, seconds)


def _guarded(trial: Trial, case: Any) -> tuple[Facts, str]:
    try:
        return trial(case), ""
    except Violation as violation:
        return Facts(), str(violation)
    except Exception:  # noqa: BLE001  # the boundary of a trial: one that breaks is a failure, and the next goes on
        return Facts(), traceback.format_exc()


# -- processes -----------------------------------------------------------------------------------------------------


def _begin_worker() -> None:
    """Become the parent of orphaned processes, so that none is overlooked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[str]:
    """The command lines of this process's children."""
    found = []
    for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        found.append(f"{pid} {command}")
    return found


def nobody_is_left(within_s: float) -> float:
    """Wait for the end of every child of this process; how long it took, in seconds. Raises Violation."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, within_s)
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return time.monotonic() - begun
    except TimeoutError:
        left = children()
        for line in left:
            os.kill(int(line.split()[0]), signal.SIGKILL)
        raise Violation(f"left behind after {within_s} s: {left}") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
