"""LogFollower: reads the log of a conversation that another process writes, as it grows.

The processes share only the home: the rows, and the lock file that the writer touches after each commit
(`core.store.locks`). The caller watches the folder of locks and calls `refresh`; nothing here polls, so an idle
conversation costs nothing. A socket would show terminal output before it is stored, but would need a server in every
process, access rules, and still the log for late readers.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from core.replay.player import AT_ONCE, Player
from core.replay.timeline import Item
from core.store.locks import is_running

if TYPE_CHECKING:
    from core.store.conversations import ConversationInfo
    from core.store.reader import EventReader

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
        """Whether it was deleted."""
        self._mark = ""

    async def refresh(self) -> None:
        """Update title, owner and timeline. Reads one row if nothing is new. Raises StoreError.

        If cancelled, the next refresh continues.
        """
        reader = self.timeline.reader
        found = await reader.listing.with_owner(self.info.id)
        self.is_gone = found is None
        if found is None:
            self.owner, self._mark = None, ""
            return
        self.info, mark = found
        locks = reader.home / LOCKS
        if mark and not await asyncio.to_thread(is_running, locks, mark):
            mark = ""
        if mark != self._mark or self.owner is None:
            self.owner = await asyncio.to_thread(_owner, locks, mark) if mark else None
            self._mark = mark
        if self.info.event_count > self.count:
            await self.timeline.grow()

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
