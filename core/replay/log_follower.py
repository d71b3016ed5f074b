"""LogFollower: the log of a conversation that another process writes, read on as it grows.

Who reads has no way to the other process but the home that they share: its rows, and its lock, which is its bell
(`core.store.locks`). Whoever shows the conversation watches the folder of the locks and has `look` read on; nothing
here looks by itself, so a conversation in which nothing happens costs nothing. A socket of the owner's would carry
bytes of the terminal before they are stored, but needs a server in every Handloom, its own rules of who may connect,
and a way back to the log for whoever comes late; the log is there already, and is what holds.

It reads and can do nothing else, as its Player.
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
"""The folder of a home in which every process has its lock."""
_TERMINAL = re.compile(r"/dev/((?:pts/|tty)[0-9A-Za-z]{1,12})")


class Owner(NamedTuple):
    """The process that has a conversation open."""

    pid: int
    terminal: str
    """Such as `pts/3`; empty where it has none, or that cannot be known."""


class LogFollower(Player):
    """A conversation that goes on elsewhere. `look` reads on; `ahead` tells what came."""

    def __init__(self, reader: EventReader, info: ConversationInfo) -> None:
        super().__init__(reader, info.id)
        self.timeline.grows = True
        self.info = info
        """As it was stored when it was last looked at."""
        self.owner: Owner | None = None
        """Who has it open; None where nobody does, or nobody has looked yet."""
        self.is_gone = False
        """Whether it was deleted."""
        self._mark = ""

    async def refresh(self) -> None:
        """Read title, owner and the time line on. One row is read where nothing is new. Raises StoreError.

        Cancelling leaves a part of it for the next look.
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
        """The next of what has come, AT_ONCE items at most; nothing where all of it was told. Cancelling loses none."""
        told: list[Item] = []
        if await self._fill():
            while self._ahead and len(told) < AT_ONCE:
                told.append(self._take())
        self._waited_s = 0.0
        return told


def _owner(locks: Path, mark: str) -> Owner:
    """What is known of the process with this mark. A container counts its own: the lock tells whose it is."""
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
    except OSError:  # it was closed in this moment
        return ""
