"""What the server forbids itself and others: no core dump, no look into its memory, files for their owner
alone.

The key that admits callers lives in this process, beside commands that a model wrote. Each measure is taken
where the system has it; none of them is a substitute for a sandbox.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def harden() -> int:
    """Protect this process, and become the parent of orphans. The answer is the umask of before, for
    commands."""
    umask = os.umask(0o077)
    limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return umask


def limit(what: int, most: int | None) -> None:
    """Set a limit of the `resource` module for this process and all that it starts; None sets none."""
    if most is not None:
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def take_key(path: Path) -> str:
    """The key in a file, which is removed: nobody can read it a second time. Raises OSError; ValueError if
    empty."""
    try:
        key = path.read_text("ascii").strip()
    finally:
        path.unlink(missing_ok=True)
    if not key:
        raise ValueError(f"the key file is empty: {path}")
    return key
