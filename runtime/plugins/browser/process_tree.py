"""Which processes belong to a worker, wherever they were moved to, and the end of all of them.

Chromium leaves the worker's session, and its crash handlers leave their parents; but each of them is told the worker's
folder on its command line, for the profile lies there. So a worker and Chromium can both be dead, and what they left
is found nevertheless.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from runtime.server import processes

KILL_ROUNDS = 50
"""As in `processes`: what forks while it is killed leaves a child for the next round."""


def members(leader: int, folder: Path) -> set[int]:
    """Every living process of a worker that leads a session, and of a Chromium whose files are in `folder`. Blocks."""
    # A slash more, so that the folder's own name is not a part of another's.
    return processes.session_members(leader) | set(_naming(f"{folder}/"))


def end(leader: int, folder: Path) -> None:
    """SIGKILL to all of them, also to what is forked meanwhile. Blocks for milliseconds."""
    for _ in range(KILL_ROUNDS):
        living = members(leader, folder)
        if not living:
            return
        processes.kill_all(living)


def zygotes(folder: Path) -> set[int]:
    """The processes that a Chromium makes its pages' processes from; without them it opens no page. Blocks."""
    return {pid for pid in _naming(f"{folder}/") if b"--type=zygote" in _command_line(pid)}


def _naming(text: str) -> Iterator[int]:
    wanted = text.encode()
    if sys.platform != "linux":
        listing = subprocess.run(["ps", "-axo", "pid=,args="], capture_output=True, check=False, timeout=5).stdout
        yield from (int(line.split(None, 1)[0]) for line in listing.splitlines() if wanted in line)
        return
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and wanted in _command_line(int(process.name)):
            yield int(process.name)


def _command_line(pid: int) -> bytes:
    """Empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
