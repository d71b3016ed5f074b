"""What a shell prints, on its three ways: to the model, to the disk, and live to who looks on.

`unread` is for the model, bounded. `output` is the whole of one command, kept. Live bytes wait for whoever
waits for the command, who by reading slowly slows it down, and are shown to the viewers, who do not.
"""

from __future__ import annotations

from core.events import TerminalOutput
from core.events.output import OutputBuffer
from runtime.protocol import NO_ACTION_ID
from runtime.server.key_names import cursor_mode
from runtime.server.outputs import Output, Outputs
from runtime.server.terminal_viewers import Viewers

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
