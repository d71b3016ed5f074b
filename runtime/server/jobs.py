"""What commands left running, and what runs: every process below the server but its shells; listed, and ended.

`setsid`, `nohup`, `disown` and a second fork take nothing out of the list: the server is the one to whom
orphans are given (see `processes`). What the server itself started and waits for, its shells, is not listed
and cannot be ended here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from core.sandbox_types import Job
from runtime.server import processes

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
    pids = processes.commands_below(os.getpid())
    found = _from_proc(pids) if sys.platform == "linux" else _from_ps(pids)
    return sorted(found, key=lambda job: (job.started_at, job.pid))


async def end_job(pid: int) -> None:
    """End a job and everything below it: SIGTERM, and after GRACE_S SIGKILL to what is left. Raises JobError."""
    if pid not in processes.commands_below(os.getpid()):
        raise JobError(f"There is no job {pid}. Ask for the list of jobs again.")
    await processes.end_tree(pid, GRACE_S)


def _from_proc(pids: Iterable[int]) -> Iterator[Job]:
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


def _from_ps(pids: Iterable[int]) -> Iterator[Job]:
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
