"""Changes of owner: several processes contend for one conversation, and the owner is killed or stopped.

There are never two writers, which the log itself shows: each event has the lease under which it was written, and leases
never decrease. A dead owner is replaced within two seconds, a stopped one keeps its lease, and every acknowledged event
is stored.
"""

from __future__ import annotations

import asyncio
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from core.store.event_store import EventStore
from tests.campaign import stored
from tests.campaign.contender import CONVERSATION
from tests.campaign.stored import Row
from tests.campaign.trial import Facts, Result, Violation, check, nobody_is_left, run_trials, within
from tests.program import ROOT

PROMISE = "a conversation never has two writers, a dead owner is followed within 2 s, and nothing acknowledged is lost"
FULL, SHORT = 200, 8
KILLS_OF_A_TRIAL = 4
CONTENDERS = 3
FOLLOWED_WITHIN_S = 2.0
SILENT_S = 20.0
"""Until processes that say nothing are a failure."""
STOPPED_S = 0.1


def run(kills: int, seed: int) -> Result:
    """So many kills of owners, a few on each home."""
    trials = -(-kills // KILLS_OF_A_TRIAL)
    seeds = range(seed, seed + trials)
    return run_trials("owners", PROMISE, trial, seeds, seed=seed, weight=KILLS_OF_A_TRIAL)


@dataclass
class Contest:
    """The contending processes of one home, and their output."""

    home: Path
    chance: random.Random
    owner: int | None = None
    """The process that owns the conversation, according to its output."""
    owners: dict[int, int] = field(default_factory=dict)
    """Processes by the token under which they owned."""
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """Token and id of each event."""

    def __post_init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ready: set[int] = set()
        self._half: dict[int, bytes] = {}
        self._heard = selectors.DefaultSelector()
        for _ in range(CONTENDERS):
            self.add()

    def add(self) -> None:
        """One more contender."""
        seed = str(self.chance.randrange(10**9))
        command = [sys.executable, "-m", "tests.campaign.contender", str(self.home), seed]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert process.stdout is not None
        self._processes[process.pid] = process
        self._heard.register(process.stdout, selectors.EVENT_READ, process.pid)

    def hear(self) -> None:
        """Read output while waiting for a line."""
        heard = self._heard.select(SILENT_S)
        check(bool(heard), f"nobody says anything; {self.owner} owns")
        for key, _ in heard:
            self._take(key.data, os.read(key.fd, 65536))

    def _take(self, pid: int, data: bytes) -> None:
        whole, _, self._half[pid] = (self._half.get(pid, b"") + data).rpartition(b"\n")
        for line in whole.decode().splitlines():
            match line.split():
                case ["ready"]:
                    self._ready.add(pid)
                case ["own", token]:
                    check(int(token) not in self.owners, f"two processes own under token {token}")
                    self.owners[int(token)] = pid
                    self.owner = pid
                case ["free", token]:
                    self.owner = None if self.owner == pid and max(self.owners) == int(token) else self.owner
                case ["ack", token, event_id]:
                    self.acknowledged.append((int(token), int(event_id)))
                case ["broken", *words]:
                    raise Violation(f"a contender failed: {' '.join(words)}")

    def hear_until_owned(self, since: int = 0) -> int:
        """Wait until a process owns the conversation with a token above `since`. Returns the process."""
        while self.owner is None or max(self.owners) <= since:
            self.hear()
        return self.owner

    def hear_until_ready(self) -> None:
        """Wait until every contender takes part."""
        while not self._processes.keys() <= self._ready:
            self.hear()

    def kill(self, pid: int) -> None:
        """Send SIGKILL; its remaining output counts."""
        process = self._processes.pop(pid)
        process.kill()
        assert process.stdout is not None
        self._heard.unregister(process.stdout)
        rest, _ = process.communicate()
        self.owner = None if self.owner == pid else self.owner
        self._take(pid, rest)
        self.owner = None if self.owner == pid else self.owner

    def end(self) -> None:
        for pid in list(self._processes):
            self.kill(pid)
        self._heard.close()
        nobody_is_left(within(2))


def trial(seed: int) -> Facts:
    """Several kills in one home, and checks of the log."""
    chance, facts = random.Random(seed), Facts()
    with tempfile.TemporaryDirectory(prefix="handloom-campaign-") as name:
        home = Path(name) / "home"
        asyncio.run(_prepare(home))
        contest = Contest(home, chance)
        try:
            for _ in range(KILLS_OF_A_TRIAL):
                one_change(contest, chance, facts)
        finally:
            contest.end()
        rows = stored.read(home)[CONVERSATION]
        check_log(rows, contest.owners, contest.acknowledged)
        facts.counts["owners"] += len(contest.owners)
        facts.counts["events"] += len(rows)
    return facts


async def _prepare(home: Path) -> None:
    async with EventStore(home) as store:
        await store.release(await store.create_conversation(CONVERSATION, title="", workspace="/", model="m"))


def one_change(contest: Contest, chance: random.Random, facts: Facts) -> None:
    """Let them work for a while, stop the owner for a moment or not, kill it, and wait for the next one."""
    contest.hear_until_ready()  # a start does not count as the time that a change takes
    enough = len(contest.acknowledged) + chance.randint(1, 60)
    while len(contest.acknowledged) < enough:
        contest.hear()
    owner = contest.hear_until_owned()
    token = max(contest.owners)
    if chance.random() < 0.3:
        os.kill(owner, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        facts.counts["owners that were stopped first"] += 1
    contest.kill(owner)
    begun = time.monotonic()
    contest.hear_until_owned(since=token)
    took = time.monotonic() - begun
    check(took < within(FOLLOWED_WITHIN_S), f"a dead owner was followed after {took:.2f} s")
    contest.add()
    facts.counts["kills of owners"] += 1
    facts.peak("seconds until a dead owner was followed", took)


def check_log(rows: list[Row], owners: dict[int, int], acknowledged: list[tuple[int, int]]) -> None:
    """Leases increase, each belongs to one process, and acknowledged events exist under their lease."""
    stored.check_ids(CONVERSATION, rows)
    for row in rows:
        writer = int(row.event["args"]["content"])
        check(owners.get(row.lease, writer) == writer, f"event {row.id} of {writer} under the lease of another")
    for token, event_id in acknowledged:
        check(event_id < len(rows), f"event {event_id} was acknowledged and is lost")
        check(rows[event_id].lease == token, f"event {event_id} is not the one acknowledged under {token}")
