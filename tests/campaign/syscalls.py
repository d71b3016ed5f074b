"""Crash points and disk faults: a writer is killed, or gets an error, at each of its system calls on the database.

strace counts the calls of one complete run, and then makes another run fail at the k-th call, for every k. Afterwards
the database is opened again: acknowledged events are stored under their ids, ids have no gaps, a fault was reported
with advice, and writing can continue.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from core.events import EventSource, MessageAction
from core.store.event_store import EventStore
from core.store.writer import Draft
from tests.campaign import stored
from tests.campaign.trial import Facts, Result, check, nobody_is_left, run_trials, within
from tests.campaign.writer import BATCHES
from tests.program import ROOT

_Point = TypeVar("_Point")

CRASH_PROMISE = "killed at any system call, a writer has lost nothing that it acknowledged, and leaves no gap"
FAULT_PROMISE = "a write or sync that fails is told, never acknowledged, leaves no gap, and writing goes on after it"
SHORT = 16
"""Points of each of the two in the short form, spread over all of them."""
ACKNOWLEDGING = "write"
KILLED_AT = ("pwrite64", "fsync", "fdatasync", "ftruncate", "unlink", "fcntl", "openat", ACKNOWLEDGING)
SYNCS = ("fsync", "fdatasync")
NUMBERS = sum(sum(row) for row in BATCHES)


@dataclass(frozen=True)
class Point:
    """The k-th call of a kind, and what happens there."""

    call: str
    k: int
    how: str
    """As strace has it: `signal=KILL`, `error=EIO`, ..."""
    for_ever: bool = False
    """Whether every later call fails too."""
    early: bool = False
    """Whether the writer acknowledges too early, which the check has to notice."""

    def __str__(self) -> str:
        return f"{self.call} {self.k}{'+' if self.for_ever else ''} {self.how}"


def crash_points(limit: int | None, seed: int, *, early: bool = False) -> Result:
    """A kill at every point, or at `limit` of them, chosen by the seed."""
    counts = calls_of_a_run()
    points = [Point(call, k, "signal=KILL", early=early) for call in KILLED_AT for k in range(1, counts[call] + 1)]
    return run_trials("crash_points", CRASH_PROMISE, trial, spread(points, limit, seed), seed=seed)


def disk_faults(limit: int | None, seed: int) -> Result:
    """A fault at every point, or at `limit` of them, chosen by the seed."""
    points = spread(list(fault_points(calls_of_a_run())), limit, seed)
    return run_trials("disk_faults", FAULT_PROMISE, trial, points, seed=seed)


def fault_points(counts: Counter[str]) -> Iterator[Point]:
    """Every sync and write fails once; every sync, and every fourth write, for ever."""
    for call in SYNCS:
        for k in range(1, counts[call] + 1):
            yield Point(call, k, "error=EIO")
            yield Point(call, k, "error=EIO", for_ever=True)
    for k in range(1, counts["pwrite64"] + 1):
        yield Point("pwrite64", k, "error=ENOSPC")
        yield Point("pwrite64", k, "error=EIO")
        if k % 4 == 0:
            yield Point("pwrite64", k, "error=ENOSPC", for_ever=True)


def spread(points: list[_Point], limit: int | None, seed: int) -> list[_Point]:
    """All of them, or so many, chosen by the seed."""
    return points if limit is None else random.Random(seed).sample(points, min(limit, len(points)))


def strace(home: Path, *options: str, paths: bool = True) -> list[str]:
    """The command that runs strace on what follows, seeing only calls on the database, or all of them."""
    files = [f"{home}/handloom.db{end}" for end in ("", "-wal", "-shm", "-journal")]
    only = [part for file in files for part in ("-P", file)] if paths else []
    return ["strace", "-f", "-qq", *only, *options]


def calls_of_a_run() -> Counter[str]:
    """How often a whole run makes each call, in the thread that makes it most: strace counts by thread."""
    with tempfile.TemporaryDirectory(prefix="handloom-campaign-") as name:
        home, log = Path(name) / "home", Path(name) / "trace"
        watched = ",".join(call for call in KILLED_AT if call != ACKNOWLEDGING)
        command = [*strace(home, "-o", str(log), "-e", f"trace={watched}"), *writer(home)]
        out = subprocess.run(command, capture_output=True, cwd=ROOT, check=True, timeout=60).stdout
        by_thread = Counter(re.findall(r"^(\d+)\s+(\w+)\(", log.read_text("utf-8", "replace"), re.MULTILINE))
    found: Counter[str] = Counter({ACKNOWLEDGING: out.count(b"\n")})
    for (_, call), count in by_thread.items():
        found[call] = max(found[call], count)
    return found


def writer(home: Path, *, early: bool = False) -> list[str]:
    return [sys.executable, "-m", "tests.campaign.writer", str(home), *(["--early"] if early else [])]


def trial(point: Point) -> Facts:
    """One run of the writer with its fault, and the checks afterwards."""
    with tempfile.TemporaryDirectory(prefix="handloom-campaign-") as name:
        home = Path(name) / "home"
        when = f"{point.k}{'+' if point.for_ever else ''}"
        inject = f"inject={point.call}:{point.how}:when={when}"
        acknowledging = point.call == ACKNOWLEDGING
        options = ("-o", os.devnull, "-e", f"trace={point.call}", "-e", inject)
        command = [*strace(home, *options, paths=not acknowledging), *writer(home, early=point.early)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
        nobody_is_left(within(2))
        said = Said(done.stdout)
        facts = Facts()
        if "KILL" in point.how:
            check(done.returncode != 0, "the kill did not happen")
        facts.counts["acknowledged"] += len(said.acknowledged)
        facts.counts["refused"] += len(said.refused)
        facts.counts["not opened"] += bool(said.failed)
        if "KILL" not in point.how:
            check_told(point, done, said)
        check_stored(home, said, point)
        return facts


class Said:
    """The output of a writer."""

    def __init__(self, out: str) -> None:
        lines = [line.split(" ", 2) for line in out.rpartition("\n")[0].splitlines()]
        self.acknowledged = {int(line[1]): int(line[2]) for line in lines if line[0] == "ack"}
        """Numbers by the ids under which they were acknowledged."""
        self.refused = {int(line[1]): line[2] for line in lines if line[0] == "refused"}
        self.failed = [" ".join(line[1:]) for line in lines if line[0] == "failed"]


def check_told(point: Point, done: subprocess.CompletedProcess[str], said: Said) -> None:
    """Every append was answered; the fault was reported with advice; after a temporary fault, writing continued."""
    check(done.returncode == 0 and "Traceback" not in done.stderr, f"the writer broke: {done.stderr[-2000:]}")
    remedy = "The disk is full: free some space" if "ENOSPC" in point.how else "Check the disk, then try again"
    for message in [*said.refused.values(), *said.failed]:
        told = remedy in message or (message in said.failed and "Check the disk" in message)
        check(told, f"no remedy in: {message}")
    if said.failed:
        check(not said.acknowledged, "a store that failed to open has acknowledged")
        return
    answered = len(said.acknowledged) + len(said.refused)
    check(answered == NUMBERS, f"{answered} of {NUMBERS} appends were answered")
    if not point.for_ever:
        last = max(said.acknowledged.values(), default=-1)
        check(len(said.refused) < NUMBERS, "one fault refused everything")
        check(NUMBERS - 1 in (last, *said.refused), f"writing ended at {last}")


def check_stored(home: Path, said: Said, point: Point) -> None:
    """Acknowledged events exist, only the last append may exist besides, and another process can continue."""
    killed = "KILL" in point.how
    rows = stored.read(home).get("c", [])
    numbers = [int(row.event["args"]["content"].split(" ")[0]) for row in rows]
    for event_id, number in said.acknowledged.items():
        check(event_id < len(numbers), f"{number} was acknowledged as event {event_id} and is lost")
        check(numbers[event_id] == number, f"{number} was acknowledged as {event_id}, where {numbers[event_id]} is")
    check(len(set(numbers)) == len(numbers), f"stored twice: {numbers}")
    if not killed and not point.for_ever:  # a disk that never works again cannot take back what it has half
        extra = set(numbers) - set(said.acknowledged.values())
        check(not extra, f"refused and stored all the same: {extra}")
    if killed or rows:
        asyncio.run(_goes_on(home, len(rows)))


async def _goes_on(home: Path, count: int) -> None:
    async with EventStore(home) as store:
        known = bool(await store.conversations())
        lease = await (
            store.acquire("c") if known else store.create_conversation("c", title="", workspace="", model="")
        )
        (envelope,) = await store.append(lease, [Draft(MessageAction(content="-1 after"), EventSource.USER)])
        check(envelope.id == count, f"the next id is {envelope.id}, not {count}")
        check(len(await store.read("c")) == count + 1, "what comes after is not there")
