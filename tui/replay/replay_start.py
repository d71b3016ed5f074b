"""Opening replays, and following a conversation that another Handloom has open.

A replay is of a conversation of the home, or of a file, which is imported into a temporary home.

Each replay has one worker: a new command cancels it and starts another, so a held key never waits in line. Only the
process that owns a conversation can answer its questions; others read along. They watch the folder of locks
(`core.store.locks`); on systems without file notifications, such as macOS, End reads on. A conversation can be taken
over once its owner has closed it, and never before.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from core.environment import home_folder
from tui.file_watcher import RUNG, watch
from tui.i18n import _
from tui.shortcuts.command import keyed
from tui.trust.commands import ask_trust

if TYPE_CHECKING:
    from core.store.bookmarks import Bookmarks
    from core.store.conversations import ConversationInfo
    from core.store.reader import EventReader
    from tui.replay.replay_tab import FollowTab, ReplayTab
    from tui.workspace.context import Context

    T = TypeVar("T", bound=ReplayTab)
    from core.replay.player import Owner


async def open_replay(
    app: Context, conversation_id: str, event_id: int | None = None, *, home: Path | None = None, speed: float = 1.0
) -> None:
    """Show a saved conversation: paused after an event, else played from its beginning.

    `home` is that of the app unless the conversation is stored elsewhere. Raises HandloomError.
    """
    await asyncio.to_thread(import_module, "tui.replay.replay_tab")
    from core.replay.player import Player
    from tui.replay.replay_tab import ReplayTab

    tab = await open_tab(
        app,
        conversation_id,
        home or _home_of(app),
        lambda reader, info, bookmarks, resources: ReplayTab(
            Player(reader, info.id), info, bookmarks, app.wake, resources
        ),
    )
    tab.set_speed(speed)
    tab.playing = event_id is None
    replay_to(app, tab, event_id)
    app.attempt(tab.load_highlights(), tab.work_group("highlights"))


async def _open_follow_tab(app: Context, conversation_id: str) -> FollowTab:
    """Open a tab for a conversation of another process, without reading on. Raises HandloomError."""
    await asyncio.to_thread(import_module, "tui.replay.replay_tab")
    from core.replay.player import LogFollower
    from tui.replay.replay_tab import FollowTab

    return await open_tab(
        app,
        conversation_id,
        _home_of(app),
        lambda reader, info, bookmarks, stack: FollowTab(LogFollower(reader, info), bookmarks, app.wake, stack),
    )


async def open_tab(
    app: Context,
    conversation_id: str,
    home: Path,
    make: Callable[[EventReader, ConversationInfo, Bookmarks, AsyncExitStack], T],
) -> T:
    """Open a tab for a conversation of this home, and show it. Raises HandloomError."""
    from core.store.bookmarks import Bookmarks
    from core.store.reader import EventReader

    async with AsyncExitStack() as stack:
        reader = await stack.enter_async_context(EventReader(home))
        info = await reader.conversation(conversation_id)
        resources = AsyncExitStack()
        tab = make(reader, info, Bookmarks(home), resources)
        await tab.start()
        resources.push_async_callback(stack.pop_all().aclose)
    app.tabs.all.append(tab)
    app.tabs.show(tab)
    return tab


def _home_of(app: Context) -> Path:
    return app.manager.store.home if app.manager is not None else app.options.home or home_folder(os.environ)


def replay_to(app: Context, tab: ReplayTab, event_id: int | None = None) -> None:
    """Go to an event, if given, then play on if the tab is playing. Cancels what the tab was doing."""
    if event_id is not None:
        tab.target = max(-1, min(event_id, tab.player.count - 1))
    app.attempt(tab.run(lambda: _models_rebuilt(app, tab)), tab.work_group("replay"), exclusive=True)
    app.wake(tab)


def _models_rebuilt(app: Context, tab: ReplayTab) -> None:
    if tab is app.tabs.current:
        app.workspace.show(tab)


NEWEST = 2**53
"""An id after every event."""
REST_S = 0.2
"""Shortest time between two refreshes."""


async def follow(app: Context, conversation_id: str) -> None:
    """Show a conversation of another process in its tab, or in a new one. Raises HandloomError."""
    known = next((tab for tab in app.tabs.all if tab.is_replay and tab.id == conversation_id), None)
    if known is not None and hasattr(known, "followed"):
        app.tabs.show(known)
        return
    tab = await _open_follow_tab(app, conversation_id)
    tab.on_owner_change = lambda tab, before: _report_owner(app, tab, before)
    locks = tab.followed.timeline.reader.home / "locks"
    tab.watch = watch(locks, lambda: _on_commit(app, tab), RUNG, rest_s=REST_S)
    replay_to(app, tab, NEWEST)


def _on_commit(app: Context, tab: FollowTab) -> None:
    """Have the tab read new events."""
    tab.needs_refresh = True
    if tab in app.tabs.all and (tab.playing or not tab.busy):
        replay_to(app, tab)


def _report_owner(app: Context, tab: FollowTab, before: Owner | None) -> None:
    """Tell the user that the conversation can be taken over, and withdraw that if another process took it."""
    if tab.followed.is_gone:
        text = _("“{title}” was deleted. This tab keeps what was read until you close it.")
        app.report(text.format(title=tab.name))
    elif tab.followed.owner is None and before is not None:
        text = _("“{title}” is no longer open in {where}. {replay.live} continues it here; everything stored is there.")
        app.report(keyed(text, title=tab.name, where=tab.describe_owner(before)))
    elif tab.reported_free:
        app.workspace.notice.clear()
    tab.reported_free = tab.followed.owner is None


async def take_over(app: Context, tab: FollowTab) -> None:
    """Continue a conversation that has no owner; the text in the prompt stays.

    Raises StoreBusyError if another process was faster, HandloomError.
    """
    assert app.manager is not None
    if tab.watch is not None and tab.followed.owner is not None:
        app.report(tab.read_only_reason)
        return
    await ask_trust(app, tab.folder)
    live = await app.tabs.open(await app.manager.open(tab.id))
    live.draft = app.workspace.prompt.text if app.tabs.current is tab else tab.draft
    app.tabs.all.remove(live)
    app.tabs.all.insert(app.tabs.all.index(tab), live)
    app.workspace.notice.clear()
    app.tabs.show(live)
    await app.tabs.drop(tab)


def resolve_source(
    what: str, find: Callable[[str], Coroutine[Any, Any, tuple[Path, str]]], stack: ExitStack
) -> tuple[Path, str]:
    """The home and the id of the conversation that `what` names; temporary files are removed with `stack`.

    `find` finds an id by its beginning. Raises HandloomError for an unknown conversation or an unreadable file.
    """
    from core.errors import UsageError

    path = Path(what).expanduser()
    if not path.exists():
        if "/" in what or path.suffix:
            raise UsageError(f"There is no file {what!a}. Pass a file or a conversation ID (see `handloom list`).")
        return asyncio.run(find(what))
    scratch = Path(stack.enter_context(TemporaryDirectory(prefix="handloom-replay-")))
    return scratch, asyncio.run(_import(path, scratch))


async def _import(path: Path, home: Path) -> str:
    """Import a file into a home. Returns its conversation id."""
    from core.import_export.importer import import_file
    from core.store.event_store import EventStore

    async with EventStore(home) as store:
        conversation_id, _read = await import_file(store, path)
    return conversation_id
