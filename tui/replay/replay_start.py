"""Opening and playing replays, and tabs that follow a conversation of another process.

Each replay has one worker: what the user wants next cancels it and begins another, so a held key never waits in line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from core.home import home_folder

if TYPE_CHECKING:
    from core.store.bookmarks import Bookmarks
    from core.store.conversations import ConversationInfo
    from core.store.reader import EventReader
    from tui.replay.follow_tab import FollowTab
    from tui.replay.replay_tab import ReplayTab
    from tui.workspace.context import Context

    T = TypeVar("T", bound=ReplayTab)


async def open_replay(
    app: Context, conversation_id: str, event_id: int | None = None, *, home: Path | None = None, speed: float = 1.0
) -> None:
    """Show a saved conversation as it was: after an event and paused, else played from its beginning.

    `home` is that of the app unless the conversation is kept elsewhere. Raises HandloomError.
    """
    await asyncio.to_thread(import_module, "tui.replay.replay_tab")
    from core.replay.player import Player
    from tui.replay.replay_tab import ReplayTab

    tab = await _opened(
        app,
        conversation_id,
        home or _home(app),
        lambda reader, info, book, resources: ReplayTab(Player(reader, info.id), info, book, app.wake, resources),
    )
    tab.set_speed(speed)
    tab.playing = event_id is None
    replay_to(app, tab, event_id)
    app.attempt(tab.read_signs(), tab.work_group("signs"))


async def open_followed(app: Context, conversation_id: str) -> FollowTab:
    """Show a conversation that another process has open at its end, but do not read on. Raises HandloomError."""
    await asyncio.to_thread(import_module, "tui.replay.follow_tab")
    from core.replay.log_follower import LogFollower
    from tui.replay.follow_tab import FollowTab

    return await _opened(
        app,
        conversation_id,
        _home(app),
        lambda reader, info, book, resources: FollowTab(LogFollower(reader, info), book, app.wake, resources),
    )


async def _opened(
    app: Context,
    conversation_id: str,
    home: Path,
    make: Callable[[EventReader, ConversationInfo, Bookmarks, AsyncExitStack], T],
) -> T:
    """A new tab for a conversation of this home, shown. Raises HandloomError."""
    from core.errors import UsageError
    from core.store.bookmarks import Bookmarks
    from core.store.reader import EventReader

    async with AsyncExitStack() as stack:
        reader = await stack.enter_async_context(EventReader(home))
        found = await reader.conversations(conversation_id=conversation_id)
        if not found:
            text = f"There is no conversation {conversation_id}. `handloom list` shows all conversations."
            raise UsageError(text)
        resources = AsyncExitStack()
        tab = make(reader, found[0], Bookmarks(home), resources)
        await tab.start()
        resources.push_async_callback(stack.pop_all().aclose)
    app.tabs.all.append(tab)
    app.tabs.show(tab)
    return tab


def _home(app: Context) -> Path:
    """Where the conversations of this app are kept."""
    return app.manager.store.home if app.manager is not None else app.options.home or home_folder(os.environ)


def replay_to(app: Context, tab: ReplayTab, event_id: int | None = None) -> None:
    """Go to an event, where one is named, then on if it plays. Takes the place of what the tab was doing."""
    if event_id is not None:
        tab.target = max(-1, min(event_id, tab.player.count - 1))
    app.attempt(tab.run(lambda: _folded(app, tab)), tab.work_group("replay"), exclusive=True)
    app.wake(tab)


def _folded(app: Context, tab: ReplayTab) -> None:
    """The tab's models are others."""
    if tab is app.tabs.current:
        app.workspace.show(tab)
