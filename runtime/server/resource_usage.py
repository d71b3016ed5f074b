"""What the server uses of its machine, in the form of V0's `/server_info`, and beyond it what everything uses that
was started here. Numbers that cannot be had are 0."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from runtime.isolation import cgroups
from runtime.server import processes


def usage(working_dir: str, uptime_s: float) -> dict[str, Any]:
    """CPU of the server over its life in percent; memory and disk in bytes; bytes read and written."""
    rss, vms = _memory()
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    disk = shutil.disk_usage(working_dir)
    read, written = _io()
    return {
        "cpu_percent": round(100 * time.process_time() / max(uptime_s, 0.001), 1),
        "memory": {"rss": rss, "vms": vms, "percent": round(100 * rss / total, 2)},
        "disk": {
            "total": disk.total,
            "used": disk.used,
            "free": disk.free,
            "percent": round(100 * disk.used / max(disk.total, 1), 1),
        },
        "io": {"read_bytes": read, "write_bytes": written},
    }


def of_all() -> dict[str, Any]:
    """Of the server and everything below it: how many processes, their memory in bytes, their seconds of CPU, and how
    many the kernel has killed in their group because memory ran out."""
    pids = {os.getpid(), *processes.descendants(os.getpid())}
    memory, cpu_s = 0, 0.0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]  # of ended children, too
            cpu_s += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    kills = cgroups.own_kills()
    return {"processes": len(pids), "memory": memory, "cpu_seconds": round(cpu_s, 2), "oom_kills": kills}


def _memory() -> tuple[int, int]:
    try:
        size, resident = Path("/proc/self/statm").read_text().split()[:2]
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1024), 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(resident) * page, int(size) * page


def _io() -> tuple[int, int]:
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0, 0
    fields = dict(line.split(": ") for line in lines)
    return int(fields["read_bytes"]), int(fields["write_bytes"])
