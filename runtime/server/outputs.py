"""The complete output of commands: one Output for each, in a private folder of the server.

The model reads both ends of a long output and the user sees it live; any part can be read here, by bytes or lines, even
while the command prints. A short output stays in memory; a longer one is written to a file whose name the agent is
told. The bytes are those that the command wrote: the carriage return that the terminal adds to each line end is
removed.

The folder is removed with its server. A lock on the folder shows that its server runs; folders of killed servers are
removed by the next one.

Invariants: at most MAX_OUTPUT_BYTES of a command and MAX_TOTAL_BYTES of all are kept, and an observation says what is
missing; the oldest outputs are dropped whole, before a command starts; a full disk ends the storing, never the command.
"""

from __future__ import annotations

import asyncio
import fcntl
import glob
import os
import shutil
import stat
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress

MAX_OUTPUT_BYTES = 1024**3
MAX_TOTAL_BYTES = 4 * 1024**3
MAX_OUTPUTS = 500
HELD_BYTES = 16 * 1024
"""A shorter output is in the observation as a whole and needs no file, which would cost more than running `true`."""
MARK_BYTES = 256 * 1024
"""Distance between remembered line numbers; a line in 1 GiB is then found in a millisecond."""
READ_BYTES = 1024 * 1024
"""Limit for one read."""
FOLDERS = ("/var/tmp",)  # noqa: S108  # mkdtemp makes a private folder in it
"""Tried before the system's folder for temporary files, which may be in memory."""
PREFIX = "handloom-output-"
ABANDONED_S = 60.0
"""A younger folder may belong to a server that has not locked it yet."""


class OutputError(LookupError):
    """There is no such output, or it cannot be read any more; the text says why."""


class Output:
    """The output of one command. Written by the shell; can be read at any time."""

    def __init__(self, number: int, path: str, max_bytes: int) -> None:
        self.number = number
        self.path = path
        """The file, once the output is longer than HELD_BYTES."""
        self.size_bytes = 0
        self.lines = 0
        """The number of line ends."""
        self.loss = ""
        """Why the end is missing; empty if the output is complete."""
        self._max_bytes = max_bytes
        self._held = bytearray()
        self.is_finished = False
        self._fd = -1
        self._is_written = False
        self._return_is_held = False
        self._marks = [(0, 0)]

    @property
    def is_written(self) -> bool:
        """Whether the output is in its file."""
        return self._is_written

    def feed(self, data: bytes) -> None:
        """Append terminal output. Never raises."""
        if self._return_is_held:
            data = b"\r" + data
        self._return_is_held = data.endswith(b"\r")
        if self._return_is_held:
            data = data[:-1]
        self._keep(data.replace(b"\r\n", b"\n"))

    def finish(self) -> None:
        """Mark the output as complete."""
        if self._return_is_held:
            self._return_is_held = False
            self._keep(b"\r")
        self.is_finished = True
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, offset: int, limit: int) -> bytes:
        """Read at most `limit` bytes, and at most READ_BYTES, from `offset`. Blocks on the disk. Raises OutputError."""
        limit = min(limit, READ_BYTES)
        if not self._is_written:
            return bytes(self._held[offset : offset + limit])
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise OutputError(f"output:{self.number} cannot be read: {error.strerror}. Run it again.") from error
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OutputError(f"output:{self.number} cannot be read: it was replaced. Run it again.")
            return os.pread(fd, limit, offset)
        finally:
            os.close(fd)

    def read_lines(self, line: int, lines: int) -> bytes:
        """Read at most `lines` lines from number `line`, counted from 1. Blocks on the disk. Raises OutputError."""
        first, offset = self._marks[bisect_right(self._marks, (line - 1, self.size_bytes)) - 1]
        found: list[bytes] = []
        room = READ_BYTES
        for piece in self._lines_from(offset):
            first += 1
            if first >= line:
                found.append(piece[:room])
                room -= len(piece)
            if first >= line + lines - 1 or room <= 0:
                break
        return b"".join(found)

    def drop(self) -> None:
        """Remove the file. Blocks on the disk."""
        with suppress(OSError):
            os.unlink(self.path)

    def _lines_from(self, offset: int) -> Iterator[bytes]:
        """Yield the lines from a line's start on; an unfinished one comes last."""
        rest = b""
        while data := self.read(offset, MARK_BYTES):
            offset += len(data)
            *whole, rest = (rest + data).split(b"\n")
            yield from (line + b"\n" for line in whole)
            if len(rest) > READ_BYTES:
                break
        if rest:
            yield rest

    def _keep(self, data: bytes) -> None:
        if self.loss:
            return
        if self.size_bytes + len(data) > self._max_bytes:
            data = data[: self._max_bytes - self.size_bytes]
            self.loss = f"more than {self._max_bytes} bytes of a command are not kept"
        if not self._is_written and len(self._held) + len(data) <= HELD_BYTES:
            self._held += data
        else:
            data = self._write(data)
        self.size_bytes += len(data)
        if self.size_bytes - self._marks[-1][1] >= MARK_BYTES and (end := data.rfind(b"\n")) >= 0:
            self._marks.append((self.lines + data.count(b"\n"), self.size_bytes - len(data) + end + 1))
            self.lines = self._marks[-1][0]
        else:
            self.lines += data.count(b"\n")

    def _write(self, data: bytes) -> bytes:
        """Append to the file and return what was written."""
        try:
            if not self._is_written:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fd = os.open(self.path, flags, 0o600)
                self._append(bytes(self._held))
                self._is_written = True
                self._held.clear()
            self._append(data)
        except OSError as error:
            self.loss = f"it could not be kept: {error.strerror}"
            return b""
        return data

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]


class Outputs:
    """The outputs of a session's commands, numbered from 1, and their folder.

    The folder is made in one of `folders` for the first output.
    """

    def __init__(
        self,
        *,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        max_total_bytes: int = MAX_TOTAL_BYTES,
        max_outputs: int = MAX_OUTPUTS,
        folders: Sequence[str] | None = None,
    ) -> None:
        self._max_output_bytes = max_output_bytes
        self._max_total_bytes = max_total_bytes
        self._max_outputs = max_outputs
        self._folders = (*(FOLDERS if folders is None else folders), tempfile.gettempdir())
        self._folder = ""
        self._lock = -1
        self._last = 0
        self._kept: dict[int, Output] = {}

    def begin(self) -> Output:
        """Start the next output."""
        if not os.path.isdir(self._folder):  # not made yet, or removed by a command
            self._let_go()
            self._folder, self._lock = _private_folder(self._folders)
        self._last += 1
        path = os.path.join(self._folder, f"{self._last}.txt")
        output = self._kept[self._last] = Output(self._last, path, self._max_output_bytes)
        if not self._folder:
            output.loss = "there is no folder for temporary files"
        return output

    def find(self, number: int) -> Output:
        """Return an output by its number. Raises OutputError."""
        output = self._kept.get(number)
        if output is not None:
            return output
        if 1 <= number <= self._last:
            raise OutputError(f"output:{number} is not kept any more: the oldest make room for new ones. Run it again.")
        raise OutputError(f"There is no output:{number}. The last one is output:{self._last}.")

    async def make_room(self) -> None:
        """Drop the oldest outputs, so that a command can use its full limit."""
        allowed_bytes = self._max_total_bytes - self._max_output_bytes
        total_bytes, count = sum(output.size_bytes for output in self._kept.values()), len(self._kept)
        for output in [output for output in self._kept.values() if output.is_finished]:
            if total_bytes <= allowed_bytes and count < self._max_outputs:
                break
            del self._kept[output.number]
            total_bytes, count = total_bytes - output.size_bytes, count - 1
            if output.is_written:
                await asyncio.to_thread(output.drop)

    async def remove_abandoned(self) -> None:
        """Remove the folders of servers that were killed."""
        await asyncio.to_thread(_remove_abandoned, self._folders)

    async def aclose(self) -> None:
        """Remove everything. May be called twice."""
        for output in self._kept.values():
            output.finish()
        self._kept.clear()
        if self._folder:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        self._let_go()

    def _let_go(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _private_folder(parents: Sequence[str]) -> tuple[str, int]:
    """Make a folder for its owner only and lock it; return an empty name if that is impossible."""
    for parent in parents:
        with suppress(OSError):
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
            return folder, _locked(folder)
    return "", -1


def _locked(folder: str) -> int:
    """Open and lock a folder. Raises OSError, or BlockingIOError if its server runs."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _remove_abandoned(parents: Sequence[str]) -> None:
    for parent in parents:
        for folder in glob.glob(os.path.join(parent, PREFIX + "*")):
            with suppress(OSError):
                about = os.lstat(folder)
                if about.st_uid == os.getuid() and time.time() - about.st_mtime > ABANDONED_S:
                    lock = _locked(folder)
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(lock)
