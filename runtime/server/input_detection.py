"""Detects whether a program waits for input: is a process in the terminal's foreground blocked in a call that reads it?

Linux shows the system call in which a task sleeps, with its arguments (`/proc/PID/task/TID/syscall`): a read of the
terminal, or a wait (`select`, `poll`, `epoll`) for the terminal and for nothing that others could send. This finds a
shell's `read`, a password prompt, an editor, a pager and a Python prompt, but not `sleep`, a compiler, or a server that
also takes keys. Where this cannot be seen (another system, another architecture, a program of another user), the answer
is no.
"""

from __future__ import annotations

import math
import os
import platform
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from runtime.server import processes
from runtime.server.terminal import Terminal

MAX_TASKS = 64
"""Threads of one program to check; the one that reads is one of the first."""
BRIEF_S = 2.0
"""A shorter wait is how a script sleeps (`read -t 1`) or the tick of a program that works."""
MAX_WATCHED = 1024
"""File descriptors of one wait to check."""

_READ, _SELECT, _POLL, _PPOLL, _EPOLL, _EPOLL_2 = "read", "select", "poll", "ppoll", "epoll", "epoll_pwait2"
_CALLS: dict[str, dict[int, str]] = {
    "x86_64": {0: _READ, 19: _READ, 23: _SELECT, 270: _SELECT, 7: _POLL, 271: _PPOLL}
    | {232: _EPOLL, 281: _EPOLL, 441: _EPOLL_2},
    "aarch64": {63: _READ, 65: _READ, 72: _SELECT, 73: _PPOLL, 22: _EPOLL, 441: _EPOLL_2},
}
"""By architecture: the numbers of the system calls in which a program can wait for a terminal."""
_POLLIN = 0x0001 | 0x0040
_BESIDES = ("pipe:", "anon_inode:[eventfd]", "anon_inode:[signalfd]", "anon_inode:[timerfd]", "anon_inode:[io_uring]")
"""What an event loop watches for itself besides the terminal."""


def waits_for_terminal(terminal: Terminal | None) -> bool:
    """Return whether a process in the terminal's foreground waits for it. Takes some milliseconds."""
    calls = _CALLS.get(platform.machine(), {}) if sys.platform == "linux" else {}
    if terminal is None or not calls:
        return False
    group = terminal.foreground_group
    return any(_waits(pid, terminal.name, calls) for pid in processes.group_members(group))


def _waits(pid: int, terminal: str, calls: dict[int, str]) -> bool:
    for task in _tasks(pid):
        # It ended, or is another user's; "running" is not a number; its arguments may be invalid.
        with suppress(OSError, ValueError, IndexError, OverflowError, struct.error):
            number, *arguments = (task / "syscall").read_text("ascii").split()
            kind = calls.get(int(number), "")
            values = [int(argument, 16) for argument in arguments]
            if _is_for(_watched(pid, kind, values), pid, terminal) and _limit_s(pid, kind, values) >= BRIEF_S:
                return True
    return False


def _tasks(pid: int) -> list[Path]:
    with suppress(OSError):
        return sorted(Path(f"/proc/{pid}/task").iterdir())[:MAX_TASKS]
    return []


def _watched(pid: int, kind: str, arguments: list[int]) -> Iterable[int]:
    """Return the file descriptors that the call wants to read. Raises OSError, ValueError."""
    first, second = arguments[0], arguments[1] if len(arguments) > 1 else 0
    match kind:
        case "read":
            return [first]
        case "select" if second:
            count = min(first, MAX_WATCHED)
            bits = int.from_bytes(_memory(pid, second, (count + 63) // 64 * 8), "little")
            return [fd for fd in range(count) if bits >> fd & 1]
        case "poll" | "ppoll":
            entries = struct.iter_unpack("=ihh", _memory(pid, first, 8 * min(second, MAX_WATCHED)))
            return [fd for fd, events, _ in entries if events & _POLLIN and fd >= 0]
        case "epoll" | "epoll_pwait2":
            return list(_in_epoll(Path(f"/proc/{pid}/fdinfo/{first}").read_text("ascii")))
        case _:
            return []


def _limit_s(pid: int, kind: str, arguments: list[int]) -> float:
    """Return the call's time limit; for one in the program's memory, only the whole seconds. Raises OSError."""
    match kind:
        case "poll" | "epoll":
            milliseconds = arguments[2 if kind == "poll" else 3] & 0xFFFF_FFFF
            return math.inf if milliseconds >> 31 else milliseconds / 1000
        case "select" | "ppoll" | "epoll_pwait2":
            address = arguments[{"select": 4, "ppoll": 2, "epoll_pwait2": 3}[kind]]
            return float(struct.unpack("=q", _memory(pid, address, 8))[0]) if address else math.inf
        case _:
            return math.inf


def _in_epoll(listing: str) -> Iterator[int]:
    for line in listing.splitlines()[: MAX_WATCHED + 10]:
        name, _, rest = line.partition(":")
        if name == "tfd":
            yield int(rest.split()[0])


def _is_for(watched: Iterable[int], pid: int, terminal: str) -> bool:
    """Return whether the terminal is among the descriptors, and nothing that others could send."""
    names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in watched]
    terminals = (terminal, "/dev/tty")
    if not any(name in terminals for name in names):
        return False
    others = {name for name in names if name not in terminals and not name.startswith(_BESIDES)}
    return not others or others <= _socket_pairs(pid)


def _socket_pairs(pid: int) -> set[str]:
    """Return the unnamed local sockets: Python's event loop uses a pair of them for signals."""
    lines = Path(f"/proc/{pid}/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    return {f"socket:[{fields[6]}]" for fields in map(str.split, lines) if len(fields) == 7}


def _memory(pid: int, address: int, size: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(size)
