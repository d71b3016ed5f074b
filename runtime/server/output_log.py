"""The output of a shell: for the model, for storage, and live for viewers.

`unread` is what the model has not read yet, limited in size. `output` is the complete output of one command. Live bytes
wait for the caller of the command, which slows the command down by reading slowly, and are shown to viewers, who do
not. A viewer starts with the last screenful; a slow one skips output and is told how much. Memory is limited by
BACKLOG_BYTES for each viewer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from core.events import Frame, Status, TerminalOutput
from core.events.output import OutputBuffer
from runtime.protocol import NO_ACTION_ID
from runtime.server.outputs import Output, Outputs
from runtime.server.terminal import cursor_mode

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
    def is_waiting_for_its_reader(self) -> bool:
        """Whether so many live bytes wait that the command should pause."""
        return len(self._live) > LIVE_BYTES

    async def begin(self) -> None:
        """Prepare for a new command: make room for its output."""
        self.wants_application_keys = False
        await self._outputs.make_room()

    def feed(self, data: bytes) -> None:
        """Take output. Never waits."""
        self.total_bytes += len(data)
        self.wants_application_keys = cursor_mode(data, self.wants_application_keys)
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

    def forget_old(self) -> None:
        """Keep only the newest live bytes, because nobody waits for them."""
        del self._live[:-LIVE_BYTES]

    def end(self) -> None:
        """Finish the output of the command; later bytes belong to the next one."""
        self.action_id = None
        if self.output is not None:
            self.output.finish()
            self.output = None

    def drop(self) -> None:
        """Drop the output that nobody wants to read."""
        self._live.clear()
        self.unread.take()

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
        """The number of viewers."""
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
