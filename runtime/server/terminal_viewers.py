"""Who looks on at the agent's terminal: any number, from its last screenful on, and nobody waits for them.

A viewer that reads slowly skips what came meanwhile and is told how much; the command and the other viewers
never notice. Memory is bounded by BACKLOG_BYTES a viewer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from core.events import Frame, Status, TerminalOutput

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
