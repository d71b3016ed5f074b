"""A pseudo-terminal whose bytes the test reads and writes itself."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pyte

from tests.program import HANDLOOM, Handloom

WAIT_S = 60.0


class OurTerminal:
    """A program on a PTY of its own. Close it."""

    command: tuple[str, ...] = HANDLOOM
    """The program, before its arguments."""
    told_cell = (0, 0)
    """Cell size in pixels, reported to the system; zeros if unknown."""

    def __init__(self, program: Handloom, *arguments: str, **environ: str) -> None:
        self.fd, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        columns, rows = 120, 36
        self.resize(columns, rows)
        self.raw = b""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._program, self._environ = program, environ
        self.process = self.start(*arguments)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the program here, once more where the one before has ended."""
        self.process = subprocess.Popen(
            [*self.command, *arguments],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**self._program.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **self._environ},
            cwd=self._program.workspace,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 -- the child has one thread yet
        )
        return self.process

    def resize(self, columns: int, rows: int) -> None:
        """Have another size, and tell the program."""
        across, down = self.told_cell
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, columns * across, rows * down))
        if hasattr(self, "_screen"):
            self._screen.resize(rows, columns)

    def write(self, data: str | bytes) -> None:
        """Type text, or send bytes like a terminal."""
        os.write(self.fd, data.encode() if isinstance(data, str) else data)

    def read(self, within_s: float) -> bytes:
        """The next output of the program; empty after the timeout or at its end."""
        if not select.select([self.fd], [], [], within_s)[0]:
            return b""
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # how Linux tells that the other side is gone
            return b""
        self.raw += data
        self.take(data)
        return data

    def take(self, data: bytes) -> None:
        """Draw the program's output."""
        with contextlib.suppress(TypeError, ValueError, IndexError):  # pyte knows fewer sequences than terminals do
            self._stream.feed(data)

    @property
    def screen(self) -> str:
        """The visible screen."""
        return "\n".join(self._screen.display)

    def wait_for(self, *texts: str, raw: bool = False) -> None:
        """Wait until all texts are on the screen, or in the output since the start."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            shown = self.raw.decode("utf-8", "replace") if raw else self.screen
            if all(text in shown for text in texts):
                return
            self.read(0.5)
        raise AssertionError(f"not there: {texts}\n{self.screen}\n{self.raw[-2000:]!r}")

    def end(self) -> int:
        """Wait for the program's end; its exit status."""
        end = time.monotonic() + WAIT_S
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        while self.read(0.1):
            pass
        return self.process.wait(timeout=1)

    @property
    def is_whole(self) -> bool:
        """Whether the terminal is as it was: its settings, the normal screen, a cursor, the keyboard protocol, no
        mouse, no focus reports."""
        last = {mode: self.raw.rfind(f"\x1b[?{mode}h".encode()) for mode in (1049, 1000, 1003, 1006, 1004, 2004)}
        off = {mode: self.raw.rfind(f"\x1b[?{mode}l".encode()) for mode in last}
        cursor = self.raw.rfind(b"\x1b[?25h") > self.raw.rfind(b"\x1b[?25l")
        keyboard = self.raw.count(b"\x1b[<u") >= len(re.findall(rb"\x1b\[>\d+u", self.raw))
        settings = termios.tcgetattr(self._theirs)
        return cursor and keyboard and settings == self.before and all(off[mode] > last[mode] for mode in last)

    def close(self) -> None:
        """End the program, if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.fd)
        os.close(self._theirs)
