"""A Python that has imported pytest and other people's libraries, and forks each run of pytest from itself.

Starting Python and importing those takes longer than most tests of one module. Nothing of the project is imported
before the fork, so each run reads the current sources.

Run as a program: `python warm.py FOLDER`. A line of JSON on its standard input is a list: the arguments for pytest, the
file that its output goes to, and a limit in seconds. The line that answers is the exit status, or null where the run
was ended at its limit.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

LIBRARIES = (
    "asyncio", "pydantic", "pytest", "_pytest.assertion.rewrite", "aiohttp.web", "yaml", "rich.console", "textual.app",
    "textual.widgets", "textual.pilot", "PIL.Image",
)  # fmt: skip
"""Not sqlite3 and aiosqlite, which core.store.database replaces when it is imported; nor a plugin of pytest, which
warns where it cannot rewrite one that was imported before."""


class WarmPython:
    """One such Python, in a folder. Close it."""

    def __init__(self, python: Path, folder: Path, environ: dict[str, str]) -> None:
        command = [str(python), str(Path(__file__)), str(folder)]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, arguments: list[str], output: Path, limit_s: float) -> int | None:
        """Run pytest; its exit status (negative for a signal), None where it was ended at its limit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([arguments, str(output), limit_s]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return None if answer is None else int(answer)

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def main() -> None:
    """Answer lines until the input ends."""
    folder = sys.argv[1]
    sys.path[0] = folder  # instead of the folder of this file
    for name in LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        arguments, output, limit_s = json.loads(line)
        print(json.dumps(_forked(arguments, output, limit_s)), flush=True)


def _forked(arguments: list[str], output: str, limit_s: float) -> int | None:
    pid = os.fork()
    if pid == 0:
        _run(arguments, output)
    try:
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(pid, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        _, status = os.waitpid(pid, 0)
        is_over = signal.setitimer(signal.ITIMER_REAL, 0)[0] == 0
    finally:
        with suppress(ProcessLookupError):  # leftovers of the run
            os.killpg(pid, signal.SIGKILL)
    return None if is_over else os.waitstatus_to_exitcode(status)


def _run(arguments: list[str], output: str) -> None:
    """In the child: as a fresh Python would be, with a group of its own."""
    status = 70
    try:
        os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        empty = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((empty, 0), (written, 1), (written, 2)):
            os.dup2(descriptor, target)
        pytest = importlib.import_module("pytest")
        status = int(pytest.main(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
