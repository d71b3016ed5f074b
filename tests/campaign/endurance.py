"""Endurance: the workspace works for a number of minutes, and its resources are measured.

    python -m tests.campaign --only endurance       (MINUTES=60, or HANDLOOM_ENDURANCE_MINUTES)
    python -m tests.campaign.endurance --minutes 20 (prints each sample, and publishes nothing)

The real program on a PTY, an endless model over real HTTP, a real sandbox. A simulated user sends messages in several
tabs, opens and closes tabs, filters the event log, searches, opens lists, and resizes the window. About once a minute
everything comes to rest in one tab, and a sample is taken: resident memory, objects, asyncio tasks, threads, open
files, child processes, the size of the write-ahead log.

Memory is judged by its trend after the warm-up (`trend`), because lazy imports and caches that fill up are no leak. For
counts that must be equal at every rest, the minimum of the last samples is compared with the maximum of the first ones
after the warm-up.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from core.store.database import sqlite3
from tests.bench.program import WORKSPACE_DRAWN, Program
from tests.campaign.trial import Result, Violation, check
from tests.program import ROOT

PROMISE = "hours of work take no more memory, tasks, threads, open files and processes than the first minutes"
MINUTES = 60.0
ENVIRON = "HANDLOOM_ENDURANCE_MINUTES"
WARM_UP = 0.3
"""The first part of the samples, before caches and lazy imports have settled."""
BOUND_MB_PER_HOUR = 20.0
"""Of a workspace that never rests, which does in an hour what a person does in a day: so 20 MB a day at most."""
SURE = 2.0
"""Standard errors that the trend has to be beyond the bound by, so that noise fails nothing."""
SAMPLE_EVERY_S = 60.0
MOST_TO_LEAVE = 120
"""Things to be closed, or half seconds to be waited, until all rests."""
COUNTS_WITHIN_S = 60.0
MOST_WAL_BYTES = 64 * 1024 * 1024
TABS = 4
SIZES = ((160, 48), (80, 24), (200, 60), (120, 30), (60, 20))
CLICK_ON_PROMPT = "\x1b[<0;20;45M\x1b[<0;20;45m"
"""On the first of SIZES."""
DELETES = "\x7f" * 24
ESCAPE = "\x1b[27u"
DOWN = "\x1b[B"
"""As a terminal tells it that leaves no doubt: a bare one and the next key would be one key with alt, under load."""
NEVER_MORE = ("tasks", "threads", "files", "children")


@dataclass(frozen=True)
class Sample:
    """What the workspace held while it was at rest."""

    at_s: float
    resident_mb: float
    host_mb: float
    """Of the processes below it together."""
    objects: int
    tasks: int
    threads: int
    files: int
    children: int
    wal_bytes: int
    events: int
    """In the database."""


class Workspace(Program):
    """The workspace on a PTY, used without rest."""

    def __init__(self, place: Path, seed: int, environ: dict[str, str]) -> None:
        self.home, self.counted, self.chance = place / "home", place / "counted", random.Random(seed)
        (place / "work").mkdir()
        arguments = ("-P", "-m", "tests.campaign.watched", str(self.counted))
        own = {
            "HOME": str(place),
            "HANDLOOM_HOME": str(self.home),
            "HANDLOOM__AGENT__CONFIRM": "never",
            "PYTHONPATH": str(ROOT),
            **environ,
        }
        super().__init__((*arguments, "--model", "openai/gpt-4o-mini", "--workspace", str(place / "work")), own)
        self.tabs = 1
        self.done: Counter[str] = Counter()

    def keys(self, text: str, for_s: float = 0.3) -> None:
        """Type text, and read output for a while."""
        self.write(text)
        self.watch(for_s)

    def work(self) -> None:
        """One thing that a user does."""
        what = self.chance.choices(*zip(*_WORK, strict=True))[0]
        what(self)
        self.done[what.__name__.strip("_").replace("_", " ")] += 1

    def rest(self) -> None:
        """Close everything except the first conversation, and wait until its agent rests and nothing is left running.

        What is open the workspace itself says: keys may have gone elsewhere than this user thinks, under load.
        """
        for _ in range(MOST_TO_LEAVE):
            tasks = self.count()["tasks"]
            if any("Screen(" in task for task in tasks):
                self.keys(ESCAPE, 0.6)
            elif sum(task == "agent_controller:controller" for task in tasks) > 1:
                self.tabs = 2
                _close_tab(self)
            elif not self.working():
                break
            self.watch(0.5)
        else:
            raise Violation(f"the workspace does not come to rest: {tasks}")
        self.tabs = 1
        self.watch(2.0)

    def working(self) -> int:
        """How many conversations have an agent that works."""
        return int(self._asked("SELECT count(*) FROM conversations WHERE state IN ('running', 'loading')"))

    def events(self) -> int:
        """How many there are in the database."""
        return int(self._asked("SELECT count(*) FROM events"))

    def _asked(self, statement: str) -> int:
        connection = sqlite3.connect(f"file:{self.home / 'handloom.db'}?mode=ro", uri=True, timeout=10.0)
        try:
            (found,) = connection.execute(statement).fetchone()
            return int(found)
        finally:
            connection.close()

    def count(self) -> dict[str, Any]:
        """The counts of the process (`tests.campaign.watched`)."""
        lines = self._lines()
        os.kill(self.pid, signal.SIGUSR2)
        ends_at = time.monotonic() + COUNTS_WITHIN_S
        while self._lines() == lines:
            check(time.monotonic() < ends_at, "the workspace does not count what it holds")
            self.watch(0.1)
        counted: dict[str, Any] = json.loads(self.counted.read_text("utf-8").splitlines()[-1])
        return counted

    def sample(self, began_at: float) -> Sample:
        """What the process holds."""
        counted = self.count()
        family = descendants(self.pid)
        wal = self.home / "handloom.db-wal"
        return Sample(
            at_s=round(time.monotonic() - began_at, 1),
            resident_mb=resident_mb(self.pid),
            host_mb=round(sum(map(resident_mb, family)), 1),
            objects=counted["objects"],
            tasks=len(counted["tasks"]),
            threads=len(os.listdir(f"/proc/{self.pid}/task")),
            files=len(os.listdir(f"/proc/{self.pid}/fd")),
            children=len(family),
            wal_bytes=wal.stat().st_size if wal.exists() else 0,
            events=self.events(),
        )

    def _lines(self) -> int:
        return self.counted.read_bytes().count(b"\n") if self.counted.exists() else 0

    def resize(self) -> None:
        """Another size of the window, and back."""
        for columns, rows in (self.chance.choice(SIZES), SIZES[0]):
            fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            self.watch(0.4)


def _say(workspace: Workspace) -> None:
    workspace.keys(CLICK_ON_PROMPT)
    workspace.keys(f"do number {workspace.chance.randrange(1000)}, please")
    workspace.keys("\r", 2.0)


def _open_tab(workspace: Workspace) -> None:
    if workspace.tabs >= TABS:
        _close_tab(workspace)
    workspace.keys("\x0e", 0.6)
    workspace.tabs += 1
    _say(workspace)


def _close_tab(workspace: Workspace) -> None:
    """The last one: the first conversation is long, and stays."""
    if workspace.tabs > 1:
        workspace.keys(f"\x18{workspace.tabs}")
        workspace.keys("\x18w", 1.0)  # longer than a question takes no key
        workspace.keys(f"{DOWN}\r", 0.6)  # where an agent works there, that is asked
        workspace.tabs -= 1


def _change_tab(workspace: Workspace) -> None:
    workspace.keys(f"\x18{workspace.chance.randint(1, workspace.tabs)}", 0.5)


def _filter_the_log(workspace: Workspace) -> None:
    workspace.keys("\x1bOR")
    workspace.keys("/")
    workspace.keys(workspace.chance.choice(("type:run", "exit!=0", 'text~"step"', "source:user")) + "\r", 0.5)
    workspace.keys("\x1b[5~\x1b[5~\x1b[B\x1b[B")
    workspace.keys("/")
    workspace.keys(DELETES)
    workspace.keys("\r")
    workspace.keys("\x1bOQ")


def _find(workspace: Workspace) -> None:
    workspace.keys("\x06echo\r\r", 0.5)
    workspace.keys(ESCAPE)


def _look_at_the_list(workspace: Workspace) -> None:
    workspace.keys("\x13", 0.6)
    workspace.keys(workspace.chance.choice(("echo", "number", "step of")), 0.8)
    workspace.keys(DELETES)
    workspace.keys(ESCAPE)


def _look_for_a_command(workspace: Workspace) -> None:
    workspace.keys("\x10the", 0.5)
    workspace.keys(ESCAPE)


def _read_help(workspace: Workspace) -> None:
    workspace.keys("\x1bOP\x1b[6~", 0.5)
    workspace.keys(ESCAPE)


def _scroll(workspace: Workspace) -> None:
    workspace.keys("\x1b[5~" * 6 + "\x1b[1;5H", 0.5)
    workspace.keys("\x1b[1;5F", 0.5)


def _fill_the_screen(workspace: Workspace) -> None:
    for pane in ("\x1bOS", "\x1bOR", "\x1bOQ"):
        workspace.keys(pane * 3)


def _look_at_figures(workspace: Workspace) -> None:
    workspace.keys("\x18$", 0.5)
    workspace.keys(ESCAPE)


_WORK: tuple[tuple[Callable[[Workspace], None], int], ...] = (
    (_say, 8),
    (_open_tab, 4),
    (_close_tab, 2),
    (_change_tab, 4),
    (_filter_the_log, 2),
    (_find, 1),
    (_look_at_the_list, 1),
    (_look_for_a_command, 1),
    (_read_help, 1),
    (_scroll, 2),
    (_fill_the_screen, 1),
    (_look_at_figures, 1),
    (Workspace.resize, 2),
)
"""Actions of the user and their weights."""


def descendants(pid: int) -> list[int]:
    """The living processes below one."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            state, parent = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(name)] = int(parent)
    family = {pid}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return sorted(family - {pid})


def resident_mb(pid: int) -> float:
    """The resident memory of a process; 0 if it has ended."""
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text("ascii")
        return round(int(status.partition("VmRSS:")[2].split()[0]) / 1024, 1)
    return 0.0


def trend(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of the line nearest to these points by their squares, and its standard error."""
    count = len(points)
    middle_x, middle_y = (sum(point[axis] for point in points) / count for axis in (0, 1))
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    if count < 3 or not spread:
        return 0.0, float("inf")
    slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / spread
    rest = sum((y - middle_y - slope * (x - middle_x)) ** 2 for x, y in points)
    return slope, (rest / (count - 2) / spread) ** 0.5


def judged(samples: Sequence[Sample], bound: float = BOUND_MB_PER_HOUR) -> Iterator[str]:
    """The problems of the samples, as sentences."""
    steady = samples[int(len(samples) * WARM_UP) :]
    if len(steady) < 4:
        yield f"{len(samples)} samples are too few to judge by"
        return
    for name in ("resident_mb", "host_mb"):
        slope, error = trend([(sample.at_s / 3600, getattr(sample, name)) for sample in steady])
        if slope - SURE * error > bound:
            yield f"{name} grows by {slope:.1f} (give or take {error:.1f}) MB an hour; {bound} are allowed"
    third = max(1, len(steady) // 3)
    for name in NEVER_MORE:
        first, last = ([getattr(one, name) for one in part] for part in (steady[:third], steady[-third:]))
        if min(last) > max(first):
            yield f"{name} have grown from at most {max(first)} to at least {min(last)}"
    if (most := max(sample.wal_bytes for sample in steady)) > MOST_WAL_BYTES:
        yield f"the write-ahead log has grown to {most} bytes"
    if steady[-1].events <= steady[0].events:
        yield "nothing was done"


def run(minutes: float | None, seed: int, tell: Callable[[Sample], None] = lambda sample: None) -> Result:
    """Work for so long: without a number, for as long as the environment says, or MINUTES."""
    minutes = float(os.environ.get(ENVIRON, MINUTES)) if minutes is None else minutes
    began_at, samples, failures = time.monotonic(), list[Sample](), list[str]()
    with tempfile.TemporaryDirectory(prefix="handloom-endurance-") as name, model(seed) as environ:
        workspace = Workspace(Path(name), seed, environ)
        try:
            with workspace:
                workspace.drawn(WORKSPACE_DRAWN)
                while time.monotonic() - began_at < minutes * 60 or len(samples) < 3:
                    ends_at = time.monotonic() + min(SAMPLE_EVERY_S, minutes * 60 / 3)
                    while time.monotonic() < ends_at:
                        workspace.work()
                    workspace.rest()
                    samples.append(workspace.sample(began_at))
                    tell(samples[-1])
                failures += judged(samples)
        except (Violation, TimeoutError, OSError) as error:
            failures.append(f"after {time.monotonic() - began_at:.0f} s: {error!r}")
    peaks = {f"most {field.name.replace('_', ' ')}": max(getattr(one, field.name) for one in samples)
             for field in fields(Sample) if samples}  # fmt: skip
    seconds = round(time.monotonic() - began_at, 1)
    counts = {**dict(sorted(workspace.done.items())), "minutes": int(seconds / 60)}
    return Result("endurance", PROMISE, seed, len(samples), tuple(failures), counts, peaks, seconds)


@contextmanager
def model(seed: int) -> Iterator[dict[str, str]]:
    """The endless model in a child process; yields its environment variables."""
    command = [sys.executable, "-m", "tests.campaign.endless", "--seed", str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address, key = process.stdout.readline().split()
            yield {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": key}
        finally:
            process.stdin.close()


def main() -> int:
    """Work for a number of minutes and print the samples. Returns 1 if something grows."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.endurance")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    result = run(options.minutes, options.seed, lambda sample: print(json.dumps(asdict(sample)), flush=True))
    print(json.dumps({"failures": result.failures, "counts": result.counts}, indent=1))
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
