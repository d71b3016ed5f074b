"""The output of commands: stored completely in a private folder of the server, and passed on live.

The model reads both ends of a long output and the user sees it live; any part can be read here, by bytes or lines, even
while the command prints. A short output stays in memory; a longer one is written to a file whose name the agent gets.
The bytes are those that the command wrote: the carriage return that the terminal adds to each line end is removed.

The folder is removed with its server. A lock on the folder shows that its server runs; folders of killed servers are
removed by the next one.

Invariants: at most MAX_OUTPUT_BYTES of a command and MAX_TOTAL_BYTES of all are kept, and an observation says what is
missing; the oldest outputs are dropped whole, before a command starts; a full disk ends the storing, never the command.

An OutputLog has the output of one shell. Its live bytes wait for the caller of the command, which slows the command
down by reading slowly, and are shown to TerminalViewers, who do not. A viewer starts with the last screenful; a slow
one skips output and gets a status with the number of bytes. Memory is limited by BACKLOG_BYTES for each viewer.
"""

from __future__ import annotations

import asyncio
import fcntl
import glob
import os
import shlex
import shutil
import stat
import tempfile
import time
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress

from core.events import Frame, Status, TerminalOutput
from core.events.output import OutputBuffer
from runtime.protocol import NO_ACTION_ID
from runtime.server.terminal import has_application_keys

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
        self.is_finished = False
        self.is_written = False
        """Whether the output is in its file."""
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._fd = -1
        self._holds_return = False
        self._marks = [(0, 0)]

    def storage_note(self) -> str:
        """Return the note for the model after an output that was cut: where all of it is, or why it is lost."""
        if not self.is_written:
            return f"\n[What is not shown of the output is lost: {self.loss}.]"
        what = "All that was kept of the output" if self.loss else "The whole output"
        loss = f"; {self.loss}" if self.loss else ""
        return (
            f"\n[{what} is output:{self.number} ({self.lines} lines, {self.size_bytes} bytes{loss}). "
            f"Read it a part at a time, such as with: sed -n '1,200p' {shlex.quote(self.path)}]"
        )

    def feed(self, data: bytes) -> None:
        """Append terminal output. Never raises."""
        if self._holds_return:
            data = b"\r" + data
        self._holds_return = data.endswith(b"\r")
        if self._holds_return:
            data = data[:-1]
        self._keep(data.replace(b"\r\n", b"\n"))

    def finish(self) -> None:
        """Mark the output as complete."""
        if self._holds_return:
            self._holds_return = False
            self._keep(b"\r")
        self.is_finished = True
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, offset: int, limit: int) -> bytes:
        """Read at most `limit` bytes, and at most READ_BYTES, from `offset`. Blocks on the disk. Raises OutputError."""
        limit = min(limit, READ_BYTES)
        if not self.is_written:
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
        if not self.is_written and len(self._held) + len(data) <= HELD_BYTES:
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
            if not self.is_written:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fd = os.open(self.path, flags, 0o600)
                self._append(bytes(self._held))
                self.is_written = True
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
            self._unlock()
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
        self._unlock()

    def _unlock(self) -> None:
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


LIVE_BYTES = 256 * 1024
"""Live bytes that may wait for a slow reader before the command has to wait."""


class OutputLog:
    """The output of one shell. It belongs to one event loop."""

    def __init__(self, outputs: Outputs, viewers: TerminalViewers) -> None:
        self._outputs = outputs
        self._viewers = viewers
        self._live = bytearray()
        self.action_id: int | None = None
        """The action whose command prints, or None."""
        self.unread = OutputBuffer()
        """What the model has not read yet."""
        self.output: Output | None = None
        """The output of the current command, or None if there is none yet."""
        self.total_bytes = 0
        """Of all commands."""
        self.last_at = 0.0
        """Time of the last output, by `time.monotonic`."""
        self.wants_application_keys = False
        """Whether the program has switched the cursor keys to application mode."""

    @property
    def is_backed_up(self) -> bool:
        """Whether so many live bytes wait that the command should pause."""
        return len(self._live) > LIVE_BYTES

    async def begin(self) -> None:
        """Prepare for a new command: make room for its output."""
        self.wants_application_keys = False
        self.unread.forget_screen()
        await self._outputs.make_room()

    def feed(self, data: bytes) -> None:
        """Take output. Never waits."""
        self.total_bytes += len(data)
        self.wants_application_keys = has_application_keys(data, self.wants_application_keys)
        self.unread.feed(data)
        if self.output is None:
            self.output = self._outputs.begin()
        self.output.feed(data)
        self._live += data
        self._viewers.show(TerminalOutput(self._cause, data))

    def take_live(self) -> TerminalOutput | None:
        """Return the collected live bytes, or None."""
        if not self._live:
            return None
        data = bytes(self._live)
        self._live.clear()
        return TerminalOutput(self._cause, data)

    def drop_old(self) -> None:
        """Keep only the newest live bytes, because nobody waits for them."""
        del self._live[:-LIVE_BYTES]

    def end(self) -> None:
        """Finish the output of the command; later bytes belong to the next one."""
        self.action_id = None
        if self.output is not None:
            self.output.finish()
            self.output = None

    def drop_unread(self) -> None:
        """Drop the output that nobody wants to read."""
        self._live.clear()
        self.unread.clear()

    @property
    def _cause(self) -> int:
        return NO_ACTION_ID if self.action_id is None else self.action_id


SCREENFUL_BYTES = 16 * 1024
"""Several times a screen of 30 rows and 120 columns, to have room for colours."""
BACKLOG_BYTES = 1024 * 1024
"""Limit for what waits for one viewer; beyond it, everything but the last screenful is skipped."""
SKIPPED = "STATUS$OUTPUT_SKIPPED"


class TerminalViewers:
    """Passes every frame to every viewer. It belongs to one event loop."""

    def __init__(self) -> None:
        self._last: deque[TerminalOutput] = deque()
        self._last_bytes = 0
        self._viewers: set[_Viewer] = set()
        self._is_closed = False

    @property
    def count(self) -> int:
        return len(self._viewers)

    def show(self, frame: TerminalOutput) -> None:
        """Pass on a frame. Never waits."""
        self._last.append(frame)
        self._last_bytes += len(frame.data)
        while self._last_bytes - len(self._last[0].data) >= SCREENFUL_BYTES:
            self._last_bytes -= len(self._last.popleft().data)
        for viewer in self._viewers:
            viewer.take(frame, self._last)

    async def watch(self) -> AsyncGenerator[Frame, None]:
        """Yield the last screenful, then new frames until `close`."""
        viewer = _Viewer(self._last)
        self._viewers.add(viewer)
        try:
            while not self._is_closed or viewer.waiting:
                viewer.changed.clear()
                while viewer.waiting:
                    yield viewer.next()
                if not self._is_closed:
                    await viewer.changed.wait()
        finally:
            self._viewers.discard(viewer)

    def close(self) -> None:
        """End all viewers."""
        self._is_closed = True
        for viewer in self._viewers:
            viewer.changed.set()


class _Viewer:
    def __init__(self, last: deque[TerminalOutput]) -> None:
        self.changed = asyncio.Event()
        self.waiting: deque[Frame] = deque()
        self._bytes = 0
        self._restart(last)

    def take(self, frame: TerminalOutput, last: deque[TerminalOutput]) -> None:
        self._bytes += len(frame.data)
        self.waiting.append(frame)
        if self._bytes > BACKLOG_BYTES:
            skipped = self._bytes
            self.waiting.clear()
            self._restart(last)
            skipped -= self._bytes
            self.waiting.appendleft(Status("info", SKIPPED, f"{skipped} bytes were skipped."))
        self.changed.set()

    def next(self) -> Frame:
        frame = self.waiting.popleft()
        if isinstance(frame, TerminalOutput):
            self._bytes -= len(frame.data)
        return frame

    def _restart(self, last: deque[TerminalOutput]) -> None:
        """Start with the last screenful, from the start of a line if its first frame has one."""
        self._bytes = 0
        for frame in last:
            data = frame.data
            if not self.waiting and len(data) > SCREENFUL_BYTES:
                data = data[-SCREENFUL_BYTES:]
                data = data[data.find(b"\n") + 1 :]
            self.waiting.append(TerminalOutput(frame.cause, data, frame.is_echo))
            self._bytes += len(data)
