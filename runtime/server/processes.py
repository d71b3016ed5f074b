"""Who descends from whom, and the end of all of them.

A command can leave its session (`setsid`), its parent (`&` in a subshell) and its terminal (`nohup`). On
Linux the server makes itself the one to whom orphans are given, so that everything that was ever started
stays below it in the tree of processes and can be found at the end. Elsewhere what has left both session
and parent is out of reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from core.sandbox_usage import Job

_PROC = Path("/proc")
KILL_ROUNDS = 50
"""A process that forks while it is being killed leaves a child for the next round; each takes about a
millisecond."""
EMPTY_ROUNDS = 2
"""One alone may miss a process whose parent just ended."""

_awaited: set[int] = set()
"""Children whose end somebody here waits for: their exit status is his."""

of_the_server: set[Callable[[], set[int]]] = set()
"""What tells the processes below the server that are its own, and no command's: a plugin adds its own."""


class _Entry(NamedTuple):
    parent: int
    group: int
    session: int
    is_zombie: bool


def descendants(root: int) -> set[int]:
    """Every living process below `root`, `root` not included."""
    table = _table()
    found: set[int] = set()
    fresh = {root}
    while fresh:
        fresh = {pid for pid, entry in table.items() if entry.parent in fresh} - found
        found |= fresh
    return {pid for pid in found if not table[pid].is_zombie}


def session_members(session: int) -> set[int]:
    """Every living process of a terminal session."""
    return {pid for pid, entry in _table().items() if entry.session == session and not entry.is_zombie}


def commands_below(root: int) -> set[int]:
    """Every living process below `root` but those that are waited for here, the shells, and the server's own."""
    return descendants(root).difference(_awaited, *(own() for own in of_the_server))


def awaited() -> set[int]:
    """The children that are waited for here: the shells, the kernel."""
    return set(_awaited)


def group_members(group: int) -> set[int]:
    """Every living process of a process group."""
    return {pid for pid, entry in _table().items() if entry.group == group and not entry.is_zombie}


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each; who is gone already is gone.

    All are stopped before the first one dies: a shell that sees its command die would begin the next one. The lowest
    ids, which are usually the parents', are stopped first: a shell that sees its command stopped would report that.
    """
    pids = sorted(pids)
    stop_all(pids)
    _signal_all(pids, signal.SIGKILL)


def stop_all(pids: Iterable[int]) -> None:
    """SIGSTOP to each: it does nothing more, starts nothing more, and keeps its children."""
    _signal_all(pids, signal.SIGSTOP)


def end_commands(root: int) -> bool:
    """End what `commands_below` finds, however fast it forks; the answer is whether there was anything.

    All of it is stopped before any of it is killed: what is stopped forks no more, and still takes the room that its
    children would need. Blocks for milliseconds.
    """
    stopped: set[int] = set()
    empty = 0
    for _ in range(KILL_ROUNDS):
        fresh = commands_below(root) - stopped
        empty = 0 if fresh else empty + 1
        if empty == EMPTY_ROUNDS:
            break
        stop_all(fresh)
        stopped |= fresh
    kill_all(stopped)
    return bool(stopped)


def kill_descendants(root: int) -> None:
    """End everything below `root`, also what is forked meanwhile. Blocks for milliseconds; for the server's
    end."""
    for _ in range(KILL_ROUNDS):
        below = descendants(root)
        if not below:
            return
        kill_all(below)


async def end_tree(root: int, grace_s: float) -> None:
    """SIGTERM to a process and all below it, and SIGKILL to what is there after `grace_s`; returns when they
    are gone."""
    tree = {root} | descendants(root)
    _signal_all(tree, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace_s):
            await _all_gone(tree)
            return
    left = tree | {below for pid in tree for below in descendants(pid)}
    kill_all(left - _awaited)
    await _all_gone(left)


def reap_orphans() -> None:
    """Take away the ended processes that were given to us, but not those that `wait_for_exit` waits for."""
    me = os.getpid()
    for pid, entry in _table().items():
        if entry.parent == me and entry.is_zombie and pid not in _awaited:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


async def wait_for_exit(process: subprocess.Popen[bytes]) -> int:
    """Wait without polling and without blocking the loop; the exit status as Popen says it.

    On Linux by a pidfd; elsewhere by a thread that waits.
    """
    _awaited.add(process.pid)
    try:
        if not hasattr(os, "pidfd_open"):
            return await asyncio.to_thread(process.wait)
        await gone(process.pid)
        return process.wait()
    finally:
        _awaited.discard(process.pid)


async def gone(pid: int) -> None:
    """Wait for the end of a process, by its pidfd."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def _all_gone(pids: Iterable[int]) -> None:
    """Wait for the end of all; where the system has no pidfds, for nothing that can be known."""
    if hasattr(os, "pidfd_open"):
        for pid in pids:
            await gone(pid)


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _table() -> dict[int, _Entry]:
    return dict(_from_proc() if sys.platform == "linux" else _from_ps())


def _from_proc() -> Iterator[tuple[int, _Entry]]:
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_bytes()
            except OSError:
                continue
            # The name stands in brackets and may hold anything, brackets and blanks included.
            fields = stat[stat.rindex(b")") + 2 :].split()
            yield int(folder.name), _Entry(int(fields[1]), int(fields[2]), int(fields[3]), fields[0] in (b"Z", b"X"))


def _from_ps() -> Iterator[tuple[int, _Entry]]:
    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,sess=,stat="], capture_output=True, text=True, check=False, timeout=5
    ).stdout
    for line in listing.splitlines():
        pid, parent, group, session, state = line.split(None, 4)
        yield int(pid), _Entry(int(parent), int(group), int(session, 16), state.startswith("Z"))


GRACE_S = 1.0
"""From SIGTERM to SIGKILL."""
COMMAND_CHARS = 4_000
"""Of a command line; its beginning."""
_STATES = {"R": "running", "S": "sleeping", "I": "sleeping", "D": "waiting for a disk", "U": "waiting for a disk"}
_STATES |= {"T": "stopped", "t": "stopped"}


class JobError(LookupError):
    """There is no such job; the text says so."""


def jobs() -> list[Job]:
    """All of them, the oldest first. Takes some milliseconds."""
    pids = commands_below(os.getpid())
    found = _jobs_from_proc(pids) if sys.platform == "linux" else _jobs_from_ps(pids)
    return sorted(found, key=lambda job: (job.started_at, job.pid))


async def end_job(pid: int) -> None:
    """End a job and everything below it: SIGTERM, and after GRACE_S SIGKILL to what is left. Raises JobError."""
    if pid not in commands_below(os.getpid()):
        raise JobError(f"There is no job {pid}. Ask for the list of jobs again.")
    await end_tree(pid, GRACE_S)


def _jobs_from_proc(pids: Iterable[int]) -> Iterator[Job]:
    ticks = os.sysconf("SC_CLK_TCK")
    booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile
            stat = Path(f"/proc/{pid}/stat").read_bytes()
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            name, _, rest = stat.partition(b"(")[2].rpartition(b")")
            fields = rest.split()
            yield Job(
                pid=pid,
                command=_text(line.rstrip(b"\0").replace(b"\0", b" ") or b"[" + name + b"]"),
                started_at=round(booted_at + int(fields[19]) / ticks, 2),
                cpu_s=(int(fields[11]) + int(fields[12])) / ticks,
                state=_STATES.get(fields[0].decode(), "ending"),
                foreground=fields[2] == fields[5],
            )


def _jobs_from_ps(pids: Iterable[int]) -> Iterator[Job]:
    chosen = ",".join(map(str, pids)) or "0"
    listing = subprocess.run(
        ["ps", "-o", "pid=,pgid=,tpgid=,stat=,etime=,time=,args=", "-ww", "-p", chosen],
        capture_output=True,
        check=False,
        timeout=5,
    ).stdout
    for line in listing.splitlines():
        pid, group, foreground, state, elapsed, cpu, command = line.split(None, 6)
        yield Job(
            pid=int(pid),
            command=_text(command),
            started_at=round(time.time() - _seconds(elapsed.decode()), 2),
            cpu_s=_seconds(cpu.decode()),
            state=_STATES.get(state.decode()[0], "ending"),
            foreground=group == foreground,
        )


def _seconds(text: str) -> float:
    """Of `[[days-]hours:]minutes:seconds`."""
    days, _, rest = text.rpartition("-")
    seconds = 0.0
    for part in rest.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86_400 * int(days or 0)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")[:COMMAND_CHARS]
