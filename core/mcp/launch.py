"""Becomes a server: takes the host's bounds off, ties its life to the host's, and runs the program.

`python -I -S launch.py PROGRAM ARGS...`. Run as a file, in the process that will be the server, so that nothing has to
happen between fork and exec. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the program. Ends with 127 and a line on standard error where that cannot be."""
    for limit in (resource.RLIMIT_DATA, resource.RLIMIT_CORE):
        _, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (hard, hard))
    if sys.platform == "linux":  # elsewhere the end of its input has to do
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606  # the user's program, by an argument list
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]} cannot be run: {error.strerror or error}\n")
        os._exit(127)


if __name__ == "__main__":
    main()
