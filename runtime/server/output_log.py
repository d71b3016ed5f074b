"""What a shell prints, on its three ways: to the model, to the disk, and live to who looks on.

`unread` is for the model, bounded. `output` is the whole of one command, kept. Live bytes wait for whoever
waits for the command, who by reading slowly slows it down, and are shown to the viewers, who do not.
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
"""Live bytes that wait for a slow reader before the command is made to wait."""


class Printed:
    """What one shell prints. Belongs to one loop."""

    def __init__(self, outputs: Outputs, viewers: Viewers) -> None:
        self._outputs = outputs
        self._viewers = viewers
        self._live = bytearray()
        self.action_id: int | None = None
        """Whose command prints; None for nobody's."""
        self.unread = OutputBuffer()
        """What the model is yet to read."""
        self.output: Output | None = None
        """What the command printed so far; None where that is nothing."""
        self.total_bytes = 0
        """Of all commands."""
        self.last_at = 0.0
        """By the clock `time.monotonic`."""
        self.wants_application_keys = False
        """Whether the program has asked for the other form of the cursor's keys."""

    @property
    def is_waiting_for_its_reader(self) -> bool:
        """Whether so much waits that no more should come."""
        return len(self._live) > LIVE_BYTES

    async def begin(self) -> None:
        """A command comes, before which room for all of its output is made."""
        self.wants_application_keys = False
        await self._outputs.make_room()

    def feed(self, data: bytes) -> None:
        """Something was printed. Never waits."""
        self.total_bytes += len(data)
        self.wants_application_keys = cursor_mode(data, self.wants_application_keys)
        self.unread.feed(data)
        if self.output is None:
            self.output = self._outputs.begin()
        self.output.feed(data)
        self._live += data
        self._viewers.show(TerminalOutput(self._cause, data))

    def take_live(self) -> TerminalOutput | None:
        """The live bytes that have gathered, for who waits; None where there are none."""
        if not self._live:
            return None
        data = bytes(self._live)
        self._live.clear()
        return TerminalOutput(self._cause, data)

    def forget_old(self) -> None:
        """Keep the newest of the live bytes: nobody waits for them."""
        del self._live[:-LIVE_BYTES]

    def end(self) -> None:
        """The command has ended: what comes now belongs to the next output."""
        self.action_id = None
        if self.output is not None:
            self.output.finish()
            self.output = None

    def drop(self) -> None:
        """Nobody wants to read what the command printed."""
        self._live.clear()
        self.unread.take()

    @property
    def _cause(self) -> int:
        return NO_ACTION_ID if self.action_id is None else self.action_id


SCREENFUL_BYTES = 16 * 1024
"""Several times a screen of 30 rows and 120 columns, for the colours in it."""
BACKLOG_BYTES = 1024 * 1024
"""Waits for one viewer; then everything that waits is skipped but the last screenful."""
SKIPPED = "STATUS$OUTPUT_SKIPPED"


class Viewers:
    """Hands every frame to every viewer. Belongs to one loop."""

    def __init__(self) -> None:
        self._last: deque[TerminalOutput] = deque()
        self._last_bytes = 0
        self._viewers: set[_Viewer] = set()
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many look on."""
        return len(self._viewers)

    def show(self, frame: TerminalOutput) -> None:
        """Hand a frame on. Never waits."""
        self._last.append(frame)
        self._last_bytes += len(frame.data)
        while self._last_bytes - len(self._last[0].data) >= SCREENFUL_BYTES:
            self._last_bytes -= len(self._last.popleft().data)
        for viewer in self._viewers:
            viewer.take(frame, self._last)

    async def watch(self) -> AsyncGenerator[Frame, None]:
        """The last screenful, and then what is shown as it is shown, until `close`."""
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
        """Nothing more will be shown: who looks on comes to an end."""
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
        """Begin with the last screenful, from a line's beginning on where its first frame has one."""
        self._bytes = 0
        for frame in last:
            data = frame.data
            if not self.waiting and len(data) > SCREENFUL_BYTES:
                data = data[-SCREENFUL_BYTES:]
                data = data[data.find(b"\n") + 1 :]
            self.waiting.append(TerminalOutput(frame.cause, data, frame.is_echo))
            self._bytes += len(data)
