"""Terminal: a process on a pseudo-terminal, driven by events; its echoes, and the bytes that its keys send.

Nothing polls: the event loop watches the terminal for output and the process for its end. A slow reader pauses the
terminal, and the kernel then makes the program wait, so no queue grows.

The terminal echoes and turns `\\n` into `\\r\\n`, as programs expect. What the server types for the agent is removed
from the output again (Echoes), because the live view has shown it already. The echo stays on, so that a program that
turns it off for a password can be recognised, and users see what they type.

Keys have V0's names, which are those of tmux. A control character such as `C-c` is always a key. `Up`, `Escape` and the
others are keys only for a program that reads key by key; a program that reads whole lines gets the word.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from core.terminal import COLUMNS, ROWS
from runtime.server import processes

MAX_EXPECTED = 8
"""Echoes awaited at once; the oldest is dropped for a new one."""


class Echoes:
    """Removes expected echoes from a terminal's output, each once and in order. No IO."""

    def __init__(self) -> None:
        self._expected: deque[bytes] = deque(maxlen=MAX_EXPECTED)
        self._held = b""

    def expect(self, typed: bytes) -> None:
        """Expect an echo of these bytes."""
        self._expected.append(echo_of(typed))

    def feed(self, data: bytes) -> bytes:
        """Return the output without echoes. A possible start of one is held back until more arrives."""
        if not self._expected:
            return data
        data, self._held = self._held + data, b""
        for echo in list(self._expected):
            if (at := data.find(echo)) >= 0:
                while self._expected.popleft() != echo:  # skip earlier ones that never came
                    pass
                data = data[:at] + data[at + len(echo) :]
        return self._hold_back(data) if self._expected else data

    def clear(self) -> bytes:
        """Expect nothing any more; return what was held back."""
        self._expected.clear()
        held, self._held = self._held, b""
        return held

    def _hold_back(self, data: bytes) -> bytes:
        longest = min(max(map(len, self._expected)) - 1, len(data))
        for size in range(longest, 0, -1):
            if any(len(echo) > size and data.endswith(echo[:size]) for echo in self._expected):
                self._held = data[-size:]
                return data[:-size]
        return data


def echo_of(typed: bytes) -> bytes:
    """Return how a terminal in its usual modes echoes bytes: control characters as `^C`, a line end as such."""
    shown = bytearray()
    for byte in typed:
        if byte in b"\r\n":
            shown += b"\r\n"
        elif byte == 0x7F or (byte < 0x20 and byte != 0x09):
            shown += b"^" + bytes([byte ^ 0x40])
        else:
            shown.append(byte)
    return bytes(shown)


OOM_SCORE = 500
"""OOM score of commands, so that they are killed before the server when memory runs out."""
READ_BYTES = 64 * 1024
READS_PER_TURN = 16
"""The kernel gives about 4 KiB per read; this many reads make one chunk before the event loop continues."""
CANONICAL_BYTES = 4000
"""In line mode the kernel cuts lines at 4,096 bytes silently; longer input is passed in chunks of this size."""

_LFLAG, _CC = 3, 6
"""Where the list of tcgetattr has the local modes and the control characters."""


class Terminal:
    """One process with its own session and terminal. Belongs to the running event loop.

    `on_output` gets all output; `on_exit` gets the exit status, once, after the last output.
    """

    def __init__(self, on_output: Callable[[bytes], None], on_exit: Callable[[int], None]) -> None:
        self._on_output = on_output
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self._echoes = Echoes()
        self._is_silent = False
        """Whether the echo is off because of a long line."""
        self._is_reading = False
        self._is_writing = False
        self._master = -1

    def start(
        self, argv: list[str], *, cwd: str, env: Mapping[str, str], umask: int, size: tuple[int, int] = (ROWS, COLUMNS)
    ) -> None:
        """Start the process on a terminal of this size. Raises OSError.

        A one-line shell script opens the terminal as leader of the new session, which makes it the controlling
        terminal; doing that between fork and exec in Python would need `preexec_fn`, which is not safe with threads.
        """
        self._master, slave = pty.openpty()
        try:
            _resize(slave, *size)
            self._attributes = termios.tcgetattr(slave)
            self.name = os.ttyname(slave)
            open_terminal = f'{{ echo {OOM_SCORE} >/proc/self/oom_score_adj; }} 2>/dev/null; exec "$@" <>"$0" >&0 2>&1'
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", open_terminal, self.name, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd=cwd,
                env=dict(env),
                umask=umask,
            )
            self._slave = slave
            self.pid = self._process.pid
            """The process ID, which is also its session and first process group."""
        except BaseException:
            os.close(slave)
            os.close(self._master)
            raise
        os.set_blocking(self._master, False)
        self.resume()
        self._exit = self._loop.create_task(self._watch(), name=f"exit of {argv[0]}")

    @property
    def foreground_group(self) -> int:
        """The process group that gets the terminal's keys; the session's own if nothing else runs."""
        try:
            return os.tcgetpgrp(self._master) or self.pid
        except OSError:
            return self.pid

    @property
    def unsent_bytes(self) -> int:
        """The size of the input that the terminal has not taken yet."""
        return len(self._unsent)

    @property
    def takes_lines(self) -> bool:
        """Whether the program reads input line by line, not key by key."""
        return bool(termios.tcgetattr(self._master)[_LFLAG] & termios.ICANON)

    @property
    def echoes(self) -> bool:
        """Whether input is echoed; not if the program asks for a password or draws the screen."""
        return bool(termios.tcgetattr(self._master)[_LFLAG] & termios.ECHO)

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the screen; the program is notified (SIGWINCH)."""
        if self._master >= 0:
            _resize(self._master, rows, columns)

    def reset_modes(self) -> None:
        """Reset the terminal's modes to those of the start, whatever a program left behind."""
        if held := self._echoes.clear():
            self._on_output(held)
        self._is_silent = False
        with suppress(termios.error):
            if termios.tcgetattr(self._master) != self._attributes:
                termios.tcsetattr(self._master, termios.TCSANOW, self._attributes)

    def send_line(self, text: bytes) -> None:
        """Send a line and Enter. In line mode a long line is sent in chunks, each flushed by end-of-file.

        A long line is not echoed: the kernel drops parts of an echo that is not read fast enough, and the rest could
        not be told from output. The echo is on again from the next line on.
        """
        attributes = termios.tcgetattr(self._master)
        if self._is_silent:
            attributes[_LFLAG] |= termios.ECHO
        is_long = bool(attributes[_LFLAG] & termios.ICANON) and len(text) > CANONICAL_BYTES
        was_silent, self._is_silent = self._is_silent, is_long and bool(attributes[_LFLAG] & termios.ECHO)
        if self._is_silent:
            attributes[_LFLAG] &= ~termios.ECHO
        if was_silent or self._is_silent:
            termios.tcsetattr(self._master, termios.TCSANOW, attributes)
        if is_long:
            push = attributes[_CC][termios.VEOF]
            pieces = [text[at : at + CANONICAL_BYTES] for at in range(0, len(text), CANONICAL_BYTES)]
            self.send_unseen(push.join(pieces) + b"\n")
        else:
            self.send_unseen(text + b"\n")

    def send_unseen(self, data: bytes) -> None:
        """Send keys whose echo is removed from the output."""
        if self.echoes:
            self._echoes.expect(data)
        self.send(data)

    def send(self, data: bytes) -> None:
        """Send keys. Never blocks; what the terminal does not take yet waits in order."""
        self._unsent += data
        self._write()

    def discard_input(self) -> None:
        """Discard input that no program has read."""
        self._unsent.clear()
        with suppress(termios.error, OSError):
            termios.tcflush(self._slave, termios.TCIFLUSH)

    def pause(self) -> None:
        """Stop reading, so that the program has to wait, until `resume`."""
        if self._is_reading:
            self._loop.remove_reader(self._master)
            self._is_reading = False

    def resume(self) -> None:
        """Continue reading."""
        if not self._is_reading and self._master >= 0:
            self._loop.add_reader(self._master, self._read)
            self._is_reading = True

    async def aclose(self) -> None:
        """End the process and its session, and close the terminal. May be called twice.

        If the process has already ended, what it left running stays, because its ID may belong to another process now.
        """
        if self._process.returncode is None:
            processes.signal_all([self.pid], signal.SIGSTOP)
            left = processes.descendants(self.pid) | processes.session_members(self.pid)
            processes.kill_all({self.pid} | left)
        await self._exit

    def _read(self) -> None:
        if data := self._echoes.feed(self._read_some()):
            self._on_output(data)

    def _read_some(self) -> bytes:
        """Return the available output, limited in size; empty if there is none or the other side is closed."""
        pieces = []
        for _ in range(READS_PER_TURN):
            try:
                data = os.read(self._master, READ_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self.pause()  # for good: the other side is closed
                break
            pieces.append(data)
        return b"".join(pieces)

    def _write(self) -> None:
        with suppress(BlockingIOError):
            try:
                sent = os.write(self._master, self._unsent)
                del self._unsent[:sent]
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                self._unsent.clear()
        if self._unsent and not self._is_writing:
            self._loop.add_writer(self._master, self._write)
        elif not self._unsent and self._is_writing:
            self._loop.remove_writer(self._master)
        self._is_writing = bool(self._unsent)

    async def _watch(self) -> None:
        """Wait for the process, read the rest of its output, and call `on_exit`.

        The slave side stays open until then: otherwise the master would read an end before the process has opened it.
        """
        status = await processes.wait_for_exit(self._process)
        os.close(self._slave)
        if self._is_writing:
            self._loop.remove_writer(self._master)
        while data := self._read_some():
            self._on_output(self._echoes.feed(data))
        self._on_output(self._echoes.clear())
        self.pause()
        os.close(self._master)
        self._master = -1
        self._on_exit(status)


def _resize(fd: int, rows: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


_ARROWS = {"Up": "A", "Down": "B", "Right": "C", "Left": "D", "Home": "H", "End": "F"}
_OTHERS = {
    "Enter": b"\r",
    "Escape": b"\x1b",
    "Tab": b"\t",
    "BTab": b"\x1b[Z",
    "BSpace": b"\x7f",
    "DC": b"\x1b[3~",
    "IC": b"\x1b[2~",
    "PageUp": b"\x1b[5~",
    "PPage": b"\x1b[5~",
    "PageDown": b"\x1b[6~",
    "NPage": b"\x1b[6~",
    **{f"F{number}": f"\x1bO{final}".encode() for number, final in enumerate("PQRS", 1)},
    **{f"F{number}": f"\x1b[{code}~".encode() for number, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)},
}
_CURSOR_MODE = re.compile(rb"\x1b\[\?1([hl])")


def control_key(command: str) -> bytes | None:
    """Return the control character of a key such as `C-c`, or None."""
    key = command.strip()
    is_key = len(key) == 3 and key.startswith("C-") and "@" <= key[2].upper() <= "_"
    return bytes([ord(key[2].upper()) & 0x1F]) if is_key else None


def named_key(command: str, *, application: bool) -> bytes | None:
    """Return what an xterm sends for a key, or None for an unknown name.

    `application` says that the program has switched the cursor keys to application mode.
    """
    name = command.strip()
    if name in _ARROWS:
        return f"\x1b{'O' if application else '['}{_ARROWS[name]}".encode()
    return _OTHERS.get(name)


def has_application_keys(data: bytes, before: bool) -> bool:
    """Return whether, after this output, the cursor keys are in application mode."""
    if b"\x1b[?1" not in data:
        return before
    for mode in _CURSOR_MODE.finditer(data):
        before = mode[1] == b"h"
    return before
