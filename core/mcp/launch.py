"""Becomes a server's program: removes the host's resource limits, ties its life to the host's, and executes it.

`python -I -S launch.py PROGRAM ARGS...`, run as a file in the process that becomes the server, so that no code runs
between fork and exec. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Execute the program. Exits with 127 and a line on standard error if that fails."""
    for limit in (resource.RLIMIT_DATA, resource.RLIMIT_CORE):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (hard, hard))
    if sys.platform == "linux":  # on other systems the end of its input must suffice
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  # the user's program, by an argument list
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]} cannot be run: {error.strerror or error}\n")
        os._exit(127)


if __name__ == "__main__":
    main()
