"""What the server forbids itself and others: core dumps, access to its memory, files that other users can read.

The key for callers is in this process, next to commands that a model wrote. Each measure is used if the system has it;
none of them replaces a sandbox.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

from runtime.isolation import seccomp

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_FILTER_LINE_BYTES = 8


class _Filter(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = [("lines", ctypes.c_ushort), ("program", ctypes.c_char_p)]


def harden() -> int:
    """Protect this process and adopt orphans. Returns the previous umask, which commands get."""
    umask = os.umask(0o077)
    limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    adopt_orphans()
    return umask


def heed_keys() -> None:
    """Restore the default action of the signals of terminal keys, for this process and all that it starts.

    A process started in the background by a shell without job control, or by `nohup`, ignores some of them. A shell
    cannot undo that for its commands, so Ctrl+C would not work.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, if the system supports that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def filter_calls() -> None:
    """Forbid the system calls listed in `seccomp`, for this process and all that it starts. This cannot be undone.

    An existing filter, such as a container's, stays in force. The filter applies to the calling thread, so call this
    before starting others. Raises OSError.
    """
    program = seccomp.program() if sys.platform == "linux" else None
    if program is None:
        raise OSError("system calls cannot be filtered on this architecture; leave out --filter-calls")
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = (ctypes.c_ulong(0),) * 3
    lines = _Filter(len(program) // _FILTER_LINE_BYTES, program)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *nothing) or libc.prctl(
        _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(lines), *nothing[1:]
    ):
        why = os.strerror(ctypes.get_errno())
        raise OSError(f"the kernel refuses a filter for system calls: {why}; leave out --filter-calls")


def limit(what: int, most: int | None) -> None:
    """Set a limit of the `resource` module for this process and all that it starts; None sets no limit."""
    if most is not None:
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def take_key(path: Path) -> str:
    """Read the key from a file and remove the file. Raises OSError; ValueError if it is empty."""
    try:
        key = path.read_text("ascii").strip()
    finally:
        path.unlink(missing_ok=True)
    if not key:
        raise ValueError(f"the key file is empty: {path}")
    return key
