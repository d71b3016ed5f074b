"""Watches memory, processes and disk while actions run, and records the memory that the sandbox uses.

The kernel kills a process if memory runs out, and this module reports it; where it limits only each process, commands
are ended when all processes together exceed that limit. If no process can be started any more, every command would wait
for ever, so what was left running is ended: before an action, while one runs, and after one that took long or was
interrupted. A workspace mounted from the host has no size limit, so when the free space of its disk falls below the
reserve, running commands are ended. All are polled, because no system notifies of them; the timer stops while only our
own processes run. V0's variable `RUNTIME_MEMORY_MONITOR` is the interval of the record in seconds.

Invariant: what was ended is reported once, with the next observation.
"""

from __future__ import annotations

import _thread
import asyncio
import math
import os
import resource
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from runtime.isolation import cgroups
from runtime.server import processes
from runtime.shortage_messages import PROCESSES_RAN_OUT, disk_ran_out, files_ran_out, memory_ran_out

POLL_S = 0.5
"""A fast disk takes some hundred megabytes in this time, which the reserve allows for."""
QUIET_POLLS = 2
"""Checks without any running command; a single one may miss a process whose parent just ended."""
LONG_S = 1.0
"""After an action that took longer, or was interrupted, check whether processes can be started."""
SPARE_PROCESSES, SPARE_SHARE = 32, 4
"""Processes that commands need; if the limit is low, a fraction of it."""
FEWEST_PROCESSES = 2
"""Checked before each action, when it has to be quick."""
CROWDED_POLLS = 12
"""Checks in a row without room for a process: builds that are short of it for some seconds recover.

A shell that waits for room retries after 1, 3, 7 and 15 s.
"""
STACK_BYTES = 64 * 1024
MEMORY_MONITOR = "RUNTIME_MEMORY_MONITOR"
MEMORY_INTERVAL_S = 5.0
MEMORY_SAMPLES = 720
"""An hour of commands, at the default interval."""
MIN_FREE_FILES = 10_000
MIN_FREE_FILES_SHARE = 50
"""Small file systems have few files; there the reserve is this fraction."""


def memory_interval_s(text: str) -> float:
    """Return the interval that `RUNTIME_MEMORY_MONITOR` sets, at least POLL_S; the default if it is no number."""
    try:
        seconds = float(text)
    except ValueError:
        return MEMORY_INTERVAL_S
    return max(seconds, POLL_S) if 0 < seconds < math.inf else MEMORY_INTERVAL_S


class ShortageWatch:
    """Watches while actions run.

    `reserve_bytes` stay free on the disk of `folder`; None sets no reserve. `memory_bytes` is the limit for all
    processes together; None if the system has its own.
    """

    def __init__(
        self,
        folder: str,
        reserve_bytes: int | None = None,
        memory_interval_s: float = MEMORY_INTERVAL_S,
        memory_bytes: int | None = None,
    ) -> None:
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # even if it is renamed
        least_files = min(MIN_FREE_FILES, os.statvfs(folder).f_files // MIN_FREE_FILES_SHARE)
        self._bytes = _Reserve(reserve_bytes or 0)
        self._files = _Reserve(0 if reserve_bytes is None else least_files)
        self._killed = cgroups.own_kills()
        self._spare = min(SPARE_PROCESSES, *(limit // SPARE_SHARE for limit in _process_limits()))
        self._running_actions = 0
        self._watch: asyncio.Task[None] | None = None
        self._report = ""
        self._memory_interval_s = memory_interval_s
        self._memory_bytes = memory_bytes
        self._memory = deque[tuple[float, int]](maxlen=MEMORY_SAMPLES)

    def memory_history(self) -> list[tuple[float, int]]:
        """Return how many seconds ago which bytes of memory were used, oldest first; only while commands ran."""
        now = time.monotonic()
        return [(round(now - at, 1), used) for at, used in self._memory]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch during an action; what it leaves running is watched as well."""
        if self._watch is None or self._watch.done():
            free_bytes, free_files = self._free()  # before the action can take any
            self._bytes.begin(free_bytes)
            self._files.begin(free_files)
            self._watch = asyncio.create_task(self._poll(), name="watch for shortages")
        self._make_room(FEWEST_PROCESSES)
        self._running_actions += 1
        begun_at, is_done = time.monotonic(), False
        try:
            yield
            is_done = True
        finally:
            self._running_actions -= 1
            if not is_done or time.monotonic() - begun_at > LONG_S:
                self._make_room(self._spare)

    def take(self) -> str:
        """Return what happened since the last call, for the model, or an empty string."""
        report, self._report = self._report, ""
        before, self._killed = self._killed, cgroups.own_kills()
        if self._killed > before:
            report = f"{memory_ran_out(cgroups.own_memory_bytes())} {report}".rstrip()
        return report

    async def aclose(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        os.close(self._folder)

    def _make_room(self, wanted: int) -> None:
        """End what commands left running if so many processes cannot be started."""
        if not _can_start(wanted) and processes.end_commands(os.getpid()):
            self._report = PROCESSES_RAN_OUT

    def _free(self) -> tuple[int, int]:
        """Return the free bytes and files. Takes microseconds."""
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize, disk.f_favail

    async def _poll(self) -> None:
        quiet = crowded = 0
        while quiet < QUIET_POLLS:
            await asyncio.sleep(POLL_S)
            quiet = 0 if self._running_actions or processes.commands_below(os.getpid()) else quiet + 1
            self._record_memory()
            self._check_reserve()
            await self._check_memory()
            crowded = 0 if _can_start(1) else crowded + 1
            if crowded == CROWDED_POLLS:
                crowded = 0
                self._make_room(1)

    def _record_memory(self) -> None:
        now = time.monotonic()
        if not self._memory or now - self._memory[-1][0] >= self._memory_interval_s:
            pids = {os.getpid(), *processes.descendants(os.getpid())}
            self._memory.append((now, processes.memory_bytes(pids)))

    def _check_reserve(self) -> None:
        free_bytes, free_files = self._free()
        if self._bytes.is_used_up(free_bytes):
            self._report = disk_ran_out(free_bytes)
        elif self._files.is_used_up(free_files):
            self._report = files_ran_out(free_files)
        else:
            return
        _end_work()

    async def _check_memory(self) -> None:
        """End what runs if all processes together exceed the limit.

        Resident memory counts shared pages for each process, which is quick and too much; the proportional share is
        exact, and is read only above the limit.
        """
        if (most := self._memory_bytes) is None:
            return
        pids = processes.descendants(os.getpid())
        if processes.memory_bytes(pids) > most and await asyncio.to_thread(processes.shared_memory_bytes, pids) > most:
            self._report = memory_ran_out(most)
            _end_work()


def _end_work() -> None:
    """End all commands. Without one, a shell or kernel itself is the cause; it is killed and replaced when needed."""
    if not processes.end_commands(os.getpid()):
        processes.kill_all(processes.awaited())


def _process_limits() -> Iterator[int]:
    """Yield the process limits of this user and of this control group; a large number for no limit."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    yield sys.maxsize if most == resource.RLIM_INFINITY else most
    yield cgroups.own_processes() or sys.maxsize


def _can_start(count: int) -> bool:
    """Return whether so many processes could be started: threads count the same and take microseconds."""
    held = _thread.allocate_lock()

    def wait() -> None:
        with held:
            pass

    before = _thread.stack_size(STACK_BYTES)
    try:
        with held:
            for _ in range(count):
                _thread.start_new_thread(wait, ())
    except RuntimeError:
        return False
    finally:
        _thread.stack_size(before)
    return True


class _Reserve:
    """A reserve that stays free. Once it is used, commands may use an eighth of the rest: enough to clean up."""

    def __init__(self, least: int) -> None:
        self._least = self._floor = least

    def begin(self, free: int) -> None:
        """Set the limit before commands run."""
        self._floor = self._least if free >= self._least else free * 7 // 8

    def is_used_up(self, free: int) -> bool:
        """Return whether running commands have to be ended."""
        is_below = free < self._floor
        if is_below or free >= self._least:
            self.begin(free)
        return is_below
