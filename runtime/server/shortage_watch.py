"""What runs short while actions run: memory, which the kernel sees to, and processes and the disk, seen to here.

Where no process can be started any more, every further command would wait for ever, so what was left running is ended:
before an action, while one runs, and after one that took long or was interrupted.

A workspace that is mounted from the host has no size of its own, so a command could fill the host's disk. When the free
space of the workspace's disk falls below the reserve, what runs is ended.

Both are looked at by a timer: no system tells of either. There is none while nothing runs but our own processes.

Invariant: what was ended is told once, with the observation that comes next.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from runtime.isolation import cgroups
from runtime.server import processes
from runtime.shortage_messages import PROCESSES_RAN_OUT, disk_ran_out, files_ran_out, memory_ran_out

LOOK_EVERY_S = 0.5
"""A fast disk takes some hundred megabytes in this time, which is what the reserve is for."""
QUIET_LOOKS = 2
"""Without anything that runs; one alone may miss a process whose parent just ended."""
LONG_S = 1.0
"""After an action that took longer, or was interrupted, it is looked whether there is room for processes."""
SPARE_PROCESSES, SPARE_SHARE = 32, 4
"""What commands take; where few may be at all, it is one of so many."""
FEWEST_PROCESSES = 2
"""What is looked for before each action, when it has to be quick."""
CROWDED_LOOKS = 12
"""In a row without room for one process: builds that are short of it for some seconds go on by themselves.

A shell that waits for room looks after 1, 3, 7 and 15 s.
"""
STACK_BYTES = 64 * 1024
MIN_FREE_FILES = 10_000
MIN_FREE_FILES_SHARE = 50
"""Small file systems have few files at all: there it is one of so many."""


class Shortage:
    """Looks on while actions run. `reserve_bytes` stay free on the disk of `folder`; None lets it fill up."""

    def __init__(self, folder: str, reserve_bytes: int | None = None) -> None:
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # whatever is done with its name
        least_files = min(MIN_FREE_FILES, os.statvfs(folder).f_files // MIN_FREE_FILES_SHARE)
        self._bytes = _Reserve(reserve_bytes or 0)
        self._files = _Reserve(0 if reserve_bytes is None else least_files)
        self._killed = cgroups.own_kills()
        self._spare = min(SPARE_PROCESSES, *(most // SPARE_SHARE for most in _bounds_of_processes()))
        self._acting = 0
        self._watch: asyncio.Task[None] | None = None
        self._untold = ""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Around an action; what it leaves running is looked at, too."""
        if self._watch is None or self._watch.done():
            free_bytes, free_files = self._free()  # before the action can take any
            self._bytes.begin(free_bytes)
            self._files.begin(free_files)
            self._watch = asyncio.create_task(self._look_on(), name="look on for shortages")
        self._make_room(FEWEST_PROCESSES)
        self._acting += 1
        begun_at, is_done = time.monotonic(), False
        try:
            yield
            is_done = True
        finally:
            self._acting -= 1
            if not is_done or time.monotonic() - begun_at > LONG_S:
                self._make_room(self._spare)

    def take(self) -> str:
        """What happened since this was asked last, for the model; empty where nothing did."""
        told, self._untold = self._untold, ""
        before, self._killed = self._killed, cgroups.own_kills()
        if self._killed > before:
            told = f"{memory_ran_out(cgroups.own_memory_bytes())} {told}".rstrip()
        return told

    async def aclose(self) -> None:
        """Look on no longer."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        os.close(self._folder)

    def _make_room(self, wanted: int) -> None:
        """End what commands run where it leaves no room for so many processes, so that the next command can start."""
        if not _can_start(wanted) and processes.end_commands(os.getpid()):
            self._untold = PROCESSES_RAN_OUT

    def _free(self) -> tuple[int, int]:
        """Bytes and files. Takes microseconds."""
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize, disk.f_favail

    async def _look_on(self) -> None:
        quiet = crowded = 0
        while quiet < QUIET_LOOKS:
            await asyncio.sleep(LOOK_EVERY_S)
            quiet = 0 if self._acting or processes.commands_below(os.getpid()) else quiet + 1
            self._keep_the_reserve()
            crowded = 0 if _can_start(1) else crowded + 1
            if crowded == CROWDED_LOOKS:
                crowded = 0
                self._make_room(1)

    def _keep_the_reserve(self) -> None:
        """End what runs where too little of the disk is free."""
        free_bytes, free_files = self._free()
        if self._bytes.is_broken_into(free_bytes):
            self._untold = disk_ran_out(free_bytes)
        elif self._files.is_broken_into(free_files):
            self._untold = files_ran_out(free_files)
        else:
            return
        # Where no command runs, a shell writes by itself, or a kernel; each is replaced by whoever waits for it.
        if not processes.end_commands(os.getpid()):
            processes.kill_all(processes.awaited())


def _bounds_of_processes() -> Iterator[int]:
    """What the kernel lets this user, and this group, have at once; a large number where there is no bound."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    yield sys.maxsize if most == resource.RLIM_INFINITY else most
    yield cgroups.own_processes() or sys.maxsize


def _can_start(count: int) -> bool:
    """Whether so many processes could be started at once: threads count the same, and cost some microseconds."""
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
    """What stays free. Once it was broken into, what is run then may use an eighth of the rest: enough to tidy up."""

    def __init__(self, least: int) -> None:
        self._least = self._floor = least

    def begin(self, free: int) -> None:
        """Before something is run."""
        self._floor = self._least if free >= self._least else free * 7 // 8

    def is_broken_into(self, free: int) -> bool:
        """Whether what runs has to be ended."""
        is_below = free < self._floor
        if is_below or free >= self._least:
            self.begin(free)
        return is_below
