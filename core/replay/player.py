"""Player: a saved conversation at its own pace. It reads a log and tells what comes next; it can do nothing else.

By construction: a Player is made of an EventReader and a conversation's id, so it has no runtime, no model, no network
and no store that writes in its hands, and this room imports none of them (a contract of the layers holds that).

The time line is that of the log (`core.replay.timeline`). Time is counted in seconds that were waited through, so that
a pause, another speed and "skip waiting" need no sums of their own. One wait to the next item, no looking again and
again.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from core.events import Envelope
from core.replay.timeline import PAGE, Item, ReplayState, Timeline

if TYPE_CHECKING:
    from core.store.blobs import Blob, BlobRef
    from core.store.reader import EventFilter, EventReader, RecordingRow

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
TICK_S = 1 / 30
"""The shortest wait: what falls into one frame of the screen is told together."""
LONG_WAIT_S, SKIPPED_WAIT_S = 2.0, 0.3
"""With "skip waiting", a longer wait than the first takes as long as the second."""
AT_ONCE = 200
"""Items that are told together at most, so that keys are heard between them."""


class Position(NamedTuple):
    """Where a replay is."""

    event: int
    """The id of the last event that was told; -1 before the first."""
    events: int
    """How many there are."""
    turn: int
    """The user's message that is being answered, from 1 on; 0 before the first."""
    turns: int
    at: float
    """The time of that event as it is stored, in seconds since the epoch."""
    offset_s: float
    """The time since the first event, without what wrong clocks add."""
    length_s: float

    @property
    def is_end(self) -> bool:
        """Whether everything was told."""
        return self.event >= self.events - 1


class Player:
    """One conversation, played. `open` it once; then `play`, `next_event` and `seek` tell what comes, one at a time.

    `clock` and `sleep` are those of the event loop unless a test brings its own.
    """

    def __init__(
        self,
        reader: EventReader,
        conversation_id: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.timeline = Timeline(reader, conversation_id)
        self.skips_waiting = False
        self.speed = 1.0
        """Times as fast as it was, one of SPEEDS."""
        self._clock, self._sleep = clock, sleep
        self._at = -1
        self._waited_s = 0.0
        """Of the wait for the next item, how much is over."""
        self._told_s = 0.0
        """The offset of the last item that was told."""
        self._ahead: deque[tuple[float, Item]] = deque()
        self._spot: RecordingRow | None = None
        """Where what was printed goes on, behind what is ahead."""

    async def open(self) -> None:
        """Read the time line. Raises StoreError."""
        await self.timeline.open()

    # -- the log as far as it was told ---------------------------------------------------------------------------------

    @property
    def latest_id(self) -> int:
        """The id of the last event that was told."""
        return self._at

    async def page(
        self, *, before: int | None = None, limit: int = PAGE, where: EventFilter | None = None
    ) -> list[Envelope]:
        """The last `limit` events before `before`, none of them after the position."""
        end = self._at + 1 if before is None else min(before, self._at + 1)
        return await self.timeline.reader.read(
            self.timeline.conversation_id, before=end, limit=limit, newest=True, where=where
        )

    async def blob(self, ref: BlobRef) -> Blob | None:
        """A picture of the conversation; None where it is not there."""
        return await self.timeline.reader.blob(self.timeline.conversation_id, ref)

    # -- where it is ---------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many events there are."""
        return len(self.timeline.times)

    @property
    def position(self) -> Position:
        """Where it is now."""
        first = max(0, self._at)
        known = bool(self.timeline.times)
        return Position(
            event=self._at,
            events=self.count,
            turn=bisect_right(self.timeline.turns, self._at),
            turns=len(self.timeline.turns),
            at=self.timeline.times[first] if known else 0.0,
            offset_s=self._told_s,
            length_s=self.timeline.offsets[-1] if known else 0.0,
        )

    def at_fraction(self, fraction: float) -> int:
        """The event that stands at this part of the line, from 0 to 1."""
        return round(fraction * (self.count - 1))

    def at_offset(self, offset_s: float) -> int:
        """The last event at or before this time since the first; -1 before it."""
        return bisect_right(self.timeline.offsets, offset_s) - 1

    # -- playing -------------------------------------------------------------------------------------------------------

    async def play(self, show: Callable[[Sequence[Item]], None]) -> None:
        """Tell every item at its time until the end. Cancelling pauses it: nothing is told twice and nothing is lost.

        One wait to the next item at a time; another speed takes effect with the next `play`.
        """
        since = self._clock()
        while await self._fill():
            wait_s = (self._gap() - self._waited_s) / self.speed
            try:
                await self._sleep(max(TICK_S, wait_s))
            finally:
                now = self._clock()
                self._waited_s += max(0.0, now - since) * self.speed
                since = now
            if due := self._due():
                show(due)

    def _gap(self) -> float:
        """How long the next item is waited for, at the speed of the log."""
        gap = max(0.0, self._ahead[0][0] - self._told_s)
        return SKIPPED_WAIT_S if self.skips_waiting and gap > LONG_WAIT_S else gap

    def _due(self) -> list[Item]:
        """Take what has been waited for. Where more is due than can be told at once, it is played later than asked."""
        due: list[Item] = []
        while self._ahead and len(due) < AT_ONCE and (gap := self._gap()) <= self._waited_s:
            self._waited_s -= gap
            due.append(self._take())
        if len(due) == AT_ONCE:
            self._waited_s = 0.0
        return due

    def _take(self) -> Item:
        self._told_s, item = self._ahead.popleft()
        if isinstance(item, Envelope):
            self._at = item.id
        return item

    async def _fill(self) -> bool:
        """Have at least one item ahead. Answers whether there is one."""
        if not self._ahead and (self._at < self.count - 1 or self._spot is not None):
            piece = await self.timeline.read_on(self._at, self._spot)
            self._ahead.extend(piece.items)
            self._spot = piece.end
        return bool(self._ahead)

    async def next_event(self) -> list[Item]:
        """What comes up to the next event, told at once; nothing at the end."""
        told: list[Item] = []
        while await self._fill():  # reads once at most, so that cancelling loses nothing
            told.append(self._take())
            if isinstance(told[-1], Envelope):
                break
        self._waited_s = 0.0
        return told

    # -- seeking -------------------------------------------------------------------------------------------------------

    async def seek(self, event_id: int) -> ReplayState:
        """Go to an event; -1 is before the first. Costs the page, not the history. Cancelling leaves it where it was.

        Everything is answered that a screen needs to show that moment: fold it into fresh models.
        """
        target = max(-1, min(event_id, self.count - 1))
        scene = await self.timeline.state_at(target)
        self._at, self._waited_s = target, 0.0
        self._told_s = self.timeline.offsets[target] if target >= 0 else 0.0
        self._ahead.clear()
        self._spot = None
        return scene
