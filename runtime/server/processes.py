"""The process tree below the server: jobs that commands left running, and ending them all.

A command can leave its session (`setsid`), its parent (`&` in a subshell) and its terminal (`nohup`). On Linux the
server adopts orphans, so everything that was ever started stays below it in the process tree. On other systems, a
process that left both session and parent cannot be found.

A job is every process below the server except its own, such as shells, which it awaits.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from core.sandbox_types import Job

_PROC = Path("/proc")
KILL_ROUNDS = 50
"""A process that forks while it is killed leaves a child for the next round; a round takes about a millisecond."""
EMPTY_ROUNDS = 2
"""A single round may miss a process whose parent just ended."""
GONE_S = 0.5
"""How long killed processes may take to end: milliseconds, unless the machine has other work."""

_PR_SET_CHILD_SUBREAPER = 36

_awaited: set[int] = set()
"""Child processes whose exit status somebody here awaits."""

own_processes: set[Callable[[], set[int]]] = set()
"""Functions that return processes of the server that belong to no command; plugins add theirs."""


class _Entry(NamedTuple):
    parent: int
    group: int
    session: int
    is_zombie: bool


def descendants(root: int) -> set[int]:
    """Return every living process below `root`."""
    table = _table()
    found: set[int] = set()
    fresh = {root}
    while fresh:
        fresh = {pid for pid, entry in table.items() if entry.parent in fresh} - found
        found |= fresh
    return {pid for pid in found if not table[pid].is_zombie}


def commands_below(root: int) -> set[int]:
    """Return every living process below `root` that belongs to commands, not to the server."""
    return descendants(root).difference(_awaited, *(find() for find in own_processes))


def memory_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of processes together; those that have ended count nothing."""
    memory = 0
    for pid in pids:
        with suppress(OSError, IndexError, ValueError):
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return memory


def shared_memory_bytes(pids: Iterable[int]) -> int:
    """Return the memory of processes together, shared pages counted once among those that share them.

    Blocks for milliseconds a process. What cannot be read, such as a process that has ended, counts nothing.
    """
    memory_kb = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            memory_kb += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return memory_kb * 1024


def awaited() -> set[int]:
    """Return the child processes awaited here: shells and kernels."""
    return set(_awaited)


def session_members(session: int) -> set[int]:
    """Return every living process of a terminal session."""
    return {pid for pid, entry in _table().items() if entry.session == session and not entry.is_zombie}


def group_members(group: int) -> set[int]:
    """Return every living process of a process group."""
    return {pid for pid, entry in _table().items() if entry.group == group and not entry.is_zombie}


def kill_all(pids: Iterable[int]) -> None:
    """Send SIGKILL to processes.

    All are stopped before the first one dies, because a shell that sees its command die would start the next one. Lower
    IDs, usually those of parents, are stopped first, because a shell that sees its command stopped would report that.
    """
    pids = sorted(pids)
    signal_all(pids, signal.SIGSTOP)
    signal_all(pids, signal.SIGKILL)


def end_commands(root: int) -> bool:
    """End everything that `commands_below` finds, however fast it forks; return whether there was anything.

    All of it is stopped before it is killed: stopped processes do not fork, and still occupy the process IDs that
    children would need. A child whose fork was under way appears only then, so this waits until all are gone. Blocks
    for milliseconds, and for GONE_S at most.
    """
    stopped: set[int] = set()
    empty = 0
    for _ in range(KILL_ROUNDS):
        fresh = commands_below(root) - stopped
        empty = 0 if fresh else empty + 1
        if empty == EMPTY_ROUNDS:
            break
        signal_all(fresh, signal.SIGSTOP)
        stopped |= fresh
    kill_all(stopped)
    until = time.monotonic() + GONE_S
    while (left := commands_below(root)) and time.monotonic() < until:
        kill_all(left)
        time.sleep(GONE_S / 1_000)
    return bool(stopped)


def kill_descendants(root: int) -> None:
    """Kill everything below `root`, including new forks. Blocks for milliseconds; for the end of the server."""
    for _ in range(KILL_ROUNDS):
        below = descendants(root)
        if not below:
            return
        kill_all(below)


async def end_tree(root: int, grace_s: float) -> None:
    """End a process and its descendants with SIGTERM, after `grace_s` with SIGKILL; return when they are gone."""
    tree = {root} | descendants(root)
    signal_all(tree, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(grace_s):
            await _all_gone(tree)
            return
    left = tree | {below for pid in tree for below in descendants(pid)}
    kill_all(left - _awaited)
    await _all_gone(left)


def reap_orphans() -> None:
    """Reap adopted processes that have ended, except those awaited by `wait_for_exit`."""
    for pid, entry in _table().items():
        if entry.parent == os.getpid() and entry.is_zombie and pid not in _awaited:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, if the system supports that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def restore_key_signals() -> None:
    """Restore the default action of the signals that terminal keys send, for this process and all that it starts.

    A process started in the background by a shell without job control, or by `nohup`, ignores some of them. A shell
    cannot undo that for its commands, so Ctrl+C would not work.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


async def wait_for_exit(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process without polling or blocking the event loop; return its exit status.

    Uses a pidfd on Linux, a thread elsewhere.
    """
    _awaited.add(process.pid)
    try:
        if not hasattr(os, "pidfd_open"):
            return await asyncio.to_thread(process.wait)
        await wait_until_gone(process.pid)
        return process.wait()
    finally:
        _awaited.discard(process.pid)


async def wait_until_gone(pid: int) -> None:
    """Wait until a process has ended, using its pidfd, which only Linux has."""
    if sys.platform != "linux":
        raise NotImplementedError
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
    if hasattr(os, "pidfd_open"):
        for pid in pids:
            await wait_until_gone(pid)


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes; those that have ended or belong to other users are skipped."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
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
            # The name is in parentheses and may contain anything, even parentheses and spaces.
            fields = stat[stat.rindex(b")") + 2 :].split()
            yield int(folder.name), _Entry(int(fields[1]), int(fields[2]), int(fields[3]), fields[0] in (b"Z", b"X"))


def _from_ps() -> Iterator[tuple[int, _Entry]]:
    listing = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,pgid=,stat="], capture_output=True, text=True, check=False, timeout=5
    ).stdout
    for line in listing.splitlines():
        pid, parent, group, state = line.split(None, 3)
        with suppress(OSError):  # it has ended meanwhile, or is another user's; macOS's ps prints no session
            yield int(pid), _Entry(int(parent), int(group), os.getsid(int(pid)), state.startswith("Z"))


GRACE_S = 1.0
"""Time between SIGTERM and SIGKILL."""
COMMAND_CHARS = 4_000
"""A longer command line is cut."""
_STATES = {"R": "running", "S": "sleeping", "I": "sleeping", "D": "waiting for a disk", "U": "waiting for a disk"}
_STATES |= {"T": "stopped", "t": "stopped"}


class JobError(LookupError):
    """There is no such job."""


def jobs() -> list[Job]:
    """Return all jobs, oldest first. Takes some milliseconds."""
    pids = commands_below(os.getpid())
    found = _jobs_from_proc(pids) if sys.platform == "linux" else _jobs_from_ps(pids)
    return sorted(found, key=lambda job: (job.started_at, job.pid))


async def end_job(pid: int) -> None:
    """End a job and its descendants with SIGTERM, after GRACE_S with SIGKILL. Raises JobError."""
    if pid not in commands_below(os.getpid()):
        raise JobError(f"There is no job {pid}. Ask for the list of jobs again.")
    await end_tree(pid, GRACE_S)


def _jobs_from_proc(pids: Iterable[int]) -> Iterator[Job]:
    if sys.platform != "linux":
        return
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
    """Parse `[[days-]hours:]minutes:seconds`."""
    days, _, rest = text.rpartition("-")
    seconds = 0.0
    for part in rest.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86_400 * int(days or 0)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")[:COMMAND_CHARS]
