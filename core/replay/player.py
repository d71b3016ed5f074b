"""Player: replays a saved conversation with its own timing. LogFollower: reads one that another process writes.

Both only read: they have an EventReader and a conversation id, but no runtime, no model, no network and no writing
store. An import contract ensures that. Progress is counted in seconds that were waited, so that pausing, changing the
speed and skipping waits need no extra bookkeeping. A Player sleeps until the next item instead of polling.

The processes of a followed conversation share only the home: the rows, and the lock file that the writer touches after
each commit (`core.store.locks`). The caller watches the folder of locks and calls `refresh`, so an idle conversation
costs nothing. A socket would show terminal output before it is stored, but would need a server in every process, access
rules, and still the log for late readers.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from core.events import Envelope
from core.replay.timeline import PAGE, Item, ReplayState, Timeline
from core.store.locks import is_running

if TYPE_CHECKING:
    from core.store.blobs import Blob, BlobRef
    from core.store.conversations import ConversationInfo
    from core.store.reader import EventFilter, EventReader, RecordingRow

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
TICK_S = 1 / 30
"""The shortest wait: items within one screen frame are shown together."""
LONG_WAIT_S, SKIPPED_WAIT_S = 2.0, 0.3
"""With "skip waiting", waits longer than the first take only the second."""
AT_ONCE = 200
"""Items that are shown together, so that keys are handled between them."""


class Position(NamedTuple):
    event: int
    """The id of the last event that was shown; -1 before the first."""
    events: int
    turn: int
    """The number of the current user message, from 1 on; 0 before the first."""
    turns: int
    at: float
    """The stored time of that event, in seconds since the epoch."""
    offset_s: float
    """The time since the first event, corrected for wrong clocks."""
    length_s: float

    @property
    def is_end(self) -> bool:
        """Whether everything was shown."""
        return self.event >= self.events - 1


class Player:
    """The replay of one conversation. Call `open` once; then one of `play`, `next_event` and `seek` at a time.

    Tests pass their own `clock` and `sleep`.
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
        """The speed factor, one of SPEEDS."""
        self._clock, self._sleep = clock, sleep
        self._at = -1
        self._waited_s = 0.0
        """The part of the wait for the next item that is over."""
        self._offset_s = 0.0
        """The offset of the last item that was shown."""
        self._ahead: deque[tuple[float, Item]] = deque()
        self._recording_row: RecordingRow | None = None
        """The recording row at which reading continues."""

    async def open(self) -> None:
        """Read the timeline. Raises StoreError."""
        await self.timeline.open()

    # -- the log up to the position ------------------------------------------------------------------------------------

    @property
    def latest_id(self) -> int:
        return self._at

    async def page(
        self, *, before: int | None = None, limit: int = PAGE, where: EventFilter | None = None
    ) -> list[Envelope]:
        """The last `limit` events before `before` that are not after the position."""
        end = self._at + 1 if before is None else min(before, self._at + 1)
        return await self.timeline.reader.read(
            self.timeline.conversation_id, before=end, limit=limit, newest=True, where=where
        )

    async def blob(self, ref: BlobRef) -> Blob | None:
        """A picture of the conversation; None if it is not stored."""
        return await self.timeline.reader.blob(self.timeline.conversation_id, ref)

    # -- where it is ---------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return self.timeline.count

    @property
    def position(self) -> Position:
        first = max(0, self._at)
        known = bool(self.timeline.times)
        return Position(
            event=self._at,
            events=self.count,
            turn=bisect_right(self.timeline.turns, self._at),
            turns=len(self.timeline.turns),
            at=self.timeline.times[first] if known else 0.0,
            offset_s=self._offset_s,
            length_s=self.timeline.offsets[-1] if known else 0.0,
        )

    def at_fraction(self, fraction: float) -> int:
        """The event at this fraction of the timeline, from 0 to 1."""
        return round(fraction * (self.count - 1))

    def at_offset(self, offset_s: float) -> int:
        """The last event at or before this time since the first; -1 before it."""
        return bisect_right(self.timeline.offsets, offset_s) - 1

    # -- playing -------------------------------------------------------------------------------------------------------

    async def play(self, show: Callable[[Sequence[Item]], None]) -> None:
        """Show every item at its time, until the end. Cancelling pauses: no item is shown twice or lost.

        A new speed takes effect with the next `play`.
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
        """The wait for the next item, at normal speed."""
        gap = max(0.0, self._ahead[0][0] - self._offset_s)
        return SKIPPED_WAIT_S if self.skips_waiting and gap > LONG_WAIT_S else gap

    def _due(self) -> list[Item]:
        """Take the items that are due. If too many are due at once, the replay falls behind."""
        due: list[Item] = []
        while self._ahead and len(due) < AT_ONCE and (gap := self._gap()) <= self._waited_s:
            self._waited_s -= gap
            due.append(self._take())
        if len(due) == AT_ONCE:
            self._waited_s = 0.0
        return due

    def _take(self) -> Item:
        self._offset_s, item = self._ahead.popleft()
        if isinstance(item, Envelope):
            self._at = item.id
        return item

    async def _fill(self) -> bool:
        """Read ahead if necessary. Returns whether there is a next item."""
        if not self._ahead and (self._at < self.count - 1 or self._recording_row is not None):
            piece = await self.timeline.read_on(self._at, self._recording_row)
            self._ahead.extend(piece.items)
            self._recording_row = piece.end
        return bool(self._ahead)

    async def next_event(self) -> list[Item]:
        """The items up to and including the next event; empty at the end."""
        items: list[Item] = []
        while await self._fill():  # reads once at most, so that cancelling loses nothing
            items.append(self._take())
            if isinstance(items[-1], Envelope):
                break
        self._waited_s = 0.0
        return items

    # -- seeking -------------------------------------------------------------------------------------------------------

    async def seek(self, event_id: int) -> ReplayState:
        """Go to an event; -1 is before the first. Returns what a screen needs to show that position.

        Cancelling keeps the old position.
        """
        target = max(-1, min(event_id, self.count - 1))
        state = await self.timeline.state_at(target)
        self._place_at(target)
        return state

    def _place_at(self, event_id: int) -> None:
        self._at, self._waited_s = event_id, 0.0
        self._offset_s = self.timeline.offsets[event_id] if event_id >= 0 else 0.0
        self._ahead.clear()
        self._recording_row = None


LOCKS = "locks"
"""The folder of a home with the lock files of its processes."""
_TERMINAL = re.compile(r"/dev/((?:pts/|tty)[0-9A-Za-z]{1,12})")


class Owner(NamedTuple):
    """The process that has a conversation open."""

    pid: int
    terminal: str
    """Such as `pts/3`; empty if it has none or that is unknown."""


class LogFollower(Player):
    """A conversation that continues in another process. Call `refresh`, then `new_items`."""

    def __init__(self, reader: EventReader, info: ConversationInfo) -> None:
        super().__init__(reader, info.id)
        self.timeline.grows = True
        self.info = info
        """The stored facts at the last refresh."""
        self.owner: Owner | None = None
        """The process that has it open; None if nobody does, and before the first refresh."""
        self.is_gone = False
        self._mark = ""
        self._key: int | None = None

    async def open(self) -> None:
        found = await self.timeline.reader.listing.with_owner(self.info.id)
        self._key = None if found is None else found[2]
        await super().open()

    async def refresh(self) -> bool:
        """Update title, owner and timeline. Reads one row if nothing is new. Raises StoreError.

        Returns whether other events have replaced those that were known: then the position must be drawn again. If
        cancelled, the next refresh continues.
        """
        reader = self.timeline.reader
        found = await reader.listing.with_owner(self.info.id)
        self.is_gone = found is None
        if found is None:
            self.owner, self._mark = None, ""
            return False
        self.info, mark, key = found
        locks = reader.home / LOCKS
        if mark and not await asyncio.to_thread(is_running, locks, mark):
            mark = ""
        if mark != self._mark or self.owner is None:
            self.owner = await asyncio.to_thread(_owner, locks, mark) if mark else None
            self._mark = mark
        if self._key not in (None, key):
            await self.timeline.open()
            self._key = key
            self._place_at(min(self._at, self.count - 1))  # there may be fewer
            return True
        self._key = key
        if self.info.event_count > self.count:
            await self.timeline.grow()
            now = await reader.listing.with_owner(self.info.id)
            if now is not None and now[2] != key:  # it was replaced meanwhile: what was read is of both
                return await self.refresh()
        return False

    async def new_items(self) -> list[Item]:
        """The next new items, at most AT_ONCE; empty if there are none. Cancelling loses none."""
        items: list[Item] = []
        if await self._fill():
            while self._ahead and len(items) < AT_ONCE:
                items.append(self._take())
        self._waited_s = 0.0
        return items


def _owner(locks: Path, mark: str) -> Owner:
    """The process with this mark. Its open lock file confirms the pid, because containers have their own pids."""
    pid = mark.split("-", maxsplit=1)[0]
    if not (pid.isascii() and pid.isdigit()):
        return Owner(0, "")
    folder, lock, terminal = Path("/proc", pid, "fd"), str((locks / f"{mark}.lock").resolve()), ""
    try:
        opened = {name: _link(folder / name) for name in os.listdir(folder)}
    except OSError:
        opened = {}
    if lock in opened.values() and (named := _TERMINAL.fullmatch(opened.get("0", ""))):
        terminal = named[1]
    return Owner(int(pid), terminal)


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:  # it was closed just now
        return ""
