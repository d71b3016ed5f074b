"""ServedTerminal: the workspace as a child process on a pseudo-terminal, for whoever is attached to it.

The workspace notices nothing: it has a terminal as everywhere, so what is tested there holds here. Whoever attaches
gets what it prints from then on, and a screen drawn anew; while nobody is attached, what it prints is dropped, and it
goes on. One viewer at a time: a later one takes over from the earlier.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from tui.terminal_io.escapes import FOCUS_ON

Send = Callable[[bytes], Awaitable[None]]
"""Takes what the terminal prints; may raise ConnectionError when nobody listens any more."""

CHUNK_BYTES = 64 * 1024
MAX_CELLS = 1000
"""Of either side: what is larger is taken for this."""
END_S = 10.0
"""How long the workspace may take to close its conversations; then it is killed, and its log has all that it said."""
_BEGUN = FOCUS_ON.encode()
"""What the workspace has written once its screen stands; whoever attaches before misses nothing of it."""
_FOREIGN = ("TMUX", "TMUX_PANE", "STY", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "VTE_VERSION", "KITTY_WINDOW_ID",
            "WT_SESSION", "LC_TERMINAL", "COLUMNS", "LINES", "SSH_TTY", "SSH_CONNECTION", "SSH_CLIENT")  # fmt: skip
"""What tells of the terminal that the server was started in, which is not the one that the workspace has."""


def terminal_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program whose terminal is a web page."""
    return {name: value for name, value in environ.items() if name not in _FOREIGN} | {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


class ServedTerminal:
    """One child process and its terminal. `start` it once; `aclose` it."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._command = list(command)
        self._environ = terminal_environment(environ)
        self._process: asyncio.subprocess.Process | None = None
        self._master = -1
        self._viewer: Send | None = None
        self._readable = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._typed = bytearray()
        self._is_drawn = False
        """Whether the workspace has begun its terminal; before, a signal would end it."""
        self.ended = asyncio.Event()
        """Set when the child has ended."""

    @property
    def pid(self) -> int | None:
        """Of the child, while there is one."""
        return self._process.pid if self._process else None

    async def start(self, columns: int, lines: int) -> None:
        """Start the child on a terminal of this size, in cells. Raises OSError."""
        self._master, slave = pty.openpty()
        try:
            self._set_size(columns, lines)
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=self._environ,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        finally:
            os.close(slave)
        os.set_blocking(self._master, False)
        asyncio.get_running_loop().add_reader(self._master, self._readable.set)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Hand on what is printed until the child has ended. A viewer that is slow slows the child."""
        assert self._process is not None
        while data := await self._next():
            self._is_drawn = self._is_drawn or _BEGUN in data
            viewer = self._viewer
            if viewer is None:
                continue
            try:
                await viewer(data)
            except (ConnectionError, RuntimeError):
                self.detach(viewer)
        asyncio.get_running_loop().remove_reader(self._master)
        await self._process.wait()
        self.ended.set()

    async def _next(self) -> bytes:
        """The next bytes that the child prints; empty at its end."""
        while True:
            self._readable.clear()
            try:
                return os.read(self._master, CHUNK_BYTES)
            except BlockingIOError:
                await self._readable.wait()
            except OSError:  # EIO: nobody has the other side open any more
                return b""

    # -- whoever looks at it -----------------------------------------------------------------------------------------

    def attach(self, viewer: Send, columns: int, lines: int) -> None:
        """From now on `viewer` gets what is printed, beginning with the whole screen; another one gets nothing more."""
        self._viewer = viewer
        self._set_size(columns, lines)
        if self._is_drawn and self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGUSR1)  # `HandloomApp` begins its terminal anew

    def detach(self, viewer: Send) -> None:
        """Send nothing more to this viewer; no harm where another has taken over."""
        if self._viewer == viewer:
            self._viewer = None

    def is_attached(self, viewer: Send) -> bool:
        """Whether what is printed goes to this viewer."""
        return self._viewer == viewer

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal this size, in cells."""
        self._set_size(columns, lines)

    def _set_size(self, columns: int, lines: int) -> None:
        columns, lines = (min(max(1, number), MAX_CELLS) for number in (columns, lines))
        with suppress(OSError):  # the child may have ended
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, data: bytes) -> None:
        """Have the child read this as typed. What it does not read yet waits, as much as there is."""
        if self._master < 0 or self.ended.is_set():
            return
        self._typed += data
        self._write()

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            del self._typed[: os.write(self._master, self._typed)]
        except BlockingIOError:
            pass
        except OSError:  # the child has ended
            self._typed.clear()
        if self._typed:
            loop.add_writer(self._master, self._write)
        else:
            loop.remove_writer(self._master)

    async def aclose(self) -> None:
        """End the child, gently for END_S, and wait until it is gone."""
        if self._process is None:
            return
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(END_S):
                    await self.ended.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self._process.kill()
        if self._reading is not None:
            await self._reading
        loop = asyncio.get_running_loop()
        loop.remove_writer(self._master)
        os.close(self._master)
        self._process = None
