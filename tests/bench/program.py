"""A program on a pseudo-terminal of 160x48, seen as its user sees it: by the bytes that it draws."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import Self

from tests.bench import hello
from tests.bench.places import milliseconds_since

SIZE = struct.pack("HHHH", 48, 160, 0, 0)
TIMEOUT_S = 90.0
ASKS_SYNC, ANSWERS_SYNC = b"\x1b[?2026$p", b"\x1b[?2026;2$y"
"""Textual asks whether frames can be drawn whole; a modern terminal can."""

HELLO = ("-m", "tests.bench.hello")
HELLO_DRAWN = hello.MARKER.encode()
WORKSPACE = ("-m", "tui")
WORKSPACE_DRAWN = b"or type / for commands"
"""Part of the prompt's placeholder, whose first letter may be under the cursor."""


class Program:
    """A Python program by its arguments. Use as a context manager; leaving it kills the program."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self._arguments = arguments
        terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        hidden = {"HANDLOOM__LIBRARY__OTHER_AGENTS": "hide"}  # whatever is in the home of whoever measures
        self._environ = {**os.environ, **terminal, **hidden, **environ}
        self._seen = b""
        self.started_at = 0.0

    def __enter__(self) -> Self:
        self.started_at = perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, SIZE)
            os.execve(sys.executable, [sys.executable, *self._arguments], self._environ)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    def drawn(self, marker: bytes) -> float:
        """Wait until the marker is drawn. The answer is the time since the start, in milliseconds."""
        while marker not in self._seen:
            if not self.read(TIMEOUT_S):
                raise TimeoutError(f"{marker!r} was not drawn; the last was {self._seen[-500:]!r}")
        return milliseconds_since(self.started_at)

    def quiet(self, seconds: float) -> None:
        """Wait until nothing has been drawn for so long."""
        while self.read(seconds):
            pass

    def watch(self, seconds: float) -> None:
        """Read output for `seconds`."""
        ends_at = perf_counter() + seconds
        while (left := ends_at - perf_counter()) > 0:
            self.read(left)

    def write(self, text: str) -> None:
        """Type."""
        self._seen = b""
        os.write(self._fd, text.encode())

    def read(self, timeout_s: float) -> bytes:
        """Read the next output; empty after the timeout. Queries are answered like in a terminal."""
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return b""
        data = os.read(self._fd, 1 << 17)
        if ASKS_SYNC in data:
            os.write(self._fd, ANSWERS_SYNC)
        self._seen = (self._seen + data)[-100_000:]
        return data

    def press(self, key: str) -> float:
        """Type a character that is nowhere on the screen. The answer is how long it took until it was, in ms."""
        started_at = perf_counter()
        self.write(key)
        while key.encode() not in self._seen:
            if not self.read(TIMEOUT_S) or perf_counter() - started_at > TIMEOUT_S:
                raise TimeoutError(f"{key!r} was not drawn")
        return milliseconds_since(started_at)

    @property
    def memory_mb(self) -> float:
        """Resident memory."""
        done = subprocess.run(["ps", "-o", "rss=", "-p", str(self.pid)], capture_output=True, text=True, check=True)
        return int(done.stdout) / 1024
